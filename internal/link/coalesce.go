package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/workspace"
)

// coalescer combines concurrent requests for single links, by workspace. Requests that arrive while
// a batch of the workspace is being created would wait for the quota's row anyway: they wait here
// and share the statements and the commit of the next batch.
type coalescer = batcher.Batcher[string, *createRequest, struct{}]

// createRequest is a request for one link.
type createRequest struct {
	member workspace.Membership
	// confirm returns the current membership if member is presumed; otherwise it is nil.
	confirm func(ctx context.Context) (workspace.Membership, error)
	in      *New
	// operationID is that of Batch.
	operationID string
	Result
}

// createCoalesced creates one link, in a batch with concurrent requests of the workspace. When the
// context ends, the link may still be created, as if the response had been lost.
func (s *Store) createCoalesced(ctx context.Context, r *createRequest) (Result, error) {
	if _, err := s.coalescer.Do(ctx, r.member.ID(), r, s.createRequested); err != nil {
		return Result{}, err
	}
	return r.Result, internalError([]Result{r.Result})
}

// createRequested sets the result of every request.
func (s *Store) createRequested(ctx context.Context, requests []*createRequest) (struct{}, error) {
	if err := s.createBatch(ctx, requests); db.IsRefused(err) && len(requests) > 1 {
		for i := range requests { // one by one: no request fails because of another's input
			_ = s.createBatch(ctx, requests[i:i+1])
		}
	}
	return struct{}{}, nil
}

// createBatch creates one batch of links. Its error is the result of every request.
func (s *Store) createBatch(ctx context.Context, requests []*createRequest) error {
	results, err := s.batchOf(requests).create(ctx)
	if errors.Is(err, errPresumed) {
		if requests = confirmed(ctx, requests); len(requests) == 0 {
			return nil
		}
		results, err = s.batchOf(requests).create(ctx)
	}
	for i, r := range requests {
		if err != nil {
			r.Result = Result{Err: fmt.Errorf("creating links: %w", err)}
		} else {
			r.Result = results[i]
		}
	}
	return err
}

func (s *Store) batchOf(requests []*createRequest) *batch {
	b := &batch{Store: s, member: requests[0].member, now: s.now()}
	for _, r := range requests {
		b.add(r.member, r.in, r.operationID)
		b.isPresumed = b.isPresumed || r.confirm != nil
	}
	return b
}

// confirmed confirms the memberships of requests, and returns those that have one that allows to create links. The
// others get an error as their result.
func confirmed(ctx context.Context, requests []*createRequest) (allowed []*createRequest) {
	for _, r := range requests {
		if r.confirm != nil {
			r.member, r.Err = r.confirm(ctx)
			r.confirm = nil
		}
		if r.Err == nil {
			_, r.Err = r.member.Enter(ctx, workspace.WriteLinks)
		}
		if r.Err == nil {
			allowed = append(allowed, r)
		}
	}
	return allowed
}
