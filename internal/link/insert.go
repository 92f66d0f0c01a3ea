package link

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// statementBytes bounds the text in one statement, and with it the memory of a batch.
	statementBytes = 1 << 20
	// maxPreparedLookups is the largest lookup by a prepared statement. Its plan may date from when
	// there were hardly any links, and read all of them for each key until PostgreSQL analyzes the
	// table. With many keys, planning costs little per key.
	maxPreparedLookups = 16
)

// insert inserts the unresolved links. The database's unique indexes decide which of concurrent
// requests creates a link; the others find the existing link, or try their next code if another URL
// has it.
//
// The quota is consumed first, for all of the links, and the unused part is returned. That locks
// its row, so batches of a workspace run one after the other and cannot deadlock. It returns NotFound or Forbidden if
// a caller has lost the permission while the batch waited.
func (b *batch) insert(ctx context.Context, tx bun.Tx) error {
	for _, m := range b.members() {
		if err := workspace.Recheck(ctx, tx, m, workspace.WriteLinks); err != nil {
			return err
		}
	}
	for _, it := range b.items {
		it.attempt, it.tried, it.revived = Result{}, 0, false
		if it.pending() {
			it.found = nil
		}
		switch {
		case it.pending() && it.isKnown():
			it.attempt.Link = it.holder
		case it.pending():
			b.assignCode(it)
		}
	}
	unresolved := b.unresolved()
	consumed := len(unresolved)
	if consumed == 0 && b.key == nil {
		return b.changeFound(ctx, tx)
	}
	left, err := b.consumeQuota(ctx, tx, b.member, b.now, consumed)
	if err != nil {
		return err
	}
	if b.policy == AllOrNothing && left < consumed {
		if err := b.findExisting(ctx, tx, unresolved); err != nil {
			return err
		}
		if unresolved = b.unresolved(); left < len(unresolved) { // inserts nothing, instead of rolling it back
			b.refuseForQuota(unresolved)
			return errFailed
		}
	}
	created := 0
	for ; len(unresolved) > 0; unresolved = b.unresolved() {
		candidates := unresolved[:min(len(unresolved), max(left-created, 0))]
		n, err := b.insertDrafts(ctx, tx, candidates)
		if err != nil {
			return err
		}
		created += n
		if err := b.findExisting(ctx, tx, b.unresolved()); err != nil {
			return err
		}
		if err := b.tryNextCodes(ctx, candidates); err != nil {
			return err
		}
		if created >= left {
			b.refuseForQuota(b.unresolved())
		}
	}
	if err := b.revive(ctx, tx); err != nil {
		return err
	}
	if err := b.changeFound(ctx, tx); err != nil {
		return err
	}
	if err := b.recordCreated(ctx, tx); err != nil {
		return err
	}
	if err := b.returnQuota(ctx, tx, b.member, b.now, consumed-created); err != nil {
		return err
	}
	return b.saveResults(ctx, tx)
}

// refuseForQuota fails items because the quota is used up.
func (b *batch) refuseForQuota(items []*item) {
	for _, it := range items {
		it.attempt.Err = b.errQuota(b.member, b.now)
	}
}

