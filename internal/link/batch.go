package link

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/idempotency"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/workspace"
)

// randomAttempts is how many random codes are tried.
const randomAttempts = 5

// batch creates links of one workspace.
type batch struct {
	*Store
	member workspace.Membership // of the first caller: the workspace and its quota
	now    time.Time
	policy Policy
	key    *idempotency.Key // may be nil
	// isPresumed means that a membership may be out of date: create returns errPresumed unless the combined statement has
	// checked them all. isRolledBack means that the combined statement had no effect.
	isPresumed, isRolledBack bool
	items                    []*item
	// operationID is the bulk call of an upsert; empty for none.
	operationID string
}

// item is one requested link of a batch.
type item struct {
	member      workspace.Membership
	in          *New
	operationID string // of its call; empty for none

	// upsert is the input of an upsert, or nil. holder is the link that has its external id, or nil, and
	// versionBefore the version of the link that it changes.
	upsert        *Upsert
	holder        *Link
	versionBefore int

	draft *Link
	// codes are the codes to try, in this order. Those of a deterministic link are computed when they
	// are tried: nearly always the first is free.
	codes []string
	// identity is empty for strategies that create a new link each time.
	identity identity
	// duplicateOf is the earlier item with the same identity and external id, or nil.
	duplicateOf *item
	// compared is the id of the password of an existing link with which that of the item was compared.
	compared string
	Result

	// The state of the transaction, which may be retried: the result so far, the existing link, how many codes were
	// taken by other links, and whether a deleted link was revived.
	attempt Result
	found   *Link
	tried   int
	revived bool
}

// identity is what two requests for the same link have in common: the URL, and the code if the
// caller chose one.
type identity struct{ hash, code string }

// request is what equal requests have in common: the link, and the external id that it must have.
type request struct {
	identity
	externalID string
}

var (
	// errFailed rolls back an AllOrNothing batch.
	errFailed = errors.New("a link of the batch has an error")
	// errRetry rolls back a batch that must run again: it needs more generated codes, must compare a password first, or a
	// link that it found was purged meanwhile.
	errRetry = errors.New("the batch must run again")
	// errPresumed ends a batch without effect: the memberships must be confirmed first.
	errPresumed = errors.New("the memberships of the batch are presumed")
)

func (b *batch) add(m workspace.Membership, in *New, operationID string) {
	b.items = append(b.items, &item{member: m, in: in, operationID: operationID})
}

// members returns the memberships of the callers, each once.
func (b *batch) members() (members []workspace.Membership) {
	seen := map[string]bool{}
	for _, it := range b.items {
		if actor := it.member.ActorID(); !seen[actor] {
			seen[actor] = true
			members = append(members, it.member)
		}
	}
	return members
}

// create returns a result for each item.
func (b *batch) create(ctx context.Context) ([]Result, error) {
	b.validate()
	if done, err := b.createCombined(ctx); done || err != nil {
		return b.results(), err
	}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	if b.policy != AllOrNothing || !b.failed() {
		if err := b.findOrInsert(ctx); err != nil {
			return nil, err
		}
	}
	return b.results(), nil
}

// validate validates the input and detects duplicates.
func (b *batch) validate() {
	first := map[request]*item{}
	for _, it := range b.items {
		if it.isKnown() {
			continue
		}
		if it.draft, it.Err = b.draft(it.member, *it.in, b.now); it.Err == nil {
			it.Err = b.draftUpsert(it)
		}
		if it.Err == nil {
			it.draft.VersionOperation = optional.Of(it.operationID)
			it.codes, it.Err = customCodes(it.draft.Strategy, it.in.CustomCode)
		}
		if it.Err == nil {
			it.Err = b.testDraft(it)
		}
		if it.Err != nil || !it.draft.Strategy.idempotent() {
			continue
		}
		it.identity = identity{hash: string(it.draft.CanonicalHash), code: optional.Value(it.in.CustomCode)}
		same := request{it.identity, optional.Value(it.draft.ExternalID)}
		if it.duplicateOf = first[same]; it.duplicateOf == nil {
			first[same] = it
		} else {
			it.sharePassword()
		}
	}
}

