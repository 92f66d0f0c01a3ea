package link

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/idempotency"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/workspace"
)

// randomAttempts is how many random codes are tried.
const randomAttempts = 5

// batch is a number of links of a workspace on their way into the database.
type batch struct {
	*Store
	member workspace.Membership // one of those who ask for them
	now    time.Time
	policy Policy
	key    *idempotency.Key // may be nil
	rows   []*row
}

// row is one link on its way: what somebody asks for, a draft, and the codes that it may get. Those
// of a deterministic link are computed when it is their turn: nearly always the first is free.
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

// next gives the draft the code that is to be tried, and reports false when there is none left.
// Generated codes answer at the root, where they are unique over the instance.
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
	// errAgain ends the transaction of a batch that must run anew: its generated codes do not suffice,
	// or a link that it found was purged meanwhile.
	errAgain = errors.New("the batch must run again")
)

// add says that a member asks for a link.
func (b *batch) add(m workspace.Membership, in *New) {
	b.rows = append(b.rows, &row{member: m, in: in})
}

// prepare checks what the callers say, finds wishes that are the same, and gives every row its
// codes.
func (b *batch) prepare(ctx context.Context) error {
	first := map[identity]*row{}
	for _, r := range b.rows {
		if r.draft, r.Err = b.draft(r.member, *r.in, b.now); r.Err == nil {
			r.codes, r.Err = codes(r.draft, r.in.CustomCode)
		}
		if r.Err != nil || !r.draft.Strategy.idempotent() {
			continue
		}
		r.wish = identity{hash: string(r.draft.CanonicalHash), code: optional.Value(r.in.CustomCode)}
		if r.same = first[r.wish]; r.same == nil {
			first[r.wish] = r
		}
	}
	if err := b.refuse(ctx); err != nil {
		return err
	}
	return b.generate(ctx)
}

// refuse fails the rows whose destination is refused.
func (b *batch) refuse(ctx context.Context) error {
	drafts := make([]*Link, 0, len(b.rows))
	for _, r := range b.rows {
		if r.open() {
			drafts = append(drafts, r.draft)
		}
	}
	refused, err := b.refused(ctx, b.DB, drafts)
	for _, r := range b.rows {
		if e := refused[r.draft]; r.open() && e != nil {
			r.Err = e.At("url")
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
	codes, err := b.counters.Take(ctx, len(counters))
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
		if errs.Is(r.Err, errs.CodeExhausted) {
			b.exhausted.Add(1)
			b.Log.WarnContext(ctx, "codes exhausted", "workspace", b.member.ID(), "strategy", r.draft.Strategy,
				"canonical_sha256", hex.EncodeToString(r.draft.CanonicalHash))
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

// failed says whether a link of the batch cannot be made.
func (b *batch) failed() bool {
	return slices.ContainsFunc(b.rows, func(r *row) bool { return r.Err != nil || r.attempt.Err != nil })
}

// results are the rows' results. Whoever asked for the same as another has a link of their own,
// through their own membership.
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
	month := hitquota.MonthOf(b.now)
	return errs.New(errs.QuotaExceeded, "The workspace has made the %d links it may make this month. The next month "+
		"begins at %s.",
		b.QuotaOf(b.member), month.End.Format("2006-01-02 15:04 MST")).After(month.End.Sub(b.now))
}

func errNoCode(strategy Strategy) error {
	if strategy == Custom {
		return errs.New(errs.CodeTaken, "The code leads to another URL already. Choose another code.").At("customCode")
	}
	if strategy == Random {
		return errs.New(errs.CodeExhausted, "The %d random codes that were tried are taken. Try again, or use the strategy "+
			"COUNTER.",
			randomAttempts).At("strategy")
	}
	return errs.New(errs.CodeExhausted, "All %d codes of this URL are taken in the workspace. Choose a customCode, or "+
		"use the strategy "+
		"COUNTER or RANDOM.", shortcode.Salts).At("url")
}
