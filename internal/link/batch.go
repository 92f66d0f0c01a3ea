package link

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/quota"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// statementBytes bounds the text in one statement, and with it the memory that a batch takes.
	statementBytes = 256 << 10
	// randomAttempts is how many random codes are tried.
	randomAttempts = 5
)

// batch is a number of links of a workspace on their way into the database.
type batch struct {
	*Store
	member workspace.Membership // one of those who ask for them
	now    time.Time
	policy Policy
	key    *key // nil without an idempotency key
	rows   []*row
}

// row is one link on its way: what somebody asks for, a draft, and the codes that it may get. Those of a deterministic link are
// computed when it is their turn: nearly always the first is free.
type row struct {
	member workspace.Membership
	in     *New

	draft *Link
	codes []string
	// wish is what makes it the same link as another; empty for strategies that make one each time.
	wish identity
	// same is the row before it that wants the same link, or nil.
	same *row
	Result

	// attempt and tried are what the transaction has come to so far; it may run again.
	attempt Result
	tried   int
	revived bool
}

// open says that the row still needs a link.
func (r *row) open() bool { return r.same == nil && r.Link == nil && r.Err == nil }

// next gives the draft the code that is to be tried, and reports false when there is none left. Generated codes answer
// at the root, where they are unique over the instance.
func (b *batch) next(r *row) bool {
	code, ok := b.code(r)
	r.draft.ID, r.draft.Code, r.draft.RootCode = id.New(id.Link), code, nil
	if r.draft.Strategy != Custom {
		r.draft.RootCode = &r.draft.Code
	}
	return ok
}

func (b *batch) code(r *row) (string, bool) {
	if r.draft.Strategy != Deterministic {
		return r.codes[min(r.tried, len(r.codes)-1)], r.tried < len(r.codes)
	}
	for ; r.tried < shortcode.Salts; r.tried++ {
		if code := b.candidate(r.draft.CanonicalURL, r.draft.WorkspaceID, r.tried); !shortcode.Reserved(code) {
			return code, true
		}
	}
	return "", false
}

// identity is what makes two wishes one link: its URL, and its code if the caller chose one.
type identity struct{ hash, code string }

var (
	// errAbandoned ends the transaction of a batch that is all or nothing.
	errAbandoned = errors.New("a link of the batch cannot be made")
	// errAgain ends the transaction of a batch that must run anew: its generated codes do not suffice, or a link
	// that it found was purged meanwhile.
	errAgain = errors.New("the batch must run again")
)

// add says that a member asks for a link.
func (b *batch) add(m workspace.Membership, in *New) {
	b.rows = append(b.rows, &row{member: m, in: in})
}

// prepare checks what the callers say, finds wishes that are the same, and gives every row its codes.
func (b *batch) prepare(ctx context.Context) error {
	first := map[identity]*row{}
	for _, r := range b.rows {
		if r.draft, r.Err = b.draft(r.member, *r.in, b.now); r.Err == nil {
			r.codes, r.Err = codes(r.draft, r.in.CustomCode)
		}
		if r.Err != nil || !r.draft.Strategy.idempotent() {
			continue
		}
		r.wish = identity{hash: string(r.draft.CanonicalHash), code: deref(r.in.CustomCode)}
		if r.same = first[r.wish]; r.same == nil {
			first[r.wish] = r
		}
	}
	if err := b.refuseLoops(ctx); err != nil {
		return err
	}
	if err := b.refuseBlocked(ctx); err != nil {
		return err
	}
	return b.generate(ctx)
}

// refuseLoops fails the rows that lead to a workspace's host.
func (b *batch) refuseLoops(ctx context.Context) error {
	var urls []string
	for _, r := range b.rows {
		if r.open() {
			urls = append(urls, r.draft.CanonicalURL)
		}
	}
	loops, err := b.loops(ctx, urls...)
	for _, r := range b.rows {
		if r.open() && loops[r.draft.CanonicalURL] {
			r.Err = errLoop()
		}
	}
	return err
}