// tryNextCodes assigns the next code to the candidates that found their code taken.
func (b *batch) tryNextCodes(ctx context.Context, candidates []*item) error {
	for _, it := range candidates {
		if !it.attempt.isEmpty() {
			continue
		}
		if it.draft.Strategy != Custom {
			b.Log.WarnContext(ctx, "code collision", "workspace", b.member.ID(), "code", it.draft.Code,
				"strategy", it.draft.Strategy, "count", b.collisions.Add(1))
		}
		if it.tried++; b.assignCode(it) {
			continue
		}
		if it.draft.Strategy == Counter {
			it.codes = nil
			return errRetry
		}
		it.attempt.Err = errNoCode(it.draft.Strategy)
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

// insertPlain is insertNew of links without a password and without an id or data of the caller, which are no
// upserts either.
var insertPlain = db.Insert{
	Without: append([]string{"external_id", "metadata", "archived_at", "stats_public", "password_hash"},
		insertNew.Without...),
	Rest: insertNew.Rest,
}

// insertFor returns the shortest insertion that suits the links.
func insertFor(links []*record) db.Insert {
	if slices.ContainsFunc(links, (*record).hasOwnData) {
		return insertNew
	}
	return insertPlain
}

// insertDrafts inserts the drafts that no unique index refuses, and returns how many.
func (b *batch) insertDrafts(ctx context.Context, tx bun.Tx, items []*item) (created int, err error) {
	records, byID := make([]*record, 0, len(items)), make(map[string]*item, len(items))
	for _, it := range items {
		records, byID[it.draft.ID] = append(records, recordOf(it.draft)), it
	}
	for chunk := range statements(records) {
		var ids []string
		if err := db.InsertReturning(ctx, tx, insertFor(chunk), chunk, &ids); err != nil {
			return created, err
		}
		for _, linkID := range ids {
			byID[linkID].attempt = byID[linkID].created()
		}
		created += len(ids)
	}
	return created, nil
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
		size += routing.MaxStored
	}
	return size
}

func sizeOf(rows []*record) (size int) {
	for _, r := range rows {
		size += r.size()
	}
	return size
}

// fitsStatement reports whether the text of rows fits into one statement.
func fitsStatement(rows []*record) bool { return len(rows) <= 1 || sizeOf(rows) <= statementBytes }

// findExisting gives items their existing links: the deterministic one for the URL, or the one with
// both the custom code and the URL. An item fails if its custom code belongs to another URL, if the
// operator has disabled the link, if the link has another external id, or if another link has that.
func (b *batch) findExisting(ctx context.Context, conn bun.IDB, items []*item) error {
	var hashes [][]byte
	var codes, externalIDs []string
	for _, it := range items {
		if it.draft.ExternalID != nil {
			externalIDs = append(externalIDs, *it.draft.ExternalID)
		}
		switch it.draft.Strategy {
		case Deterministic:
			hashes = append(hashes, it.draft.CanonicalHash)
		case Custom:
			codes = append(codes, it.codes[0])
		}
	}
	byHash, err := lookUp(ctx, b, conn, "strategy = 'DETERMINISTIC' AND canonical_hash", "BYTEA", hashes)
	if err != nil {
		return err
	}
	byCode, err := lookUp(ctx, b, conn, "code", "TEXT", codes)
	if err != nil {
		return err
	}
	byExternalID, err := lookUp(ctx, b, conn, "external_id", "TEXT", externalIDs)
	if err != nil {
		return err
	}
	return b.useExisting(ctx, conn, items, byHash, byCode, byExternalID)
}

// useExisting is findExisting for the links that were found by each key.
func (b *batch) useExisting(
	ctx context.Context, conn bun.IDB, items []*item, byHash, byCode, byExternalID []*Link,
) error {
	// A due change may have given a link another URL.
	if err := Complete(ctx, conn, b.now, slices.Concat(byHash, byCode, byExternalID)...); err != nil {
		return err
	}
	holders := make(map[string]*Link, len(byExternalID))
	for _, l := range byExternalID {
		holders[*l.ExternalID] = l
	}
	existing, taken := map[identity]*Link{}, map[string]*Link{}
	for _, l := range append(byHash, byCode...) {
		taken[l.Code] = l
		existing[identity{hash: string(l.CanonicalHash), code: l.Code}] = l
		if l.Strategy == Deterministic {
			existing[identity{hash: string(l.CanonicalHash)}] = l
		}
	}
	for _, it := range items {
		l := existing[it.identity]
		it.found = nil
		switch {
		case it.upsert != nil:
			it.adopt(holders, existing, taken)
		case l != nil && l.DisabledAt != nil:
			it.attempt.Err = errDisabled().At("url")
		case it.wantsOtherID(l):
			it.attempt.Err = errExistsWithout("externalId")
		case it.isExternalIDTaken(holders, l):
			it.attempt.Err = errExternalIDTaken()
		case l != nil:
			l.In, it.found = it.member, l
		case it.draft.Strategy == Custom && taken[it.codes[0]] != nil:
			it.attempt.Err = errNoCode(Custom)
		}
	}
	return b.reuseFound(ctx, conn, items)
}

// wantsOtherID reports whether the existing link has not the external id of the item.
func (it *item) wantsOtherID(existing *Link) bool {
	return existing != nil && existing.PurgedAt == nil && it.draft.ExternalID != nil &&
		!optional.Equal(it.draft.ExternalID, existing.ExternalID)
}

// isExternalIDTaken reports whether another link than the existing one has the item's external id.
func (it *item) isExternalIDTaken(holders map[string]*Link, existing *Link) bool {
	if it.draft.ExternalID == nil {
		return false
	}
	holder := holders[*it.draft.ExternalID]
	return holder != nil && (existing == nil || holder.ID != existing.ID)
}

// lookUp finds links of the workspace by a unique key. The lateral join makes PostgreSQL look up
// each key by itself: the plan of a prepared statement, made for a workspace of average size, might
// read all links of a large one.
func lookUp[K any](
	ctx context.Context, b *batch, conn bun.IDB, key, kind string, wanted []K,
) (links []*Link, err error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	q := conn.NewSelect().Model(&links)
	var p *db.Params
	if len(wanted) <= maxPreparedLookups {
		p = b.DB.Params()
	}
	if p == nil {
		q = q.Where("workspace_id = ?", b.member.ID()).Where(key+" IN (?)", bun.In(wanted))
	} else {
		q = q.ModelTableExpr("unnest(?::"+kind+"[]) AS wanted (key) CROSS JOIN LATERAL (SELECT * FROM links WHERE "+
			"workspace_id = ? AND "+key+" = wanted.key OFFSET 0) AS link", p.Of(wanted), p.Of(b.member.ID()))
	}
	if err := q.Scan(p.Bind(ctx)); err != nil {
		return nil, fmt.Errorf("selecting links: %w", err)
	}
	return links, nil
}

// derived returns the tags and the events of new links. Anonymous links have no audit log.
func (b *batch) derived(items []*item) (tags []tag, events []*audit.Event) {
	for _, it := range items {
		tags = append(tags, it.draft.tagRows()...)
		if !b.member.IsPublic() {
			event := it.member.Event(b.now, audit.LinkCreated, it.draft.ID, nil).WithVersion(1, nil)
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
