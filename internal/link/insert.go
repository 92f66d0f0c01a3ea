package link

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing/check"
	"github.com/linkforge/linkforge/internal/workspace"
)

// StatementBytes bounds the text in one statement, and with it the memory of a batch.
const StatementBytes = 1 << 20

// create reads what the results depend on, and writes what is missing, in one transaction. The database's unique
// indexes decide which of concurrent transactions creates a link; the others find the existing link, or try their next
// code if another URL has it.
func (b *batch) create(ctx context.Context, tx bun.Tx) error {
	for _, step := range []func(context.Context, bun.Tx) error{
		b.read, b.consumeQuotas, b.insert, b.revive, b.changeFound, b.recordCreated, b.returnQuotas, b.saveResults,
	} {
		if err := step(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// read starts an attempt with what the database has at once: which callers still have the permission, after the wait,
// which destinations are refused, and which links exist.
func (b *batch) read(ctx context.Context, tx bun.Tx) error {
	members, drafts := make([]workspace.Membership, len(b.calls)), []*Link{}
	b.items, b.quotas = nil, nil
	for i, c := range b.calls {
		members[i], b.items = c.member, append(b.items, c.items...)
	}
	items := slices.DeleteFunc(slices.Clone(b.items), func(it *item) bool { return it.Err != nil || it.isKnown() })
	for _, it := range items {
		drafts = append(drafts, it.draft)
	}
	recheck, refusedMembers := workspace.Recheck(b.DB, tx, workspace.WriteLinks, members)
	lookups, unsafe := b.Destinations.Lookups(tx, URLsOf(drafts)...)
	found := b.lookUps(tx, items)
	if err := b.DB.Pipe(ctx, tx, slices.Concat([]db.Lookup{recheck}, lookups, found.lookups)...); err != nil {
		return fmt.Errorf("reading what a creation depends on: %w", err)
	}
	refused := refusedMembers()
	if err := b.refresh(ctx, tx, refused); err != nil {
		return err
	}
	b.begin(refused)
	b.refuseDestinations(Refusals(drafts, unsafe()))
	return b.use(ctx, tx, found)
}

// refresh gives the calls of workspaces that have changed their present state, as it has the defaults and the quota.
// Then it returns errRetry.
func (b *batch) refresh(ctx context.Context, tx bun.Tx, refused []error) (err error) {
	isStale := false
	for i, c := range b.calls {
		if !errors.Is(refused[i], workspace.ErrStale) {
			continue
		}
		c.member, err = workspace.Refresh(ctx, tx, c.member)
		if errs.Is(err, errs.NotFound) {
			refused[i] = err
			continue
		} else if err != nil {
			return err
		}
		for _, it := range c.items {
			*it = item{call: c, proposal: proposal{in: it.in, upsert: it.upsert}}
		}
		isStale = true
	}
	if isStale {
		return errRetry
	}
	return nil
}

// begin starts an attempt with the items of the callers who have the permission. The error of the others is NotFound or
// Forbidden.
func (b *batch) begin(refused []error) {
	b.items = nil
	first := map[request]*item{}
	for i, c := range b.calls {
		if c.err, c.hasLeft = refused[i], false; c.err != nil {
			continue
		}
		for _, it := range c.items {
			b.items = append(b.items, it)
			b.start(it, first)
		}
	}
}

// refuseDestinations notes which items have a destination that is not allowed.
func (b *batch) refuseDestinations(refused map[*Link]*errs.Error) {
	for _, it := range b.unresolved() {
		if e := refused[it.draft]; e != nil {
			if it.facts.refused = e; len(e.Field) == 0 {
				it.facts.refused = e.At("url")
			}
		}
	}
}

// start resets the attempt of an item. Of equal items, only the first one has an attempt.
func (b *batch) start(it *item, first map[request]*item) {
	it.duplicateOf, it.facts, it.decision, it.attempt = nil, facts{}, decision{}, Result{}
	it.tried, it.revived = 0, false
	switch {
	case !it.pending():
		return
	case it.isKnown():
		it.facts.ofID = it.holder
		it.decide()
		return
	}
	if it.identity != (identity{}) {
		same := request{it.identity, optional.Value(it.draft.ExternalID)}
		if it.duplicateOf = first[same]; it.duplicateOf != nil {
			it.sharePassword()
			return
		}
		first[same] = it
	}
	b.assignCode(it)
}

// insert inserts the unresolved links as far as the quotas suffice.
func (b *batch) insert(ctx context.Context, tx bun.Tx) error {
	if b.isAllOrNothing() {
		if len(b.affordable(b.unresolved())) < len(b.unresolved()) { // others may have created them before the lock
			if err := b.findUnresolved(ctx, tx); err != nil {
				return err
			}
		}
		if unresolved := b.unresolved(); len(b.affordable(unresolved)) < len(unresolved) {
			b.refuseForQuota(unresolved)
		}
		if b.failed() { // inserts nothing, instead of rolling it back
			return ErrFailed
		}
	}
	for unresolved := b.unresolved(); len(unresolved) > 0; unresolved = b.unresolved() {
		candidates := distinct(b.affordable(unresolved))
		if err := b.insertDrafts(ctx, tx, candidates); err != nil {
			return err
		}
		b.learn(candidates)
		if err := b.findUnresolved(ctx, tx); err != nil {
			return err
		}
		if err := b.tryNextCodes(ctx, candidates); err != nil {
			return err
		}
	}
	return nil
}

// learn notes which candidates were not inserted, and which items the quota does not permit now.
func (b *batch) learn(candidates []*item) {
	for _, it := range candidates {
		if it.attempt.isEmpty() {
			it.tried++
			_, hasNext := b.nextCode(it)
			it.facts.isTaken, it.facts.hasNextCode = true, hasNext || it.draft.Strategy == Counter
		}
	}
	for _, it := range b.unresolved() {
		if b.quotaOf(it).left <= 0 {
			it.facts.overQuota = b.ErrQuota(it.call.member, b.now)
		}
	}
}

// tryNextCodes assigns the next code to the candidates that found their code taken. It returns errRetry if one must be
// generated.
func (b *batch) tryNextCodes(ctx context.Context, candidates []*item) error {
	for _, it := range candidates {
		isExhausted := errs.Is(it.attempt.Err, errs.CodeExhausted)
		if it.decision.act != triesNext && !isExhausted {
			continue
		}
		b.Log.WarnContext(ctx, "code collision", "workspace", it.call.member.ID(), "code", it.draft.Code,
			"strategy", it.draft.Strategy, "count", b.collisions.Add(1))
		if isExhausted {
			continue
		}
		if !b.assignCode(it) {
			it.codes = nil
			return errRetry
		}
		it.facts.isTaken = false
		it.decide()
	}
	return nil
}

// insertNew omits the columns that are null or zero in every new link.
var insertNew = db.Insert{
	Without: []string{
		"deleted_at", "disabled_at", "ended_at", "purged_at", "started_at", "expired_at", "destination_status",
		"last_checked_at", "check_failures", "version", "version_cause", "version_starts_at", "next_change_at",
	},
	Rest: "ON CONFLICT DO NOTHING RETURNING id",
}

// insertDrafts inserts the drafts that no unique index refuses. They are in the order of their codes, which are unique
// over the instance, so that transactions do not wait for each other in a circle.
func (b *batch) insertDrafts(ctx context.Context, tx bun.Tx, items []*item) error {
	records, byID := make([]*record, 0, len(items)), make(map[string]*item, len(items))
	for _, it := range items {
		records, byID[it.draft.ID] = append(records, recordOf(it.draft)), it
	}
	slices.SortFunc(records, func(a, b *record) int { return strings.Compare(a.Code, b.Code) })
	for chunk := range statements(records) {
		var ids []string
		if err := db.InsertReturning(ctx, tx, insertNew, chunk, &ids); err != nil {
			return err
		}
		for _, linkID := range ids {
			it := byID[linkID]
			it.attempt = Result{Link: it.draft, Created: true, OperationID: it.call.operationID}
			b.quotaOf(it).created++
			b.quotaOf(it).left--
		}
	}
	return nil
}

// statements divides rows so that the text of each part fits into a statement.
func statements(rows []*record) iter.Seq[[]*record] {
	return func(yield func([]*record) bool) {
		for len(rows) > 0 {
			n, size := 1, rows[0].size()
			for n < len(rows) && size+rows[n].size() <= StatementBytes {
				size += rows[n].size()
				n++
			}
			if !yield(rows[:n]) {
				return
			}
			rows = rows[n:]
		}
	}
}

// size returns about how many bytes the texts of the row have.
func (r *record) size() int {
	size := len(r.OriginalURL) + len(r.CanonicalURL) + len(optional.Value(r.Title)) + len(optional.Value(r.Note)) +
		len(r.Search) + len(r.Metadata) + 512
	if r.Routing != nil {
		size += check.MaxStored
	}
	return size
}

// derived returns the tags and the events of new links. Anonymous links have no audit log.
func (b *batch) derived(items []*item) (tags []tag, events []*audit.Event) {
	for _, it := range items {
		tags = append(tags, it.draft.tagRows()...)
		if !it.call.member.IsPublic() {
			event := it.call.member.Event(b.now, audit.LinkCreated, it.draft.ID, nil).WithVersion(1, nil)
			events = append(events, event.WithOperation(it.draft.VersionOperation))
		}
	}
	return tags, events
}

// recordCreated writes what belongs to links that were created: tags, metadata, routing and events.
func (b *batch) recordCreated(ctx context.Context, tx bun.Tx) error {
	var items []*item
	var created []Rewrite
	for _, it := range b.items {
		if it.attempt.Created {
			items, created = append(items, it), append(created, Rewrite{Before: &Link{}, After: it.draft})
		}
	}
	tags, events := b.derived(items)
	if err := insertTags(ctx, tx, tags); err != nil {
		return err
	}
	if err := b.writeDerived(ctx, tx, created); err != nil {
		return err
	}
	return audit.Write(ctx, tx, events...)
}