// refuseBlocked fails the rows whose destination is blocked.
func (b *batch) refuseBlocked(ctx context.Context) error {
	drafts := make([]*Link, 0, len(b.rows))
	for _, r := range b.rows {
		if r.open() {
			drafts = append(drafts, r.draft)
		}
	}
	blocked, err := b.blocked(ctx, b.DB, drafts)
	for _, r := range b.rows {
		if r.open() && blocked[r.draft] {
			r.Err = errBlocked().At("url")
		}
	}
	return err
}

// generate gives a code to every row that needs a generated one and has none.
func (b *batch) generate(ctx context.Context) error {
	var counters []*row
	for _, r := range b.rows {
		if !r.open() || len(r.codes) > 0 || r.draft.Strategy == Deterministic {
			continue
		}
		if r.draft.Strategy == Counter {
			counters = append(counters, r)
			continue
		}
		for range randomAttempts {
			r.codes = append(r.codes, shortcode.Random())
		}
	}
	codes, err := b.counters.take(ctx, len(counters))
	for i, code := range codes {
		counters[i].codes = []string{code}
	}
	return err
}

// settle finds the links that are there, and makes the others in one transaction.
func (b *batch) settle(ctx context.Context) error {
	if b.policy == AllOrNothing && b.failed() {
		return nil
	}
	if b.key == nil { // an answer that is to be remembered is found and kept in one transaction
		if err := b.find(ctx, b.DB, b.waiting()); err != nil {
			return err
		}
		b.keep()
	}
	if len(b.waiting()) == 0 {
		return nil
	}
	if slices.ContainsFunc(b.rows, func(r *row) bool { return r.open() && r.draft.MaxClicks != nil }) {
		// A deleted link may come back: what this node has answered counts towards its limit.
		if err := b.Clicks.Flush(ctx); err != nil {
			return err
		}
	}
	err := b.DB.Tx(ctx, b.insert)
	for errors.Is(err, errAgain) {
		if err = b.generate(ctx); err == nil {
			err = b.DB.Tx(ctx, b.insert)
		}
	}
	if err != nil && !errors.Is(err, errAbandoned) {
		return err
	}
	b.keep()
	for _, r := range b.rows {
		if r.Link != nil && (r.Created || r.revived) {
			b.forget(r.Link)
		}
	}
	return nil
}

// keep makes what the attempt has come to final. Deleted links are still to be revived.
func (b *batch) keep() {
	for _, r := range b.rows {
		if r.open() && (r.attempt.Link == nil || r.attempt.Link.DeletedAt == nil) {
			r.Result = r.attempt
		}
		r.attempt = Result{}
	}
}

// insert makes the waiting links. The database's unique indexes decide who is first; whoever is takes quota, in
// this transaction. Whoever is not gets the link that is there, or tries the next code when another URL has it.
//
// The quota's row is locked first: whoever creates in the workspace takes its turn, so no two wait for each other.
func (b *batch) insert(ctx context.Context, tx bun.Tx) error {
	for _, r := range b.rows {
		if r.attempt, r.tried, r.revived = (Result{}), 0, false; r.open() {
			b.next(r)
		}
	}
	left, err := b.lockQuota(ctx, tx)
	if err != nil {
		return err
	}
	made := 0
	for waiting := b.waiting(); len(waiting) > 0; waiting = b.waiting() {
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
	if err := b.addUsage(ctx, tx, made); err != nil {
		return err
	}
	if err := b.audit(ctx, tx); err != nil {
		return err
	}
	return b.remember(ctx, tx)
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
			b.Log.WarnContext(ctx, "code collision", "workspace", b.member.ID(), "code", r.draft.Code, "strategy", r.draft.Strategy,
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
		"granted", "archived_at", "stats_public", "deleted_at", "disabled_at", "ended_at", "purged_at", "destination_status", "last_checked_at",
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
				size += len(r.OriginalURL) + len(r.CanonicalURL) + len(deref(r.Title)) + len(deref(r.Note)) + len(r.Search) + 512
				n++
			}
			if !yield(rows[:n]) {
				return
			}
			rows = rows[n:]
		}
	}
}

