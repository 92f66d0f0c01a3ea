package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// section is a part of a workspace in its archive.
type section struct {
	is         Section
	permission workspace.Permission
	// isDefault means that it is exported unless sections are chosen.
	isDefault bool
	// read returns at most size records after a position, in their order: none at the end.
	read func(e *export, ctx context.Context, after string, size int) ([]record, error)
	// count returns about how many records there are.
	count func(e *export, ctx context.Context) (int64, error)
}

// record is a record of a section.
type record struct {
	// is what JSON has of it.
	is any
	// position is that of the record, and file the beginning of the name of its file; empty for
	// files with numbers alone.
	position, file string
}

// sections are in the order of archives.
var sections = []section{
	{Folders, workspace.ReadLinks, true, (*export).folders, countOf("folders", "id")},
	{Domains, workspace.ReadDomains, true, (*export).domains, countOf("domains", "")},
	{Members, workspace.ReadMembers, true, (*export).members, countOf("members", "")},
	{Links, workspace.ReadLinks, true, (*export).links, countOf("links", "folder_id")},
	{Versions, workspace.ReadLinks, true, (*export).versions, (*export).countVersions},
	{Clicks, workspace.ReadStats, false, (*export).clicks, (*export).countClicks},
	{Audit, workspace.ReadAudit, false, (*export).audit, countOf("audit_events", "")},
}

// countOf counts the rows of a table of the workspace. A fence applies to the column; empty for
// none.
func countOf(table, fence string) func(*export, context.Context) (int64, error) {
	return func(e *export, ctx context.Context) (int64, error) {
		q := e.DB.NewSelect().Table(table).Where("workspace_id = ?", e.WorkspaceID)
		if fence != "" {
			q = q.Apply(e.Member.Inside(fence))
		}
		if table == "links" {
			q = q.Where("purged_at IS NULL")
		}
		return q.Count(ctx)
	}
}

// ascending selects the rows after an id.
func ascending(after string, size int) page.Request {
	return page.Request{Order: page.Order{Ascending: true}, Size: size, After: after}
}

func (e *export) folders(ctx context.Context, after string, size int) (records []record, err error) {
	p, err := e.Folders.Rows().List(ctx, e.Member, ascending(after, size))
	for _, f := range p.Items {
		records = append(records, record{is: archivedFolder{f.ID, f.Name, f.CreatedAt.UTC()}, position: f.ID})
	}
	return records, err
}

func (e *export) domains(ctx context.Context, after string, size int) (records []record, err error) {
	p, err := e.Domains.Rows().List(ctx, e.Member, ascending(after, size))
	primary := e.Member.Workspace().PrimaryHost
	for _, d := range p.Items {
		records = append(records, record{position: d.ID, is: archivedDomain{
			ID: d.ID, Host: d.Host, CodeSpace: d.CodeSpace, CaseSensitive: d.CaseSensitive, Status: d.Status(),
			Primary: primary != nil && *primary == d.Host && d.VerifiedAt != nil,
		}})
	}
	return records, err
}

func (e *export) members(ctx context.Context, after string, size int) (records []record, err error) {
	p, err := e.Workspaces.Members(ctx, e.Member, ascending(after, size))
	if err != nil || len(p.Items) == 0 {
		return nil, err
	}
	var ids []string
	for _, m := range p.Items {
		ids = append(ids, m.AccountID)
	}
	accounts, err := e.Accounts.Load(ctx, ids...)
	for _, m := range p.Items {
		r := archivedMember{Role: m.Role}
		if a := accounts[m.AccountID]; a != nil {
			r.Email = a.Email
		}
		records = append(records, record{is: r, position: m.AccountID})
	}
	return records, err
}

// links returns links that are not purged, in the order of their ids.
func (e *export) links(ctx context.Context, after string, size int) (records []record, err error) {
	p, err := workspace.Collection[link.Link]{
		DB: e.DB, Permission: workspace.ReadLinks, Prefix: id.Link, Column: "id", Where: "purged_at IS NULL",
		Fence: "folder_id",
		In:    func(l *link.Link, m workspace.Membership) { l.In = m },
	}.List(ctx, e.Member, ascending(after, size))
	if err != nil || len(p.Items) == 0 {
		return nil, err
	}
	archived, err := e.Imports.Archived(ctx, e.Member, p.Items)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, l := range p.Items {
		ids = append(ids, l.ID)
	}
	if ctx, err = e.Member.Enter(ctx, workspace.ReadLinks); err != nil {
		return nil, err
	}
	totals, err := e.Ledger.Totals(ctx, e.Member.ID(), ids...)
	for _, l := range archived {
		if total, ok := totals[l.ID]; ok {
			l.ClickCount, l.LastClickedAt = total.Clicks, &total.LastAt
		}
		records = append(records, record{is: l, position: l.ID})
	}
	return records, err
}

// versionPosition is the place of a version: those of a link are together.
type versionPosition struct {
	LinkID string
	Number int
}

