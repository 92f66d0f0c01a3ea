package link

import (
	"context"
	"fmt"
	"iter"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/optional"
)

// statementBytes bounds the text in one statement, and with it the memory that a batch takes.
const statementBytes = 256 << 10

// insert makes the waiting links. The database's unique indexes decide who is first; whoever is
// takes quota, in this transaction. Whoever is not gets the link that is there, or tries the next
// code when another URL has it.
//
// Quota is taken first, for all of them, and what they did not need is given back: that locks its
// row, and whoever creates in the workspace takes its turn, so no two wait for each other.
func (b *batch) insert(ctx context.Context, tx bun.Tx) error {
	for _, r := range b.rows {
		if r.attempt, r.tried, r.revived = (Result{}), 0, false; r.open() {
			b.next(r)
		}
	}
	waiting := b.waiting()
	taken := len(waiting)
	left, err := b.takeQuota(ctx, tx, taken)
	if err != nil {
		return err
	}
	made := 0
	for ; len(waiting) > 0; waiting = b.waiting() {
		turn := waiting[:min(len(waiting), max(left-made, 0))]
		n, err := b.insertRows(ctx, tx, turn)
		if err != nil {
			return err
		}
		made += n
		if err := b.find(ctx, tx, b.waiting()); err != nil {
			return err
		}
		if err := b.moveOn(ctx, turn, left-made); err != nil {
			return err
		}
	}
	if err := b.revive(ctx, tx); err != nil {
		return err
	}
	if b.policy == AllOrNothing && b.failed() {
		return errAbandoned
	}
	if err := b.insertTags(ctx, tx); err != nil {
		return err
	}
	if err := b.giveBack(ctx, tx, taken-made); err != nil {
		return err
	}
	if err := b.audit(ctx, tx); err != nil {
		return err
	}
	return b.saveResults(ctx, tx)
}

// waiting are the rows that have neither a link nor an error.
func (b *batch) waiting() []*row {
	var rows []*row
	for _, r := range b.rows {
		if r.open() && r.attempt == (Result{}) {
			rows = append(rows, r)
		}
	}
	return rows
}

// moveOn lets rows whose turn brought nothing try their next code. Rows beyond the quota fail.
func (b *batch) moveOn(ctx context.Context, turn []*row, left int) error {
	for _, r := range turn {
		if r.attempt != (Result{}) {
			continue
		}
		if r.draft.Strategy != Custom {
			b.Log.WarnContext(ctx, "code collision", "workspace", b.member.ID(), "code", r.draft.Code, "strategy",
				r.draft.Strategy,
				"count", b.collisions.Add(1))
		}
		if r.tried++; b.next(r) {
			continue
		}
		if r.draft.Strategy == Counter {
			r.codes = nil
			return errAgain
		}
		r.attempt.Err = errNoCode(r.draft.Strategy)
	}
	if left > 0 {
		return nil
	}
	for _, r := range b.waiting() {
		r.attempt.Err = b.errQuota()
	}
	return nil
}

// insertNew inserts links without the columns that no new one has.
var insertNew = db.Insert{
	Without: []string{
		"granted", "archived_at", "stats_public", "deleted_at", "disabled_at", "ended_at", "purged_at", "destination_status",
		"last_checked_at",
		"check_failures",
	},
	Rest: "ON CONFLICT DO NOTHING RETURNING id",
}

// insertRows inserts as many of the rows as no unique index refuses, and returns how many.
func (b *batch) insertRows(ctx context.Context, tx bun.Tx, rows []*row) (made int, err error) {
	drafts, byID := make([]*record, 0, len(rows)), make(map[string]*row, len(rows))
	for _, r := range rows {
		drafts, byID[r.draft.ID] = append(drafts, recordOf(r.draft)), r
	}
	for chunk := range statements(drafts) {
		var ids []string
		if err := db.InsertReturning(ctx, tx, insertNew, chunk, &ids); err != nil {
			return made, err
		}
		for _, linkID := range ids {
			byID[linkID].attempt = Result{Link: byID[linkID].draft, Created: true}
		}
		made += len(ids)
	}
	return made, nil
}

// insertTags writes the tags of links that have been made.
func (b *batch) insertTags(ctx context.Context, tx bun.Tx) error {
	var tags []tag
	for _, r := range b.rows {
		if r.attempt.Created {
			tags = append(tags, r.draft.tagRows()...)
		}
	}
	return insertTags(ctx, tx, tags)
}

// statements divides rows so that the text of each part fits into a statement.
func statements(rows []*record) iter.Seq[[]*record] {
	return func(yield func([]*record) bool) {
		for len(rows) > 0 {
			n, size := 0, 0
			for n < len(rows) && (n == 0 || size < statementBytes) {
				r := rows[n]
				size += len(r.OriginalURL) + len(r.CanonicalURL) + len(optional.Value(r.Title)) + len(optional.Value(r.Note)) +
					len(r.Search) + 512
				n++
			}
			if !yield(rows[:n]) {
				return
			}
			rows = rows[n:]
		}
	}
}

