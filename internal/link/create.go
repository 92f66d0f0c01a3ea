package link

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// CreateMany is Create for up to MaxBatch links, with one result each, in the same order. Equal
// links within the batch are created once; the first result has Created. A repeated call with the
// same IdempotencyKey and the same links, by the same caller within 24 hours, returns the results
// of the first. Calls with a presumed membership have neither a key nor a routing. The number of
// statements does not depend on the number of links. An error means that nothing was created:
// InvalidInput, IdempotencyConflict, CodeExhausted when all counters have been issued, or Forbidden.
func (s *Store) CreateMany(ctx context.Context, m workspace.Membership, in Batch) ([]Result, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	if err := CheckBatch(len(in.Links), "links"); err != nil {
		return nil, err
	}
	hasRouting := slices.ContainsFunc(in.Links, func(l *New) bool { return l.Routing != nil })
	if m.IsPresumed() && (in.IdempotencyKey != nil || hasRouting) { // they read before the transaction checks the membership
		return nil, errors.New("creating links with a presumed membership")
	}
	key, err := s.newKey(m, in)
	if err != nil {
		return nil, err
	}
	routings := make([]Routed, 0, len(in.Links))
	for _, l := range in.Links {
		routings = append(routings, Routed{Change: l.Routing})
	}
	if err := s.PrepareRoutings(ctx, m, routings); err != nil {
		return nil, err
	}
	c := &call{member: m, policy: in.OnError, key: key, operationID: in.OperationID}
	needClicks := false
	for _, l := range in.Links {
		c.add(l)
		needClicks = needClicks || l.MaxClicks != nil
	}
	if needClicks { // if a deleted link is revived, the redirects of this node count towards its limit
		if err := s.Clicks.Flush(ctx); err != nil {
			return nil, err
		}
	}
	for {
		if key != nil {
			if results, found, err := s.savedResults(ctx, m, key); found || err != nil {
				return results, err
			}
		}
		err := s.create(ctx, c)
		if err == nil {
			return c.results, InternalError(c.results)
		}
		if !errors.Is(err, idempotency.ErrTaken) { // else the same call was faster: return its results
			return nil, fmt.Errorf("creating links: %w", err)
		}
	}
}

func CheckBatch(n int, field string) error {
	if n < 1 || n > MaxBatch {
		return errs.New(errs.InvalidInput, "A batch must have 1 to %d links. This batch has %d.", MaxBatch, n).At(field)
	}
	return nil
}

// InternalError returns the first error that is not a user error, or nil.
func InternalError(results []Result) error {
	for _, r := range results {
		if r.Err != nil && !errs.From(r.Err).Kind.IsUserError() {
			return r.Err
		}
	}
	return nil
}

// FailAll fails every result of an AllOrNothing batch if one of them is an error, and reports
// whether one is.
func FailAll(results []Result) bool {
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
