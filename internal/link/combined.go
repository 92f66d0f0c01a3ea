package link

import (
	"context"
	"fmt"
	"slices"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/month"
	"github.com/linkforge/linkforge/internal/workspace"
)

// createCombined creates or finds deterministic links without dependent rows on PostgreSQL, by one statement that
// concurrent batches of other workspaces share. The statement also checks the memberships and the destinations. It
// reports whether all items have their results. Otherwise insert handles the others: it revives deleted links, and
// finds out why a link was not created. It returns errPresumed if the memberships are presumed and were not
// checked.
func (b *batch) createCombined(ctx context.Context) (done bool, err error) {
	c, possible := b.contribution()
	if possible {
		if err := b.createTogetherOrAlone(ctx, c); err != nil && !db.IsRefused(err) { // insert reports the value
			return false, err
		}
	}
	b.isRolledBack = c.isRolledBack
	switch {
	case !c.isChecked && b.isPresumed:
		return false, errPresumed
	case !c.isChecked:
		return false, nil
	}
	b.isPresumed = false
	b.setResults(ctx, c)
	b.finish()
	b.announce(ctx)
	return !slices.ContainsFunc(b.items, (*item).pending), nil
}

// contribution returns what the batch contributes to a statement, and whether that can handle all of its items.
func (b *batch) contribution() (c *contribution, possible bool) {
	c = &contribution{batch: b, unresolved: b.unresolved()}
	if !b.canUseStatement() || b.policy == AllOrNothing || b.key != nil ||
		slices.ContainsFunc(b.items, (*item).needsTransaction) {
		return c, false
	}
	for _, it := range c.unresolved {
		c.urls = append(c.urls, it.draft.CanonicalURL)
	}
	c.records, possible = b.rowsOf(c.unresolved)
	return c, possible
}

// canUseStatement reports whether one statement may create links of the workspace.
func (b *batch) canUseStatement() bool { return b.DB.Kind == db.Postgres && !b.member.IsPublic() }

// rowsOf gives items their first codes and returns their rows. It reports false if an item has no code, or one
// statement is not enough.
func (b *batch) rowsOf(items []*item) (rows []*record, possible bool) {
	for _, it := range items {
		if it.tried = 0; !b.assignCode(it) {
			return nil, false
		}
		rows = append(rows, recordOf(it.draft))
	}
	return rows, fitsStatement(rows)
}

// setResults gives each item its link: one that was found, or else its draft, if it was created.
func (b *batch) setResults(ctx context.Context, c *contribution) {
	existing := map[string]bool{}
	for _, l := range c.found {
		existing[string(l.CanonicalHash)] = true
	}
	var found []*item
	for _, it := range c.unresolved {
		if existing[it.identity.hash] {
			found = append(found, it)
		} else if c.isCharged {
			it.attempt = it.created()
		}
	}
	if err := b.useExisting(ctx, b.DB, found, c.found, nil, nil); err != nil {
		for _, it := range found {
			it.attempt = Result{Err: err}
		}
	}
}

// needsTransaction reports whether createCombined leaves the item to insert. It does so with an invalid one: its
// error must not be returned before a presumed membership is confirmed.
func (it *item) needsTransaction() bool {
	return it.Err != nil || it.hasDependentRows() || it.draft.Strategy != Deterministic || it.draft.ExternalID != nil
}

// insertCombined creates the unresolved links with one statement on PostgreSQL. It reports false, with nothing
// written, if the quota does not suffice or a unique index refuses a link, as after a statement that was rolled
// back, and for links of other kinds.
func (b *batch) insertCombined(ctx context.Context) (created bool, err error) {
	items := b.unresolved()
	if !b.canUseStatement() || b.isRolledBack || int64(len(items)) > b.QuotaOf(b.member) ||
		slices.ContainsFunc(b.items, (*item).hasDependentRows) {
		return false, nil
	}
	records, possible := b.rowsOf(items)
	if !possible {
		return false, nil
	}
	statement := b.DB.Combine()
	statement.Add("missing", fmt.Sprintf(
		"SELECT %s AS workspace_id, %s AS month, %s::BIGINT AS links, %s::BIGINT AS quota", statement.Of(b.member.ID()),
		statement.Of(month.Of(b.now).String()), statement.Of(len(items)), statement.Of(b.QuotaOf(b.member))))
	addQuota(statement, "missing")
	addInsertions(statement, []*contribution{{batch: b, unresolved: items, records: records}},
		workspace.Permitted(statement, workspace.WriteLinks, b.members()...))
	if created, err = statement.ExecReturning(ctx, "created", len(items)); !created {
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
		(it.pending() || it.duplicateOf != nil) &&
			(it.draft.Routing != nil || it.draft.MaxClicks != nil || it.draft.Metadata != "")
}

// created is the result of an item whose link was inserted.
func (it *item) created() Result {
	return Result{Link: it.draft, Created: true, OperationID: it.operationID}
}