// find gives rows the links that are theirs already: the deterministic one for the URL, or the one
// that has both the custom code and the URL. It fails those whose custom code is another URL's, and
// those whose link the operator has disabled.
func (b *batch) find(ctx context.Context, conn bun.IDB, rows []*row) error {
	var hashes [][]byte
	var codes []string
	for _, r := range rows {
		switch r.draft.Strategy {
		case Deterministic:
			hashes = append(hashes, r.draft.CanonicalHash)
		case Custom:
			codes = append(codes, r.codes[0])
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
	there, taken := map[identity]*Link{}, map[string]bool{}
	for _, l := range append(byHash, byCode...) {
		taken[l.Code] = true
		there[identity{hash: string(l.CanonicalHash), code: l.Code}] = l
		if l.Strategy == Deterministic {
			there[identity{hash: string(l.CanonicalHash)}] = l
		}
	}
	for _, r := range rows {
		l := there[r.wish]
		switch {
		case l != nil && l.DisabledAt != nil:
			r.attempt.Err = errDisabled().At("url")
		case l != nil:
			l.In, r.attempt.Link = r.member, l
		case r.draft.Strategy == Custom && taken[r.codes[0]]:
			r.attempt.Err = errNoCode(Custom)
		}
	}
	return nil
}

// keptLookUps is how many links a statement that is kept looks up at most. Its plan may be from
// when there were hardly any links, and read all that there are for each of them, until PostgreSQL
// has counted anew; and where there are many, a new plan costs each of them little.
const keptLookUps = 16

// lookUp finds links of the workspace by what is unique in it. PostgreSQL is told to look each of
// them up by itself: a plan that is kept, for workspaces as they are on the average, might read all
// links of a large one.
func lookUp[K any](
	ctx context.Context, b *batch, conn bun.IDB, key, kind string, wanted []K,
) (links []*Link, err error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	q := conn.NewSelect().Model(&links)
	var p *db.Params
	if len(wanted) <= keptLookUps {
		p = b.DB.Params()
	}
	if p == nil {
		q = q.Where("workspace_id = ?", b.member.ID()).Where(key+" IN (?)", bun.In(wanted))
	} else {
		q = q.ModelTableExpr("unnest(?::"+kind+"[]) AS wanted (key) CROSS JOIN LATERAL (SELECT * FROM links WHERE "+
			"workspace_id = ? AND "+
			key+" = wanted.key OFFSET 0) AS link", p.Of(wanted), p.Of(b.member.ID()))
	}
	if err := q.Scan(p.Bind(ctx)); err != nil {
		return nil, fmt.Errorf("looking for links: %w", err)
	}
	return links, nil
}

// takeQuota waits for its turn in the workspace and takes the month's quota of so many links, be
// there as much or not. It returns how many there was quota for before.
func (b *batch) takeQuota(ctx context.Context, tx bun.Tx, links int) (left int, err error) {
	if b.member.IsPublic() {
		return links, nil // nobody's quota
	}
	var used int64
	p := b.DB.Params()
	err = tx.NewRaw(`INSERT INTO link_usage AS u (workspace_id, month, links) VALUES (?, ?, ?)
		ON CONFLICT (workspace_id, month) DO UPDATE SET links = u.links + excluded.links RETURNING links`,
		p.Of(b.member.ID()), p.Of(hitquota.MonthOf(b.now).String()), p.Of(links)).Scan(p.Bind(ctx), &used)
	if err != nil {
		return 0, fmt.Errorf("taking the quota: %w", err)
	}
	return int(max(0, b.QuotaOf(b.member)-used+int64(links))), nil
}

func (b *batch) giveBack(ctx context.Context, tx bun.Tx, links int) error {
	if b.member.IsPublic() || links == 0 {
		return nil
	}
	p := b.DB.Params()
	_, err := tx.NewRaw("UPDATE link_usage SET links = links - ? WHERE workspace_id = ? AND month = ?",
		p.Of(links), p.Of(b.member.ID()), p.Of(hitquota.MonthOf(b.now).String())).Exec(p.Bind(ctx))
	return err
}

// audit records who has created which links. Anonymous links have no audit log.
func (b *batch) audit(ctx context.Context, tx bun.Tx) error {
	if b.member.IsPublic() {
		return nil
	}
	var events []*audit.Event
	for _, r := range b.rows {
		if r.attempt.Created {
			events = append(events, r.member.Event(b.now, audit.LinkCreated, r.draft.ID, nil))
		}
	}
	return audit.Write(ctx, tx, events...)
}