// find gives rows the links that are theirs already: the deterministic one for the URL, or the one that has both
// the custom code and the URL. It fails those whose custom code is another URL's, and those whose link the operator
// has disabled.
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
	if len(codes)+len(hashes) == 0 {
		return nil
	}
	var links []*Link
	err := conn.NewSelect().Model(&links).Where("workspace_id = ?", b.member.ID()).
		WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
			if len(hashes) > 0 {
				q = q.Where("strategy = 'DETERMINISTIC' AND canonical_hash IN (?)", bun.In(hashes))
			}
			if len(codes) > 0 {
				q = q.WhereOr("code IN (?)", bun.In(codes))
			}
			return q
		}).Scan(ctx)
	if err != nil {
		return fmt.Errorf("looking for links: %w", err)
	}
	there, taken := map[identity]*Link{}, map[string]bool{}
	for _, l := range links {
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

// lockQuota waits for its turn in the workspace, and returns how many more links it may make this month.
func (b *batch) lockQuota(ctx context.Context, tx bun.Tx) (left int, err error) {
	if b.member.IsPublic() {
		return len(b.rows), nil // nobody's quota
	}
	var used int64
	err = tx.NewRaw(`INSERT INTO link_usage AS u (workspace_id, month, links) VALUES (?, ?, 0)
		ON CONFLICT (workspace_id, month) DO UPDATE SET links = u.links RETURNING links`,
		b.member.ID(), quota.MonthOf(b.now).String()).Scan(ctx, &used)
	if err != nil {
		return 0, fmt.Errorf("locking the quota: %w", err)
	}
	return int(max(0, b.QuotaOf(b.member)-used)), nil
}

func (b *batch) addUsage(ctx context.Context, tx bun.Tx, made int) error {
	if b.member.IsPublic() {
		return nil
	}
	_, err := tx.NewRaw("UPDATE link_usage SET links = links + ? WHERE workspace_id = ? AND month = ?",
		made, b.member.ID(), quota.MonthOf(b.now).String()).Exec(ctx)
	return err
}

// audit keeps who has made or revived which links; nobody's are nobody's to look after.
func (b *batch) audit(ctx context.Context, tx bun.Tx) error {
	if b.member.IsPublic() {
		return nil
	}
	var events []*audit.Event
	for _, r := range b.rows {
		switch {
		case r.attempt.Created:
			events = append(events, r.member.Event(b.now, audit.LinkCreated, r.draft.ID, nil))
		case r.revived:
			events = append(events, r.member.Event(b.now, audit.LinkRestored, r.attempt.Link.ID, nil))
		}
	}
	return audit.Write(ctx, tx, events...)
}

// failed says whether a link of the batch cannot be made.
func (b *batch) failed() bool {
	return slices.ContainsFunc(b.rows, func(r *row) bool { return r.Err != nil || r.attempt.Err != nil })
}

// results are the rows' results. Whoever asked for the same as another has a link of their own, through their own membership.
func (b *batch) results() []Result {
	results := make([]Result, 0, len(b.rows))
	for _, r := range b.rows {
		if r.same != nil {
			r.Result = Result{Link: r.same.Link, Err: r.same.Err}
		}
		if r.same != nil && r.Link != nil {
			own := *r.Link
			own.In, r.Link = r.member, &own
		}
		results = append(results, r.Result)
	}
	if b.policy == AllOrNothing {
		abandon(results)
	}
	return results
}

func (b *batch) errQuota() error {
	month := quota.MonthOf(b.now)
	return errs.New(errs.QuotaExceeded, "The workspace has made the %d links it may make this month. The next month begins at %s.",
		b.QuotaOf(b.member), month.End.Format("2006-01-02 15:04 MST")).After(month.End.Sub(b.now))
}

func errNoCode(strategy Strategy) error {
	if strategy == Custom {
		return errs.New(errs.CodeTaken, "The code leads to another URL already. Choose another code.").At("customCode")
	}
	return errs.New(errs.CodeExhausted, "Every code that this URL can get is taken. Use the strategy CUSTOM.").At("url")
}
