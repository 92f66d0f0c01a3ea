package link

import (
	"context"
	"fmt"
	"slices"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/workspace"
)

// createAtOnce creates links of the usual kind on PostgreSQL, or finds them, in one round trip: the statement also
// checks the memberships and the destinations. It reports false, with nothing written, for other links, if a check
// fails, if the quota does not suffice, or if a unique index refuses a link: the caller finds out which by the
// transaction that handles all cases.
func (b *batch) createAtOnce(ctx context.Context) (done bool, err error) {
	done, err = b.findOrCreateAtOnce(ctx)
	switch {
	case db.IsRefused(err):
		done, err = false, nil // the transaction reports the value
	case done:
		b.finish()
		b.announce(ctx)
		// A link that was deleted must be revived.
		done = !slices.ContainsFunc(b.items, (*item).pending)
	}
	if !done && err == nil && b.isPresumed {
		err = errPresumed
	}
	return done, err
}

func (b *batch) findOrCreateAtOnce(ctx context.Context) (done bool, err error) {
	if b.DB.Kind != db.Postgres || b.member.IsPublic() || b.key != nil || b.policy == AllOrNothing ||
		slices.ContainsFunc(b.items, (*item).isUnusual) {
		return false, nil
	}
	items := b.unresolved()
	var members []workspace.Membership
	var urls []string
	var hashes [][]byte
	var records []*record
	for _, it := range items {
		if !b.assignCode(it) {
			return false, nil
		}
		members, urls = append(members, it.member), append(urls, it.draft.CanonicalURL)
		hashes, records = append(hashes, it.draft.CanonicalHash), append(records, recordOf(it.draft))
	}
	c := b.DB.Combine()
	checks, possible := b.Destinations.Allowed(c, urls...)
	if possible && b.isPresumed {
		var unchanged string
		unchanged, possible = workspace.Unchanged(c, members...)
		checks += " AND " + unchanged
	}
	if !possible || !fitsStatement(records) {
		return false, nil
	}
	c.Add("checks", "SELECT WHERE "+checks)
	// The lateral join is that of lookUp. The unique index is the cheapest plan even while there are hardly any links.
	c.Add("found", fmt.Sprintf(`SELECT link.* FROM checks, unnest(%s::BYTEA[]) AS wanted (hash) CROSS JOIN LATERAL (
		SELECT * FROM links WHERE workspace_id = %s AND strategy = 'DETERMINISTIC' AND canonical_hash = wanted.hash OFFSET 0
	) AS link`, c.Of(hashes), c.Of(b.member.ID())))
	b.addQuota(c, fmt.Sprintf("FROM checks, (SELECT %s::BIGINT - count(*) AS links FROM found) AS missing WHERE links > 0",
		c.Of(len(items))), "links")
	b.addInsertions(c, items, records, "input.canonical_hash NOT IN (SELECT canonical_hash FROM found)")
	found, done, err := db.FindOrCreate[*Link](ctx, c, "found", "created", len(items))
	if !done {
		return false, err
	}
	found = slices.DeleteFunc(found, func(l *Link) bool { return l.ID == "" })
	if err := b.useExisting(ctx, b.DB, items, found, nil, nil); err != nil {
		return false, err
	}
	for _, it := range items {
		if it.attempt == (Result{}) {
			it.attempt = it.created()
		}
	}
	return true, nil
}

// isUnusual reports whether createAtOnce leaves the item to the transaction, for example because of its errors.
func (it *item) isUnusual() bool {
	return it.Err != nil || it.isComplex() || it.draft.Strategy != Deterministic || it.draft.ExternalID != nil ||
		it.draft.MaxClicks != nil
}

// insertAtOnce creates the unresolved links with one statement on PostgreSQL. It reports false, with nothing
// written, if the quota does not suffice or a unique index refuses a link, and for links of other kinds.
func (b *batch) insertAtOnce(ctx context.Context) (created bool, err error) {
	items := b.unresolved()
	if b.DB.Kind != db.Postgres || b.member.IsPublic() || slices.ContainsFunc(b.items, (*item).isComplex) {
		return false, nil
	}
	records := make([]*record, 0, len(items))
	for _, it := range items {
		if it.tried = 0; !b.assignCode(it) {
			return false, nil
		}
		records = append(records, recordOf(it.draft))
	}
	if !fitsStatement(records) {
		return false, nil
	}
	c := b.DB.Combine()
	b.addQuota(c, "", c.Of(len(items)))
	b.addInsertions(c, items, records, "TRUE")
	if created, err = c.ExecReturning(ctx, "created", len(items)); !created {
		return false, err
	}
	for _, it := range items {
		it.attempt = it.created()
	}
	return true, nil
}

// addQuota adds the part quota, which consumes a number of links, and returns whether the quota suffices. Without a
// row of from, it returns none.
func (b *batch) addQuota(c *db.Combined, from, links string) {
	c.Add("quota", fmt.Sprintf(`INSERT INTO link_usage AS u (workspace_id, month, links) SELECT %s, %s, %s %s
		ON CONFLICT (workspace_id, month) DO UPDATE SET links = u.links + excluded.links RETURNING links <= %s AS suffices`,
		c.Of(b.member.ID()), c.Of(hitquota.MonthOf(b.now).String()), links, from, c.Of(b.QuotaOf(b.member))))
}

// addInsertions adds the part created, which inserts those of the records that the condition selects if the quota
// suffices, and what belongs to them.
func (b *batch) addInsertions(c *db.Combined, items []*item, records []*record, condition string) {
	in := insertFor(records)
	in.Rest = "WHERE (SELECT suffices FROM quota) AND " + condition + " " + in.Rest
	db.AddInsert(c, "created", in, records)
	tags, events := b.derived(items)
	db.AddInsert(c, "tags", db.Insert{Rest: "WHERE input.link_id IN (SELECT id FROM created)"}, tags)
	audit.Add(c, "input.target_id IN (SELECT id FROM created)", events...)
}

// isComplex reports whether the item has more to write than a link, its tags and its event.
func (it *item) isComplex() bool {
	return it.upsert != nil ||
		it.pending() && (it.draft.Routing != nil || it.draft.Metadata != "")
}

// created is the result of an item whose link was inserted.
func (it *item) created() Result {
	return Result{Link: it.draft, Created: true, OperationID: it.operationID}
}
