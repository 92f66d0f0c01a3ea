package creation

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// call is one caller's request for links in a workspace.
type call struct {
	member workspace.Membership
	items  []*item
	policy link.Policy
	key    *keyRow // may be nil
	// operationID is the bulk call; empty for none.
	operationID string

	// results are those of the items. err is why there are none, and hasLeft means that the call
	// must run in another batch.
	results []link.Result
	err     error
	hasLeft bool
}

// batch creates the links of calls. A shared one has calls of several workspaces, with policy
// SkipFailed and without a key: it only inserts links, waits at most 100 ms for another
// transaction, and leaves the calls of workspaces that need more. Other batches have calls of one
// workspace.
type batch struct {
	store    *Store
	now      time.Time
	calls    []*call
	isShared bool

	// The state of the transaction, which may be retried: the items of the calls that are permitted
	// and have not left, and the quotas by workspace.
	items  []*item
	quotas map[string]*allowance
}

// item is a proposal in a batch.
type item struct {
	want proposal
	call *call
	// domain gets the code; nil means the workspace. lacksDomain is why the domain cannot.
	domain      *domain.Domain
	lacksDomain error
	// holder is the link that has the external id of the upsert, or nil, and versionBefore the
	// version of the link that it changes.
	holder        *link.Link
	versionBefore int
	// codes are the codes to try, in this order. Those of a deterministic link are computed when
	// they are tried: nearly always the first is free.
	codes []string
	// identity is empty for strategies that create a new link each time.
	identity identity
	// final is the result, and try the state of the transaction until then.
	final link.Result
	try   try
}

// try is the state of a transaction that decides about an item.
type try struct {
	// duplicateOf is the earlier item with the same identity and external id, or nil.
	duplicateOf *item
	facts       facts
	decision    decision
	// result is the one so far, and tried how many codes belonged to other links.
	result link.Result
	tried  int
}

// identity is what two requests for the same link have in common: the workspace, the URL, and the
// code if the caller chose one.
type identity struct{ workspaceID, hash, code string }

// request is what equal requests have in common: the link, and the external id that it must have.
type request struct {
	identity   identity
	externalID string
}

// ErrRetry rolls back a batch that must run again from prepare: either it needs a value from
// outside the transaction, such as a generated code or the comparison of a password, or a
// concurrent change has invalidated its reads.
var ErrRetry = errors.New("the batch must run again")

func (s *Store) newBatch(calls ...*call) *batch {
	for _, c := range calls {
		for _, it := range c.items {
			it.try = try{} // of a batch that it has left
		}
	}
	return &batch{store: s, now: s.now(), calls: calls}
}

// run sets the results of the calls. It returns an error if all have failed. It runs the
// transaction again if that has lost a race with another one.
func (b *batch) run(ctx context.Context) error {
	for races := 0; ; races++ {
		isPending, err := b.prepare(ctx)
		if isPending && err == nil {
			err = b.store.DB.Tx(b.enter(ctx), b.create)
		}
		isRetry, isUpsert := errors.Is(err, ErrRetry), b.isUpsert()
		switch {
		case isRetry && !isUpsert || (isRetry || db.IsOvertaken(err)) && races < link.MaxRaces:
		case err == nil || errors.Is(err, link.ErrFailed):
			b.finish(ctx)
			return nil
		case isRetry:
			return errs.New(errs.Unavailable, "Other calls change the same links at the same time. Repeat the call.")
		default:
			return err
		}
	}
}

// enter returns the context of the transaction.
func (b *batch) enter(ctx context.Context) context.Context {
	if !b.isShared {
		return ctx
	}
	var ids []string
	for _, c := range b.calls {
		if !slices.Contains(ids, c.member.ID()) {
			ids = append(ids, c.member.ID())
		}
	}
	return db.WithShortLockTimeout(db.AsCreator(ctx, ids...))
}

// prepare looks up what upserts name, validates, compares passwords and generates codes, which
// would take too long in the transaction. It reports whether a transaction is needed.
func (b *batch) prepare(ctx context.Context) (isPending bool, err error) {
	b.items = nil
	for _, c := range b.calls {
		c.err, c.hasLeft, b.items = nil, false, append(b.items, c.items...)
	}
	if err := b.findUpserted(ctx); err != nil {
		return false, err
	}
	if err := b.findDomains(ctx); err != nil {
		return false, err
	}
	hasFailed := false
	for _, it := range b.items {
		it.try.result = link.Result{}
		b.validate(it)
		hasFailed = hasFailed || it.final.Err != nil
	}
	isPresumed := slices.ContainsFunc(b.calls, func(c *call) bool { return c.member.IsPresumed() })
	if b.isAllOrNothing() && hasFailed || !isPresumed && !slices.ContainsFunc(b.items, (*item).isOpen) {
		return false, nil
	}
	if err := b.comparePasswords(ctx); err != nil {
		return false, err
	}
	return true, b.generateCodes(ctx)
}

// isAllOrNothing reports whether the batch is one call with this policy.
func (b *batch) isAllOrNothing() bool { return b.calls[0].policy == link.AllOrNothing }

// isUpsert reports whether the batch is one call of upserts.
func (b *batch) isUpsert() bool {
	items := b.calls[0].items
	return len(items) > 0 && items[0].want.kind == upserts
}