// prepare fails the items whose destinations are refused, and generates codes for the others.
func (b *batch) prepare(ctx context.Context) error {
	if err := b.refuseDestinations(ctx); err != nil {
		return err
	}
	return b.generateCodes(ctx)
}

// testDraft runs the tests of a draft. Its code is the first one to try, if that is known in advance.
func (b *batch) testDraft(it *item) error {
	if it.draft.Routing == nil {
		return nil
	}
	if it.draft.Strategy.idempotent() {
		it.draft.Code, _ = b.nextCode(it)
	}
	return b.runTests(it.draft)
}

// customCodes returns the code that the caller chose; none for other strategies.
func customCodes(strategy Strategy, custom *string) ([]string, error) {
	switch {
	case strategy != Custom && custom != nil:
		return nil, errs.New(errs.InvalidInput, "customCode goes with the strategy CUSTOM only.").At("customCode")
	case strategy != Custom:
		return nil, nil
	case custom == nil:
		return nil, errs.New(errs.InvalidInput, "The strategy CUSTOM needs a customCode.").At("customCode")
	}
	if err := shortcode.ValidateCustom(*custom); err != nil {
		return nil, errs.New(errs.InvalidInput, "%s", err).At("customCode")
	}
	if shortcode.Reserved(*custom) {
		return nil, errs.New(errs.CodeReserved, "The server keeps this word for itself. Choose another code.").
			At("customCode")
	}
	return []string{*custom}, nil
}

// refuseDestinations fails the items whose destination is not allowed.
func (b *batch) refuseDestinations(ctx context.Context) error {
	var drafts []*Link
	for _, it := range b.items {
		if it.pending() && !it.isKnown() {
			drafts = append(drafts, it.draft)
		}
	}
	refused, err := b.refused(ctx, b.DB, drafts)
	for _, it := range b.items {
		if e := refused[it.draft]; it.pending() && !it.isKnown() && e != nil {
			if it.Err = e; len(e.Field) == 0 {
				it.Err = e.At("url")
			}
		}
	}
	return err
}

// generateCodes generates the codes of items with the strategies Counter and Random that have none.
func (b *batch) generateCodes(ctx context.Context) error {
	var counters []*item
	for _, it := range b.items {
		if !it.pending() || it.isKnown() || len(it.codes) > 0 {
			continue
		}
		switch it.draft.Strategy {
		case Counter:
			counters = append(counters, it)
		case Random:
			for range randomAttempts {
				it.codes = append(it.codes, shortcode.Random())
			}
		}
	}
	codes, err := b.counters.Take(ctx, len(counters))
	for i, code := range codes {
		counters[i].codes = []string{code}
	}
	return err
}

// findOrInsert finds the links that exist, and inserts or revives the others in one transaction.
func (b *batch) findOrInsert(ctx context.Context) error {
	if b.key == nil || b.policy == AllOrNothing {
		find := func() error { return b.findExisting(ctx, b.DB, b.unresolved()) }
		if err := b.repeat(ctx, find(), find); err != nil {
			return err
		}
	}
	failed := b.policy == AllOrNothing && b.failed() // writes nothing, instead of rolling it back
	if b.key == nil || failed {                      // other results of a key are found and saved in one transaction
		b.finish()
	}
	if failed || b.key == nil && len(b.unresolved()) == 0 {
		return nil
	}
	if slices.ContainsFunc(b.items, func(it *item) bool { return it.pending() && it.draft.MaxClicks != nil }) {
		// If a deleted link is revived, the redirects of this node count towards its limit.
		if err := b.Clicks.Flush(ctx); err != nil {
			return err
		}
	}
	err := b.repeat(ctx, b.insertAll(ctx), func() error { return b.DB.Tx(ctx, b.insert) })
	if err != nil && !errors.Is(err, errFailed) {
		return err
	}
	b.finish()
	b.announce(ctx)
	return nil
}

// repeat calls a function while the error of the call before is errRetry, or that of a lost race for an external id.
func (b *batch) repeat(ctx context.Context, err error, f func() error) error {
	for races := 0; errors.Is(err, errRetry) || db.IsUniqueViolation(err) && races < maxRaces; races++ {
		if err = b.generateCodes(ctx); err == nil {
			err = b.comparePasswords(ctx)
		}
		if err == nil {
			err = f()
		}
	}
	return err
}

