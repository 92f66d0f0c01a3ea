package link

import (
	"context"
	"fmt"
	"slices"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/hitquota"
)

// createCombined creates or finds deterministic links without dependent rows on PostgreSQL, in one round trip: the
// statement also checks the memberships and the destinations. Concurrent batches of other workspaces share it. It
// reports whether all items have their results. The transaction of insert handles the others: it revives deleted links,
// and it finds out whether a check has failed, the quota does not suffice, or a unique index has refused a link.
func (b *batch) createCombined(ctx context.Context) (done bool, err error) {
	sh, possible := b.share()
	if possible {
		if err = b.execute(ctx, sh); db.IsRefused(err) {
			err = nil // the transaction reports the value
		}
	}
	if err != nil {
		return false, err
	}
	if b.isRolledBack = sh.isRolledBack; sh.isChecked {
		b.settle(ctx, sh)
		b.finish()
		b.announce(ctx)
		done, b.isPresumed = !slices.ContainsFunc(b.items, (*item).pending), false
	}
	if !done && b.isPresumed {
		return false, errPresumed
	}
	return done, nil
}

// share returns what the batch contributes to a combined statement, and whether that can handle all of its items.
func (b *batch) share() (sh *share, possible bool) {
	sh = &share{batch: b, items: b.unresolved()}
	if b.DB.Kind != db.Postgres || b.member.IsPublic() || b.key != nil || b.policy == AllOrNothing ||
		slices.ContainsFunc(b.items, (*item).needsTransaction) {
		return sh, false
	}
	for _, it := range sh.items {
		if !b.assignCode(it) {
			return sh, false
		}
		sh.urls, sh.records = append(sh.urls, it.draft.CanonicalURL), append(sh.records, recordOf(it.draft))
	}
	_, possible = b.Destinations.Allowed(b.DB.Combine(), sh.urls...)
	return sh, possible && fitsStatement(sh.records)
}

// settle gives each item its link: one that was found, or else its draft, if it was created.
func (b *batch) settle(ctx context.Context, sh *share) {
	existing := map[string]bool{}
	for _, l := range sh.found {
		existing[string(l.CanonicalHash)] = true
	}
	var known []*item
	for _, it := range sh.items {
		if existing[it.identity.hash] {
			known = append(known, it)
		} else if sh.isCharged {
			it.attempt = it.created()
		}
	}
	if err := b.useExisting(ctx, b.DB, known, sh.found, nil, nil); err != nil {
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
	c.Add("missing", fmt.Sprintf("SELECT %s AS workspace_id, %s AS month, %s::BIGINT AS links, %s::BIGINT AS quota",
		c.Of(b.member.ID()), c.Of(hitquota.MonthOf(b.now).String()), c.Of(len(items)), c.Of(b.QuotaOf(b.member))))
	addQuota(c, "missing WHERE links <= quota")
	addInsertions(c, []*share{{batch: b, items: items, records: records}}, "TRUE")
	if created, err = c.ExecReturning(ctx, "created", len(items)); !created {
		return false, err
	}
	for _, it := range items {
		it.attempt = it.created()
	}
	return true, nil
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