// validate drafts the link of an item, once.
func (b *batch) validate(it *item) {
	if it.isKnown() || it.want.draft != nil || it.final.Err != nil {
		return
	}
	draft, err := it.want.newDraft(it.call.member, b.now)
	codes, codeErr := it.customCodes(draft.Strategy)
	if it.final.Err = errs.All(it.checkPublishable(), err, codeErr); it.final.Err == nil {
		it.final.Err = it.lacksDomain
	}
	if it.final.Err != nil {
		return
	}
	it.want.draft, it.codes = draft, codes
	draft.VersionOperation = optional.Of(it.call.operationID)
	draft.FolderID, it.final.Err = it.call.member.NewFolder(draft.FolderID)
	if it.final.Err == nil && it.want.draft.Routing != nil {
		if it.want.draft.Strategy.IsIdempotent() { // tests of routings see the first code to try
			code, _ := b.nextCode(it)
			it.setCode(code)
		}
		it.final.Err = b.store.RunTests(it.want.draft)
	}
	if it.final.Err == nil && it.want.draft.Strategy.IsIdempotent() {
		it.identity = identity{workspaceID: it.call.member.ID(), hash: string(it.want.draft.CanonicalHash)}
		if it.want.draft.Strategy == link.Custom {
			it.setCode(it.codes[0])
			it.identity.code = it.want.draft.CodeIdentity()
		}
	}
}

// finish makes the results of the attempt final. Duplicates get theirs after all others.
func (b *batch) finish(ctx context.Context) {
	done := slices.DeleteFunc(slices.Clone(b.calls), func(c *call) bool { return c.hasLeft || c.err != nil })
	for _, c := range done {
		for _, it := range c.items {
			if it.isOpen() {
				it.final = it.try.result
			}
		}
	}
	for _, c := range done {
		c.results = c.resultsOf()
		b.announce(ctx, c.items)
	}
}

// announce removes new and revived links from the cache, which may have their codes as unused, and
// logs links that got no code.
func (b *batch) announce(ctx context.Context, items []*item) {
	for _, it := range items {
		if it.final.Link != nil && (it.final.Created || it.final.Revived) {
			b.store.Forget(it.final.Link)
		}
		if errs.Is(it.final.Err, errs.CodeExhausted) {
			b.store.exhausted.Add(1)
			b.store.Log.WarnContext(ctx, "codes exhausted", "workspace", it.call.member.ID(),
				"strategy", it.want.draft.Strategy, "canonical_sha256", hex.EncodeToString(it.want.draft.CanonicalHash))
		}
	}
}

// restart resets everything but the request.
func (it *item) restart() {
	*it = item{call: it.call, want: proposal{kind: it.want.kind, in: it.want.in}}
}

// isOpen reports whether the item has no final result yet.
func (it *item) isOpen() bool {
	return it.try.duplicateOf == nil && it.final.Link == nil && it.final.Err == nil
}

// isUndecided reports whether the attempt has no result yet.
func (it *item) isUndecided() bool { return it.try.result.Link == nil && it.try.result.Err == nil }

// isKnown reports whether an upsert needs no new link: it has failed, or its link exists. It is
// false for other items.
func (it *item) isKnown() bool {
	return it.want.kind == upserts && (it.final.Err != nil || it.final.Link != nil || it.holder != nil)
}

// unresolved returns the items that have no result yet, neither final nor in this attempt.
func (b *batch) unresolved() (items []*item) {
	for _, it := range b.items {
		if it.isOpen() && it.isUndecided() {
			items = append(items, it)
		}
	}
	return items
}

// failed reports whether an item has an error.
func (b *batch) failed() bool {
	return slices.ContainsFunc(b.items, func(it *item) bool { return it.result().Err != nil })
}

// resultsOf returns the results of the items. Each has a copy of its link, with the membership of
// its own caller: other calls may have found the same link.
func (c *call) resultsOf() []link.Result {
	results := make([]link.Result, 0, len(c.items))
	for _, it := range c.items {
		if it.final = it.result(); it.final.Link != nil {
			own := *it.final.Link
			own.In, it.final.Link = c.member, &own
		}
		results = append(results, it.final)
	}
	if c.policy == link.AllOrNothing {
		link.FailAll(results)
	}
	return results
}

// findDomains looks up the domains that get codes.
func (b *batch) findDomains(ctx context.Context) error {
	var ids []string
	for _, it := range b.items {
		if it.want.in.DomainID != nil {
			ids = append(ids, *it.want.in.DomainID)
		}
	}
	found, err := domain.Find(ctx, b.store.DB, b.calls[0].member.ID(), ids) // such a call is alone
	if err != nil {
		return err
	}
	for _, it := range b.items {
		if it.want.in.DomainID == nil || it.final.Err != nil || it.call.member.IsPublishable() {
			continue // a publishable key may not name one
		}
		it.domain, it.lacksDomain = found[*it.want.in.DomainID], nil
		switch {
		case it.domain == nil:
			it.lacksDomain = errs.New(errs.NotFound, "The workspace has no domain with this id.").At("domainId")
		case it.domain.CodeSpace != domain.Own:
			it.lacksDomain = errs.New(errs.InvalidInput,
				"%s has no codes of its own: all codes of the workspace answer there. "+
					"Omit domainId.", it.domain.Host).At("domainId")
		}
		if it.isKnown() || it.want.draft != nil { // which validate leaves as it is
			it.final.Err = it.lacksDomain
		}
	}
	return nil
}
