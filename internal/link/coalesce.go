package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/workspace"
)

// coalescer combines concurrent requests for single links, by workspace. Requests that arrive while
// a batch of the workspace is being created would wait for the quota's row anyway: they wait here
// and share the statements and the commit of the next batch. On PostgreSQL, batches of different
// workspaces share a statement, see sharer.
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

// createRequested sets the result of every request. It returns no error: each request has its own.
func (s *Store) createRequested(ctx context.Context, requests []*createRequest) (struct{}, error) {
	err := s.createBatch(ctx, requests)
	if errors.Is(err, errPresumed) {
		requests = confirmed(ctx, requests)
		err = s.createBatch(ctx, requests)
	}
	isLost := errs.Is(err, errs.NotFound) || errs.Is(err, errs.Forbidden)
	if (isLost || db.IsRefused(err)) && len(requests) > 1 {
		for i := range requests { // one by one: no request fails because of another's input or caller
			_, _ = s.createRequested(ctx, requests[i:i+1])
		}
	}
	return struct{}{}, nil
}

// createBatch creates the links of one batch. Its error is the result of every request.
func (s *Store) createBatch(ctx context.Context, requests []*createRequest) error {
	if len(requests) == 0 {
		return nil
	}
	b := &batch{Store: s, member: requests[0].member, now: s.now()}
	for _, r := range requests {
		b.add(r.member, r.in, r.operationID)
		b.isPresumed = b.isPresumed || r.confirm != nil
	}
	results, err := b.create(ctx)
	for i, r := range requests {
		if err != nil {
			r.Result = Result{Err: fmt.Errorf("creating links: %w", err)}
		} else {
			r.Result = results[i]
		}
	}
	return err
}

// confirmed reads the current memberships and returns the permitted requests. It sets the error of the others.
func confirmed(ctx context.Context, requests []*createRequest) (permitted []*createRequest) {
	type current struct {
		member workspace.Membership
		err    error
	}
	known := map[string]current{}
	for _, r := range requests {
		r.Result = Result{}
		if r.confirm != nil {
			actor := r.member.ActorID()
			c, ok := known[actor]
			if !ok {
				c.member, c.err = r.confirm(ctx)
				known[actor] = c
			}
			r.member, r.confirm, r.Err = c.member, nil, c.err
		}
		if r.Err == nil {
			_, r.Err = r.member.Enter(ctx, workspace.WriteLinks)
		}
		if r.Err == nil {
			permitted = append(permitted, r)
		}
	}
	return permitted
}
