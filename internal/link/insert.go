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

// statementBytes bounds the text in one statement, and with it the memory of a batch.
const statementBytes = 1 << 20

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
	lookups, unsafe := b.Destinations.Lookups(tx, urlsOf(drafts)...)
	found := b.lookUps(tx, items)
	if err := b.DB.Pipe(ctx, tx, slices.Concat([]db.Lookup{recheck}, lookups, found.lookups)...); err != nil {
		return fmt.Errorf("reading what a creation depends on: %w", err)
	}
	refused := refusedMembers()
	if err := b.refresh(ctx, tx, refused); err != nil {
		return err
	}
	b.begin(refused)
	b.refuseDestinations(refusals(drafts, unsafe()))
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
			return errFailed
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
			it.facts.overQuota = b.errQuota(it.call.member, b.now)
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
			for n < len(rows) && size+rows[n].size() <= statementBytes {
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

// existing are the links that items may find, after lookups.
type existing struct {
	byHash, byCode, byExternalID []*Link
	lookups                      []db.Lookup
}

// lookUps returns the lookups of what items may find: the deterministic link for the URL, the one with the custom code,
// and the one with the external id.
func (b *batch) lookUps(tx bun.Tx, items []*item) *existing {
	hashes, codes, externalIDs := wanted[[]byte]{}, wanted[string]{}, wanted[string]{}
	for _, it := range items {
		workspaceID := it.call.member.ID()
		if it.draft.ExternalID != nil {
			externalIDs.add(workspaceID, *it.draft.ExternalID)
		}
		switch it.draft.Strategy {
		case Deterministic:
			hashes.add(workspaceID, it.draft.CanonicalHash)
		case Custom:
			codes.add(workspaceID, it.codes[0])
		}
	}
	e := &existing{}
	e.lookups = []db.Lookup{
		lookUp(b, tx, &e.byHash, "strategy = 'DETERMINISTIC'", "canonical_hash", "BYTEA", hashes),
		lookUp(b, tx, &e.byCode, "TRUE", "code", "TEXT", codes),
		lookUp(b, tx, &e.byExternalID, "TRUE", "external_id", "TEXT", externalIDs),
	}
	return e
}

// findUnresolved looks up the links of the unresolved items, and uses them.
func (b *batch) findUnresolved(ctx context.Context, tx bun.Tx) error {
	found := b.lookUps(tx, b.unresolved())
	if err := b.DB.Pipe(ctx, tx, found.lookups...); err != nil {
		return fmt.Errorf("selecting links: %w", err)
	}
	return b.use(ctx, tx, found)
}

// use decides about the unresolved items, which find their existing links.
func (b *batch) use(ctx context.Context, tx bun.Tx, e *existing) error {
	// A due change may have given a link another URL.
	if err := Complete(ctx, tx, b.now, slices.Concat(e.byHash, e.byCode, e.byExternalID)...); err != nil {
		return err
	}
	items := b.unresolved()
	e.match(items)
	return b.decide(ctx, tx, items)
}

// decide decides about items by the facts. A shared batch leaves items that it cannot serve. It returns errRetry if a
// password must be compared first, which takes too long for a transaction.
func (b *batch) decide(ctx context.Context, tx bun.Tx, items []*item) error {
	if err := b.loadTags(ctx, tx); err != nil {
		return err
	}
	for _, it := range items {
		it.decide()
	}
	if err := b.leave((*item).needsMore); err != nil {
		return err
	}
	if slices.ContainsFunc(b.items, (*item).needsComparison) {
		return errRetry
	}
	return nil
}

// decide decides about the item by its facts.
func (it *item) decide() {
	switch it.decision = decide(&it.proposal, &it.facts); it.decision.act {
	case returns, revives, changes:
		it.decision.link.In = it.call.member
		it.attempt = Result{Link: it.decision.link, Ignored: it.decision.ignored}
	case refuses:
		it.attempt = Result{Err: it.decision.err}
	}
}

// place is a workspace and a code or an external id.
type place struct{ workspaceID, key string }

// at returns the place of a code or an external id of the item.
func (it *item) at(key string) place { return place{it.call.member.ID(), key} }

// match gives items those of the links that they find.
func (e *existing) match(items []*item) {
	ofID, ofCode := make(map[place]*Link, len(e.byExternalID)), map[place]*Link{}
	for _, l := range e.byExternalID {
		ofID[place{l.WorkspaceID, *l.ExternalID}] = l
	}
	same := map[identity]*Link{}
	for _, l := range slices.Concat(e.byHash, e.byCode) {
		ofCode[place{l.WorkspaceID, l.Code}] = l
		same[identity{l.WorkspaceID, string(l.CanonicalHash), l.Code}] = l
		if l.Strategy == Deterministic {
			same[identity{workspaceID: l.WorkspaceID, hash: string(l.CanonicalHash)}] = l
		}
	}
	for _, it := range items {
		it.facts.same, it.facts.ofCode, it.facts.ofID = same[it.identity], nil, nil
		if it.draft.ExternalID != nil {
			it.facts.ofID = ofID[it.at(*it.draft.ExternalID)]
		}
		if it.draft.Strategy == Custom {
			it.facts.ofCode = ofCode[it.at(it.codes[0])]
		}
	}
}

// needsMore reports whether a shared batch leaves the item, because its link must be revived or its password compared.
func (it *item) needsMore() bool { return it.decision.act == revives || it.needsComparison() }

// leave leaves the calls of the workspaces with an item that meets the condition to other batches. Only a shared batch
// does so, and only before it has written anything: otherwise it returns errRetry.
func (b *batch) leave(condition func(*item) bool) error {
	gone := map[string]bool{}
	for _, it := range b.items {
		if b.isShared && condition(it) {
			gone[it.call.member.ID()] = true
		}
	}
	if len(gone) > 0 && b.quotas != nil {
		return errRetry
	}
	b.items = slices.DeleteFunc(b.items, func(it *item) bool {
		hasLeft := gone[it.call.member.ID()]
		it.call.hasLeft = it.call.hasLeft || hasLeft
		return hasLeft
	})
	return nil
}

// wanted are keys with their workspaces.
type wanted[K any] struct {
	workspaceIDs []string
	keys         []K
}

func (w *wanted[K]) add(workspaceID string, key K) {
	w.workspaceIDs, w.keys = append(w.workspaceIDs, workspaceID), append(w.keys, key)
}

// lookUp returns a lookup of links by their workspaces and another column of a unique key.
func lookUp[K any](
	b *batch, conn bun.IDB, links *[]*Link, where, column, kind string, w wanted[K],
) db.Lookup {
	if len(w.keys) == 0 {
		return db.Lookup{}
	}
	p := b.DB.Params()
	return db.Lookup{Params: p, Dest: links, Query: db.ByPairs(p, conn.NewSelect().Model(links), db.Pairs{
		Rows: "SELECT * FROM links WHERE " + where, As: "link", First: "workspace_id", Second: column, Kind: kind,
	}, w.workspaceIDs, w.keys)}
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
	var created []rewrite
	for _, it := range b.items {
		if it.attempt.Created {
			items, created = append(items, it), append(created, rewrite{before: &Link{}, after: it.draft})
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
