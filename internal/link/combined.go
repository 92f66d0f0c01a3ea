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

// createCombined creates or finds deterministic links without dependent rows on PostgreSQL, in one round trip: the
// statement also checks the memberships and the destinations. It reports whether all items have their results. The
// transaction of insert handles the others: it revives deleted links, and if the statement was rolled back, it finds
// out whether a check has failed, the quota does not suffice, or a unique index has refused a link.
func (b *batch) createCombined(ctx context.Context) (done bool, err error) {
	done, err = b.findOrCreateCombined(ctx)
	switch {
	case db.IsRefused(err):
		done, err = false, nil // the transaction reports the value
	case done:
		b.finish()
		b.announce(ctx)
		done, b.isPresumed = !slices.ContainsFunc(b.items, (*item).pending), false // the statement has checked the members
	}
	if !done && err == nil && b.isPresumed {
		err = errPresumed
	}
	return done, err
}

func (b *batch) findOrCreateCombined(ctx context.Context) (done bool, err error) {
	if b.DB.Kind != db.Postgres || b.member.IsPublic() || b.key != nil || b.policy == AllOrNothing ||
		slices.ContainsFunc(b.items, (*item).needsTransaction) {
		return false, nil
	}
	items := b.unresolved()
	var members []workspace.Membership
	for _, it := range b.items { // duplicates, too: they share the link with another member
		members = append(members, it.member)
	}
	var urls []string
	var hashes [][]byte
	var records []*record
	for _, it := range items {
		if !b.assignCode(it) {
			return false, nil
		}
		urls, hashes = append(urls, it.draft.CanonicalURL), append(hashes, it.draft.CanonicalHash)
		records = append(records, recordOf(it.draft))
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
	// The lateral join is that of lookUp, also for many links: the unique index is the cheapest plan for each hash, even
	// while there are hardly any links.
	c.Add("found", fmt.Sprintf(`SELECT link.* FROM checks, unnest(%s::BYTEA[]) AS wanted (hash) CROSS JOIN LATERAL (
		SELECT * FROM links WHERE workspace_id = %s AND strategy = 'DETERMINISTIC' AND canonical_hash = wanted.hash OFFSET 0
	) AS link`, c.Of(hashes), c.Of(b.member.ID())))
	b.addQuota(c, fmt.Sprintf("FROM checks, (SELECT %s::BIGINT - count(*) AS links FROM found) AS missing WHERE links > 0",
		c.Of(len(items))), "links")
	b.addInsertions(c, items, records, "input.canonical_hash NOT IN (SELECT canonical_hash FROM found)")
	found, done, err := db.FindOrCreate[*Link](ctx, c, "found", "created", len(items))
	b.isRolledBack = !done
	if !done {
		return false, err
	}
	b.settle(ctx, items, slices.DeleteFunc(found, func(l *Link) bool { return l.ID == "" })) // the row of NULLs
	return true, nil
}

// settle gives each item its link: one that was found, or else its draft, which was created.
func (b *batch) settle(ctx context.Context, items []*item, found []*Link) {
	existing := map[string]bool{}
	for _, l := range found {
		existing[string(l.CanonicalHash)] = true
	}
	var known []*item
	for _, it := range items {
		if existing[it.identity.hash] {
			known = append(known, it)
		} else {
			it.attempt = it.created()
		}
	}
	if err := b.useExisting(ctx, b.DB, known, found, nil, nil); err != nil {
		for _, it := range known {
			it.attempt = Result{Err: err}
		}
	}
}

// needsTransaction reports whether createCombined leaves the item to insert.
func (it *item) needsTransaction() bool {
	return it.Err != nil || it.hasDependentRows() || it.draft.Strategy != Deterministic || it.draft.ExternalID != nil ||
		it.draft.MaxClicks != nil
}

// insertCombined creates the unresolved links with one statement on PostgreSQL. It reports false, with nothing
// written, if the quota does not suffice or a unique index refuses a link, and for links of other kinds.
func (b *batch) insertCombined(ctx context.Context) (created bool, err error) {
	items := b.unresolved()
	if b.DB.Kind != db.Postgres || b.isRolledBack || b.member.IsPublic() ||
		slices.ContainsFunc(b.items, (*item).hasDependentRows) {
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

// addQuota adds the part quota, which consumes a number of links and returns whether the quota suffices. The number and
// from are SQL: if from selects no row, nothing is consumed, and the part has no row.
func (b *batch) addQuota(c *db.Combined, from, links string) {
	c.Add("quota", fmt.Sprintf(`INSERT INTO link_usage AS u (workspace_id, month, links) SELECT %s, %s, %s %s
		ON CONFLICT (workspace_id, month) DO UPDATE SET links = u.links + excluded.links RETURNING links <= %s AS suffices`,
		c.Of(b.member.ID()), c.Of(hitquota.MonthOf(b.now).String()), links, from, c.Of(b.QuotaOf(b.member))))
}

// addInsertions adds the part created, which inserts the records that the condition selects if the quota suffices, and
// parts for their tags and events.
func (b *batch) addInsertions(c *db.Combined, items []*item, records []*record, condition string) {
	in := insertFor(records)
	in.Rest = "WHERE (SELECT suffices FROM quota) AND " + condition + " " + in.Rest
	db.AddInsert(c, "created", in, records)
	tags, events := b.derived(items)
	db.AddInsert(c, "tags", db.Insert{Rest: "WHERE input.link_id IN (SELECT id FROM created)"}, tags)
	audit.Add(c, "input.target_id IN (SELECT id FROM created)", events...)
}

// hasDependentRows reports whether the item writes rows other than the link, its tags and its event.
func (it *item) hasDependentRows() bool {
	return it.upsert != nil ||
		it.pending() && (it.draft.Routing != nil || it.draft.Metadata != "")
}

// created is the result of an item whose link was inserted.
func (it *item) created() Result {
	return Result{Link: it.draft, Created: true, OperationID: it.operationID}
}
