package graph

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/pause"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// provenEvery is how often a subscription must prove that its caller still may, and proofDeadline bounds that.
	provenEvery   = 3 * time.Second
	proofDeadline = 5 * time.Second
	// takenWithin is how long a client may leave an event that there is for it.
	takenWithin = 5 * time.Second
	// loadedFor is how long what belongs to one event is told of others too.
	loadedFor = time.Second
)

type subscription struct{ *resolver }

// Subscription implements gen.ResolverRoot.
func (r *resolver) Subscription() gen.SubscriptionResolver { return subscription{r} }

// LinkClicked implements gen.SubscriptionResolver.
func (r subscription) LinkClicked(ctx context.Context, workspaceID string, linkID, after *string) (<-chan *gen.Click, error) {
	s := transport.StreamOf(ctx)
	m, err := r.mayWatch(ctx, s.Authorization, workspaceID)
	if err != nil {
		return nil, err
	}
	if linkID != nil {
		if err := r.isLinkOf(ctx, m, *linkID); err != nil {
			return nil, err
		}
	}
	w, err := r.Live.Watch(ctx, m, optional.Value(linkID), optional.Value(after))
	if err != nil {
		return nil, err
	}
	clicks := make(chan *gen.Click)
	t := &teller{resolver: r.resolver, stream: s, watch: w, loaders: loader.Of(ctx), clicks: clicks, last: optional.Value(after)}
	t.member.Store(&m)
	s.Go(func() error {
		defer close(clicks)
		defer w.Close()
		return t.run(ctx)
	})
	return clicks, nil
}

// mayWatch proves that the authorization is still good, and lets see the clicks of the workspace.
func (r *resolver) mayWatch(ctx context.Context, authorization, workspaceID string) (workspace.Membership, error) {
	ctx, cancel := context.WithTimeout(ctx, proofDeadline)
	defer cancel()
	ctx, err := r.Accounts.Authenticate(ctx, authorization)
	if err != nil {
		return workspace.Membership{}, err
	}
	m, err := r.membership(ctx, workspaceID)
	if err != nil {
		return workspace.Membership{}, err
	}
	_, err = m.Enter(ctx, workspace.ReadStats)
	return m, err
}

// isLinkOf returns NotFound for a link of another workspace, the same as for one that does not exist.
func (r *resolver) isLinkOf(ctx context.Context, m workspace.Membership, linkID string) error {
	workspaceID, err := r.Links.WorkspaceOf(ctx, linkID)
	if err == nil && workspaceID != m.ID() {
		_, err = r.Links.WorkspaceOf(ctx, "")
	}
	return err
}

// teller tells one subscription of clicks.
type teller struct {
	*resolver
	stream  *transport.Stream
	watch   *click.Watch
	loaders *loader.Loaders
	clicks  chan<- *gen.Click
	// member is the membership that was proved last.
	member atomic.Pointer[workspace.Membership]
	// last is the cursor of the last click that was taken.
	last string
}

// run tells until the context ends, and returns why it has ended.
func (t *teller) run(ctx context.Context) error {
	var proving sync.WaitGroup
	defer proving.Wait()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	proving.Go(func() { end(t.prove(ctx)) })
	waited, loaded := time.NewTimer(takenWithin), time.Now()
	defer waited.Stop()
	for {
		c, err := t.watch.Next(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if time.Since(loaded) > loadedFor {
			t.loaders.Forget()
			loaded = time.Now()
		}
		waited.Reset(takenWithin)
		select {
		case t.clicks <- clickOf(*t.member.Load(), c):
			t.last = c.PublicID()
		case <-waited.C:
			return transport.NewResumable(errTooSlow(t.last), t.last)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// prove asks again and again whether the caller still may, and returns why not. While the database does not answer it
// fails open: there is nothing to be told either.
func (t *teller) prove(ctx context.Context) error {
	for {
		if err := pause.For(ctx, provenEvery); err != nil {
			return err
		}
		m, err := t.mayWatch(ctx, t.stream.Authorization, t.member.Load().ID())
		switch errs.From(err).Kind {
		case errs.Unauthenticated, errs.NotFound, errs.Forbidden:
			return err
		}
		if err == nil {
			t.member.Store(&m)
		}
	}
}

func errTooSlow(last string) error {
	how := "read clicks for what is missing, and subscribe anew"
	if last != "" {
		how = "subscribe again with after: " + last
	}
	return errs.New(errs.TooSlow, "The client did not take an event for %d seconds. Nothing has been left out: %s.", int(takenWithin.Seconds()), how)
}