// announce removes new and revived links from the cache, which may have their codes as unused, and logs links that got
// no code.
func (b *batch) announce(ctx context.Context) {
	for _, it := range b.items {
		if it.Link != nil && (it.Created || it.revived) {
			b.forget(it.Link)
		}
		if errs.Is(it.Err, errs.CodeExhausted) {
			b.exhausted.Add(1)
			b.Log.WarnContext(ctx, "codes exhausted", "workspace", b.member.ID(), "strategy", it.draft.Strategy,
				"canonical_sha256", hex.EncodeToString(it.draft.CanonicalHash))
		}
	}
}

// insertAll inserts the unresolved links with one statement, or by the transaction that handles all cases. That
// also reports the values that the database refuses. An AllOrNothing batch must not insert links that are rolled back.
func (b *batch) insertAll(ctx context.Context) error {
	if b.key == nil && b.policy != AllOrNothing {
		created, err := b.insertCombined(ctx)
		if created || err != nil && !db.IsRefused(err) {
			return err
		}
	}
	return b.DB.Tx(ctx, b.insert)
}

// finish makes the results of the attempt final, except deleted links that are to be revived.
func (b *batch) finish() {
	for _, it := range b.items {
		if it.pending() && (it.attempt.Link == nil || it.attempt.Link.DeletedAt == nil) {
			it.Result = it.attempt
		}
		it.attempt = Result{}
	}
}

// pending reports whether the item has no final result yet.
func (it *item) pending() bool { return it.duplicateOf == nil && it.Link == nil && it.Err == nil }

// isKnown reports whether an upsert needs no new link: it has failed, or its link exists. It is false for other items.
func (it *item) isKnown() bool {
	return it.upsert != nil && (it.Err != nil || it.Link != nil || it.holder != nil)
}

// unresolved returns the items that have no result yet, neither final nor in this attempt.
func (b *batch) unresolved() (items []*item) {
	for _, it := range b.items {
		if it.pending() && it.attempt.isEmpty() {
			items = append(items, it)
		}
	}
	return items
}

// failed reports whether an item has an error.
func (b *batch) failed() bool {
	return slices.ContainsFunc(b.items, func(it *item) bool { return it.result().Err != nil })
}

// results returns the results of the items. A duplicate gets a copy of the link, with the
// membership of its own caller.
func (b *batch) results() []Result {
	results := make([]Result, 0, len(b.items))
	for _, it := range b.items {
		if it.Result = it.result(); it.duplicateOf != nil && it.Link != nil {
			own := *it.Link
			own.In, it.Link = it.member, &own
		}
		results = append(results, it.Result)
	}
	if b.policy == AllOrNothing {
		failAll(results)
	}
	return results
}

// assignCode gives the draft the next code to try, and reports false when there is none. Generated
// codes work at the root, where they are unique over the instance.
func (b *batch) assignCode(it *item) bool {
	code, ok := b.nextCode(it)
	it.draft.ID, it.draft.Code, it.draft.RootCode = id.New(id.Link), code, nil
	if it.draft.Strategy != Custom {
		it.draft.RootCode = &it.draft.Code
	}
	return ok
}

func (b *batch) nextCode(it *item) (string, bool) {
	if it.draft.Strategy != Deterministic {
		return it.codes[min(it.tried, len(it.codes)-1)], it.tried < len(it.codes)
	}
	for ; it.tried < shortcode.Salts; it.tried++ {
		code := b.candidate(it.draft.CanonicalURL, it.draft.WorkspaceID, it.tried)
		if !shortcode.Reserved(code) {
			return code, true
		}
	}
	return "", false
}

func errNoCode(strategy Strategy) error {
	switch strategy {
	case Custom:
		return errs.New(errs.CodeTaken, "The code is used for another URL. Choose another code.").At("customCode")
	case Random:
		return errs.New(errs.CodeExhausted, "The %d random codes that were tried are taken. Try again, or use the "+
			"strategy COUNTER.", randomAttempts).At("strategy")
	}
	return errs.New(errs.CodeExhausted, "All %d codes of this URL are taken in the workspace. Choose a customCode, or "+
		"use the strategy COUNTER or RANDOM.", shortcode.Salts).At("url")
}
