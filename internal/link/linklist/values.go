package linklist

import (
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxExternalIDs is how many external ids a filter may have.
const maxExternalIDs = 100

// maxFolders and maxDomains are how many of them a filter may have.
const (
	maxFolders = 20
	maxDomains = 20
)

// check checks the values of the filter, and gives them the form that the database stores.
func (q *query) check() error {
	var searchErr, tagsErr, idsErr, pairErr, withoutErr, creatorErr, hostErr error
	q.words, searchErr = searchWords(optional.Value(q.Search))
	q.Tags, tagsErr = linkfield.CheckTags(q.Tags)
	q.ExternalIDs, idsErr = errs.Map(q.ExternalIDs, linkfield.CheckExternalID)
	if q.Metadata != nil {
		q.Metadata, pairErr = linkfield.CheckPair(q.Metadata)
	}
	q.WithoutTags, withoutErr = linkfield.CheckTags(q.WithoutTags)
	if q.CreatedByID != nil && !q.member.May(workspace.ReadMembers) {
		creatorErr = errs.New(errs.Forbidden, "The filter createdById needs the permission MEMBERS_READ.")
	} else if q.CreatedByID != nil && !id.Valid(id.Account, *q.CreatedByID) {
		creatorErr = errs.New(errs.InvalidInput, "createdById is not the id of a user.").At("createdById")
	}
	if q.Host != nil {
		q.hostKey, hostErr = hostKeyOf(*q.Host)
	}
	q.folders = q.member.Fence()
	if len(q.FolderIDs) > 0 {
		q.folders = q.visible(q.FolderIDs)
	}
	return errs.Under(errs.All(searchErr, errs.Under(tagsErr, "tags"),
		checkCount(q.ExternalIDs, maxExternalIDs, "external ids", "externalIds"), errs.Under(idsErr, "externalIds"),
		errs.Under(pairErr, "metadata"), creatorErr, hostErr,
		checkCount(q.FolderIDs, maxFolders, "folders", "folderIds"), errs.Under(withoutErr, "withoutTags"),
		checkCount(q.DomainIDs, maxDomains, "domains", "domainIds")), "filter")
}

// checkCount returns InvalidInput at a field with more values than a filter may have.
func checkCount(values []string, most int, name, field string) error {
	if len(values) <= most {
		return nil
	}
	return errs.New(errs.InvalidInput, "A filter has up to %d %s; these are %d.", most, name, len(values)).At(field)
}

func hostKeyOf(text string) (string, error) {
	host, err := urlnorm.Host(text)
	if err != nil {
		return "", errs.New(errs.InvalidInput, "host must be the name or address of a host.").At("host")
	}
	return link.HostKey(host), nil
}

// visible returns those of the folders that the caller can see; at least the id of no folder.
func (q *query) visible(folderIDs []string) (visible []string) {
	for _, folderID := range folderIDs {
		if id.Valid(id.Folder, folderID) && q.member.IsInside(&folderID) && !slices.Contains(visible, folderID) {
			visible = append(visible, folderID)
		}
	}
	if len(visible) == 0 {
		return []string{""}
	}
	return visible
}

// valueLookups select the IDs of links by indexes of values, those with the fewest links first.
// There is none for the creator and the host: the index of creations has both, so a walk along it
// reads no other links.
func (q *query) valueLookups() (lookups []*bun.SelectQuery) {
	links := func(order ...string) *bun.SelectQuery {
		return q.DB.NewSelect().TableExpr("links AS link").Column("id").Where("workspace_id = ?", q.member.ID()).
			Where("purged_at IS NULL").Order(order...)
	}
	if len(q.ExternalIDs) > 0 {
		lookups = append(lookups, q.whereExternalIDs(links()))
	}
	if q.Metadata != nil {
		lookups = append(lookups, q.DB.NewSelect().Table("link_metadata").Column("link_id").
			Where("workspace_id = ?", q.member.ID()).Where("key = ?", q.Metadata.Key).
			Where("value = ?", q.Metadata.Value).
			Order("link_id"))
	}
	if len(q.DomainIDs) > 0 {
		lookups = append(lookups, links().Where("domain_id IN (?)", bun.In(q.domains())))
	}
	if q.Origin != nil {
		lookups = append(lookups, q.DB.NewSelect().Table("link_origins").Column("link_id").
			Where("workspace_id = ?", q.member.ID()).Where("source = ?", *q.Origin).Order("label", "source_id"))
	}
	if !q.Expires.isOpen() {
		lookups = append(lookups, between(links("expires_at", "id"), "link.expires_at", q.Expires))
	}
	if !q.Updated.isOpen() {
		lookups = append(lookups, between(links("updated_at", "id"), "link.updated_at", q.Updated))
	}
	if q.HasRouting != nil && *q.HasRouting {
		lookups = append(lookups, links("id").Where("routing IS NOT NULL"))
	}
	return lookups
}

// whereValues adds the conditions on values.
func (q *query) whereValues(sel *bun.SelectQuery) *bun.SelectQuery {
	if len(q.ExternalIDs) > 0 {
		sel = q.whereExternalIDs(sel)
	}
	if q.Metadata != nil {
		sel = sel.Where("EXISTS (SELECT 1 FROM link_metadata AS pair WHERE pair.link_id = link.id AND pair.key = ? "+
			"AND pair.value = ?)", q.Metadata.Key, q.Metadata.Value)
	}
	if len(q.DomainIDs) > 0 {
		sel = sel.Where("link.domain_id IN (?)", bun.In(q.domains()))
	}
	if q.Origin != nil {
		sel = sel.Where("EXISTS (SELECT 1 FROM link_origins AS origin WHERE origin.link_id = link.id AND "+
			"origin.source = ?)", *q.Origin)
	}
	if q.InFolder != nil {
		sel = sel.Where("(link.folder_id IS NOT NULL) = ?", *q.InFolder)
	}
	if q.CreatedByID != nil {
		sel = sel.Where("link.created_by = ?", *q.CreatedByID)
	}
	if q.Host != nil {
		sel = q.whereHost(sel)
	}
	if q.leadsTo != "" {
		sel = sel.Where("link.id IN (?)", q.leading())
	}
	if len(q.WithoutTags) > 0 {
		sel = sel.Where("NOT EXISTS (SELECT 1 FROM link_tags "+
			"WHERE link_tags.link_id = link.id AND link_tags.tag IN (?))", bun.In(q.WithoutTags))
	}
	if len(q.Destination) > 0 {
		sel = sel.Where(worstState+" IN (?)", bun.In(q.Destination))
	}
	sel = between(sel, "link.created_at", q.Created)
	sel = between(sel, "link.updated_at", q.Updated)
	sel = between(sel, "link.expires_at", q.Expires)
	const clicked = "EXISTS (SELECT 1 FROM click_totals AS t WHERE t.subject_id = link.id AND t.clicks > 0 " +
		"AND t.last_at >= ?)"
	if from := q.LastClicked.From; from != nil {
		sel = sel.Where(clicked, db.Instant(*from))
	}
	if to := q.LastClicked.To; to != nil {
		sel = sel.Where("NOT "+clicked, db.Instant(*to))
	}
	if q.HasRouting != nil {
		sel = sel.Where("(link.routing IS NOT NULL) = ?", *q.HasRouting)
	}
	if q.HasScheduledChanges != nil {
		sel = sel.Where("(link.next_change_at IS NOT NULL) = ?", *q.HasScheduledChanges)
	}
	return sel
}

// domains returns the domains of the filter; the id of none in place of a text that is no id.
func (q *query) domains() (ids []string) {
	for _, domainID := range q.DomainIDs {
		if !id.Valid(id.Domain, domainID) {
			domainID = ""
		}
		ids = append(ids, domainID)
	}
	return ids
}

func (q *query) whereExternalIDs(sel *bun.SelectQuery) *bun.SelectQuery {
	return sel.Where("link.external_id IN (?)", bun.In(q.ExternalIDs))
}

// whereHost selects the host and all hosts below it: their keys begin with the key of the host.
func (q *query) whereHost(sel *bun.SelectQuery) *bun.SelectQuery {
	after := q.hostKey[:len(q.hostKey)-1] + "/" // the character after the dot
	return sel.Where("link.host_key >= ?", q.hostKey).Where("link.host_key < ?", after)
}

// leading selects the ids of the links that have leadsTo, by the indexes alone.
func (q *query) leading() *bun.SelectQuery {
	in := func(table, column string) *bun.SelectQuery {
		return q.DB.NewSelect().Table(table).Column(column).Where("workspace_id = ?", q.member.ID())
	}
	own := in("links", "id").Where("purged_at IS NULL").Where("host_key = ?", link.HostKey(q.leadsTo))
	return own.UnionAll(in("link_urls", "link_id").Where("host = ?", q.leadsTo))
}

// between bounds a column.
func between(sel *bun.SelectQuery, column string, within Range) *bun.SelectQuery {
	if within.From != nil {
		sel = sel.Where("? >= ?", bun.Safe(column), db.Instant(*within.From))
	}
	if within.To != nil {
		sel = sel.Where("? < ?", bun.Safe(column), db.Instant(*within.To))
	}
	return sel
}

// worstState is link.WorstState of Link.Checks in SQL. Severities are the positions in its order.
var (
	worstState = "CASE (CASE WHEN COALESCE(" + severityOfURLs + ", 0) > " + severityOfLink + " THEN " + severityOfURLs +
		" ELSE " + severityOfLink + " END) WHEN 0 THEN 'OK' WHEN 1 THEN 'UNCHECKED' WHEN 2 THEN 'BROKEN' " +
		"ELSE 'UNREACHABLE' END"
	severityOfLink = "(" + severityOf("link") + ")"
	severityOfURLs = "(SELECT max(" + severityOf("u") + `)
		FROM link_urls AS u WHERE u.link_id = link.id AND link.routing IS NOT NULL AND u.field <> 'card.imageUrl'
		AND u.field NOT LIKE '` + string(id.Scheduled) + `%')`
)

// severityOf is the severity of link.StateOf for a row with a check.
func severityOf(row string) string {
	refusals := strings.Trim(strings.ReplaceAll(fmt.Sprint(link.RefusesPrograms), " ", ", "), "[]")
	return strings.ReplaceAll(
		"CASE WHEN row.last_checked_at IS NULL THEN 1 WHEN row.destination_status IS NULL THEN 3 "+
			"WHEN row.destination_status >= 400 AND row.destination_status NOT IN ("+refusals+") THEN 2 ELSE 0 END",
		"row.", row+".")
}
