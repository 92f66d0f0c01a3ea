package link

import (
	"context"
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
	in     *New
	// operationID is that of Batch.
	operationID string
	Result
}

// createCoalesced creates one link, in a batch with concurrent requests of the workspace. When the
// context ends, the link may still be created, as if the response had been lost.
func (s *Store) createCoalesced(
	ctx context.Context, m workspace.Membership, in *New, operationID string,
) (Result, error) {
	r := &createRequest{member: m, in: in, operationID: operationID}
	if _, err := s.coalescer.Do(ctx, m.ID(), r, s.createRequested); err != nil {
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
	b := &batch{Store: s, member: requests[0].member, now: s.now()}
	for _, r := range requests {
		b.add(r.member, r.in, r.operationID)
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
