package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/idempotency"
	"github.com/linkforge/linkforge/internal/workspace"
)

// MaxBatch is how many links one call may create or change.
const MaxBatch = 1000

// Result is the outcome of one link of a batch: the link, or why there is none.
type Result struct {
	Link *Link
	// Created reports that this call created the link.
	Created bool
	// Ignored are the given fields that an existing link has otherwise, as in routing.card.
	Ignored []string
	// OperationID is the bulk call that wrote a version of the link; empty if it wrote none.
	OperationID string
	Err         error
}

// isEmpty reports whether there is neither a link nor an error.
func (r *Result) isEmpty() bool { return r.Link == nil && r.Err == nil }

// OperationOf returns the id of the bulk call with these results; nil if it changed nothing.
func OperationOf(results []Result) *string {
	for _, r := range results {
		if r.OperationID != "" {
			return &r.OperationID
		}
	}
	return nil
}

// Policy determines how a batch handles the failure of a single link.
type Policy string

// The policies.
const (
	// SkipFailed skips links that fail and processes the rest.
	SkipFailed Policy = "SKIP_FAILED"
	// AllOrNothing rolls back the whole batch if any link fails.
	AllOrNothing Policy = "ALL_OR_NOTHING"
)

// Batch is a list of links to create in one call.
type Batch struct {
	Links []*New
	// OnError is the policy; empty means SkipFailed.
	OnError Policy
	// IdempotencyKey identifies the call: a repeated call returns the results of the first.
	IdempotencyKey *string
	// OperationID is the id under which RevertOperation undoes the call; empty for a call that is no
	// operation. The key does not depend on it.
	OperationID string `json:"-"`
}

// Create creates a link. If a deterministic link with this URL, or a custom link with this code and
// URL, exists, it returns that. If several nodes get the same request at once, exactly one creates
// the link, consumes quota, and returns true in created. A deleted link is revived: it keeps its ID
// and code, takes its other values from the argument, consumes no quota, and created is false. An existing
// link stays as it is, see Result.Ignored.
//
// It returns InvalidInput, InvalidURL, UnsafeURL, CodeReserved, CodeTaken, CodeExhausted,
// QuotaExceeded or Forbidden, and Conflict if the existing link does not have a restriction of the argument.
func (s *Store) Create(ctx context.Context, m workspace.Membership, in New) (l *Link, created bool, err error) {
	results, err := s.CreateMany(ctx, m, Batch{Links: []*New{&in}})
	if err != nil {
		return nil, false, err
	}
	return results[0].Link, results[0].Created, results[0].Err
}

// CreatePresumed is CreateMany for a membership from memory. It returns NotFound or Forbidden if the member was removed
// or lost the permission meanwhile.
func (s *Store) CreatePresumed(ctx context.Context, p workspace.Presumed, in Batch) ([]Result, error) {
	m := p.Membership()
	if !p.IsCurrent() && in.canCoalesce() && in.Links[0].canCombine(m) && m.May(workspace.WriteLinks) {
		ctx, err := m.Enter(ctx, workspace.WriteLinks)
		if err != nil {
			return nil, err
		}
		result, err := s.createCoalesced(ctx, &createRequest{
			member: m, confirm: p.Confirm, in: in.Links[0], operationID: in.OperationID,
		})
		return []Result{result}, err
	}
	m, err := p.Confirm(ctx)
	if err != nil {
		return nil, err
	}
	return s.CreateMany(ctx, m, in)
}

// canCoalesce reports whether the batch is one link that can share the batch of other calls. Those with MaxClicks wait
// until clicks are written, those with a password may compare it, and those with an idempotency key return saved results.
func (in *Batch) canCoalesce() bool {
	return len(in.Links) == 1 && in.IdempotencyKey == nil && in.Links[0].MaxClicks == nil &&
		in.Links[0].Routing.NewPassword() == nil
}

// canCombine reports whether createCombined may create the link.
func (in *New) canCombine(m workspace.Membership) bool {
	return in.strategy(m) == Deterministic && in.Routing == nil && in.ExternalID == nil && in.Metadata == nil
}

// CreateMany is Create for up to MaxBatch links, with one result each, in the same order. Equal
// links within the batch are created once; the first result has Created. A repeated call with the
// same IdempotencyKey and the same links, by the same caller within 24 hours, returns the results
// of the first. The number of statements does not depend on the number of links. An error means
// that nothing was created: InvalidInput, IdempotencyConflict, CodeExhausted when all counters have
// been issued, or Forbidden.
func (s *Store) CreateMany(ctx context.Context, m workspace.Membership, in Batch) ([]Result, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	if err := checkBatch(len(in.Links), "links"); err != nil {
		return nil, err
	}
	key, err := s.newKey(m, in)
	if err != nil {
		return nil, err
	}
	routings := make([]routed, 0, len(in.Links))
	for _, l := range in.Links {
		routings = append(routings, routed{change: l.Routing})
	}
	if err := s.prepareRoutings(ctx, m, routings); err != nil {
		return nil, err
	}
	if in.canCoalesce() {
		one, err := s.createCoalesced(ctx, &createRequest{member: m, in: in.Links[0], operationID: in.OperationID})
		return []Result{one}, err
	}
	for {
		if key != nil {
			if results, found, err := s.savedResults(ctx, m, key); found || err != nil {
				return results, err
			}
		}
		b := &batch{Store: s, member: m, now: s.now(), policy: in.OnError, key: key}
		for _, l := range in.Links {
			b.add(m, l, in.OperationID)
		}
		results, err := b.create(ctx)
		if err == nil {
			return results, internalError(results)
		}
		if !errors.Is(err, idempotency.ErrTaken) { // else the same call was faster: return its results
			return nil, fmt.Errorf("creating links: %w", err)
		}
	}
}

func checkBatch(n int, field string) error {
	if n < 1 || n > MaxBatch {
		return errs.New(errs.InvalidInput, "A batch must have 1 to %d links. This batch has %d.", MaxBatch, n).At(field)
	}
	return nil
}

// internalError returns the first error that is not a user error, or nil.
func internalError(results []Result) error {
	for _, r := range results {
		if r.Err != nil && !errs.From(r.Err).Kind.IsUserError() {
			return r.Err
		}
	}
	return nil
}

// failAll fails every result of an AllOrNothing batch if one of them is an error, and reports
// whether one is.
func failAll(results []Result) bool {
	failed := false
	for _, r := range results {
		failed = failed || r.Err != nil
	}
	for i, r := range results {
		if failed && r.Err == nil {
			results[i] = Result{
				Err: errs.New(errs.Conflict, "Another link of the batch failed, so the batch was rolled back."),
			}
		}
	}
	return failed
}