// versions merges superseded versions with the newest ones, which are the rows of links.
func (e *export) versions(ctx context.Context, after string, size int) (records []record, err error) {
	at := versionPosition{}
	if after != "" {
		if err := json.Unmarshal([]byte(after), &at); err != nil {
			return nil, fmt.Errorf("decoding the position of a version: %w", err)
		}
	}
	// before the others, so that one that a change supersedes meanwhile is found
	versions, err := e.newestVersions(ctx, at, size)
	if err != nil {
		return nil, err
	}
	var rows []*link.VersionRow
	err = e.DB.NewSelect().Model(&rows).Where("workspace_id = ?", e.WorkspaceID).Apply(e.Member.InsideByID("link_id")).
		Where("(link_id, number) > (?, ?)", at.LinkID, at.Number).
		Where("EXISTS (SELECT 1 FROM links WHERE links.id = link_id AND purged_at IS NULL)").
		Order("link_id", "number").Limit(int64(size)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading versions: %w", err)
	}
	for _, row := range rows {
		v, err := row.Version(&link.Link{ID: row.LinkID})
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	place := func(v *link.Version) versionPosition { return versionPosition{v.Link.ID, v.Number} }
	slices.SortStableFunc(versions, func(a, b *link.Version) int {
		return cmp.Or(cmp.Compare(a.Link.ID, b.Link.ID), cmp.Compare(a.Number, b.Number))
	})
	versions = slices.CompactFunc(versions, func(a, b *link.Version) bool { return place(a) == place(b) })
	for _, v := range versions[:min(len(versions), size)] {
		position, err := json.Marshal(place(v))
		if err != nil {
			return nil, err
		}
		records = append(records, record{is: newArchivedVersion(v), position: string(position)})
	}
	return records, nil
}

// newestVersions returns the newest versions of links after a position.
func (e *export) newestVersions(
	ctx context.Context, at versionPosition, size int,
) (versions []*link.Version, err error) {
	var links []*link.Link
	err = e.DB.NewSelect().Model(&links).Where("workspace_id = ?", e.WorkspaceID).Where("purged_at IS NULL").
		Apply(e.Member.Inside("folder_id")).Where("(id, version) > (?, ?)", at.LinkID, at.Number).Order("id").
		Limit(int64(size)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the newest versions: %w", err)
	}
	if err := link.LoadTags(ctx, e.DB, links...); err != nil {
		return nil, err
	}
	for _, l := range links {
		versions = append(versions, &link.Version{
			Snapshot: *l.Snapshot(l.Tags), Link: l, Number: l.Version, From: l.VersionFrom(), Cause: l.VersionCause,
			ActorID: l.VersionActor, OperationID: l.VersionOperation,
		})
	}
	return versions, nil
}

func (e *export) countVersions(ctx context.Context) (int64, error) {
	newest, err := countOf("links", "folder_id")(e, ctx)
	if err != nil {
		return 0, err
	}
	superseded, err := e.DB.NewSelect().Model((*link.VersionRow)(nil)).Where("workspace_id = ?", e.WorkspaceID).
		Apply(e.Member.InsideByID("link_id")).Count(ctx)
	return newest + superseded, err
}

// queryOfClicks selects the clicks of the export.
func (e *export) queryOfClicks() clickstore.Query {
	q := clickstore.Query{WorkspaceID: e.Member.ID(), Range: e.in.Clicks}
	if e.Member.Fence() != nil {
		q.Links = e.DB.NewSelect().Table("links").Column("id").Where("workspace_id = ?", e.WorkspaceID).
			Apply(e.Member.Inside("folder_id"))
	}
	return q
}

// clicks returns clicks in the order of time, with a file for each month.
func (e *export) clicks(ctx context.Context, after string, size int) (records []record, err error) {
	p := clickstore.Page{Size: size}
	if at, number, ok := click.SplitID(after); ok {
		p.After = &click.Click{ID: number, ClickedAt: at}
	}
	ctx, err = e.Member.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	found, err := e.Clicks.List(ctx, e.queryOfClicks(), p)
	for _, c := range found {
		records = append(records,
			record{is: (*stats.ExportLine)(c), position: c.PublicID(), file: click.MonthOf(c.ClickedAt).String()})
	}
	return records, err
}

func (e *export) countClicks(ctx context.Context) (n int64, err error) {
	q := e.queryOfClicks()
	if q.Range == (clickstore.Range{}) {
		now := e.now()
		q.Range = clickstore.Range{From: clickstore.KeptSince(now, 0),
			To: now.Truncate(click.BucketLength).Add(click.BucketLength)}
	}
	ctx, err = e.Member.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return 0, err
	}
	points, err := e.Clicks.Points(ctx, q, nil)
	for _, one := range points {
		n += one.Clicks
	}
	return n, err
}

// audit returns the audit log, newest first.
func (e *export) audit(ctx context.Context, after string, size int) (records []record, err error) {
	p, err := e.Workspaces.AuditLog(ctx, e.Member, nil, page.Request{Size: size, After: after})
	for _, one := range p.Items {
		records = append(records, record{is: one.Line(), position: one.ID})
	}
	return records, err
}
