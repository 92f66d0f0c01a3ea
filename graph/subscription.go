package graph

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/clickstream"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// authInterval is the time between two checks that the caller may still subscribe, and
	// authTimeout bounds a check.
	authInterval = 3 * time.Second
	authTimeout  = 5 * time.Second
	// readTimeout bounds the time that a client leaves an event unread.
	readTimeout = 5 * time.Second
	// loadedTTL is how long objects of one event are reused for others.
	loadedTTL = time.Second
)

func (r *subscriptionResolver) LinkClicked(
	ctx context.Context, workspaceID string, linkID, after *string,
) (<-chan *gen.Click, error) {
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
	t := &clickSource{
		Config: &r.Config, stream: s, watch: w, loaders: loader.Of(ctx), clicks: clicks, last: optional.Value(after),
	}
	t.member.Store(&m)
	s.Go(func() error {
		defer close(clicks)
		defer w.Close()
		return t.run(ctx)
	})
	return clicks, nil
}

// mayWatch authenticates the caller again, and proves that it may read the clicks of the workspace.
func (c *Config) mayWatch(ctx context.Context, authorization, workspaceID string) (workspace.Membership, error) {
	ctx, cancel := context.WithTimeout(ctx, authTimeout)
	defer cancel()
	ctx, err := c.Accounts.Authenticate(ctx, authorization)
	if err != nil {
		return workspace.Membership{}, err
	}
	m, err := c.membership(ctx, workspaceID)
	if err != nil {
		return workspace.Membership{}, err
	}
	_, err = m.Enter(ctx, workspace.ReadStats)
	return m, err
}

// isLinkOf returns NotFound for a link of another workspace, the same as for one that does not
// exist.
func (c *Config) isLinkOf(ctx context.Context, m workspace.Membership, linkID string) error {
	workspaceID, err := c.Links.WorkspaceOf(ctx, linkID)
	if err == nil && workspaceID != m.ID() {
		_, err = c.Links.WorkspaceOf(ctx, "")
	}
	return err
}

// clickSource sends the clicks of one subscription.
type clickSource struct {
	*Config
	stream  *transport.Stream
	watch   *clickstream.Watch
	loaders *loader.Loaders
	clicks  chan<- *gen.Click
	// member is the result of the last check.
	member atomic.Pointer[workspace.Membership]
	// last is the cursor of the last click that the client read.
	last string
}

// run sends clicks until the context ends, and returns the reason.
func (t *clickSource) run(ctx context.Context) error {
	var authorizing sync.WaitGroup
	defer authorizing.Wait()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	authorizing.Go(func() { end(t.authorize(ctx)) })
	unread, loaded := time.NewTimer(readTimeout), time.Now()
	defer unread.Stop()
	for {
		c, err := t.watch.Next(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if time.Since(loaded) > loadedTTL {
			t.loaders.Forget()
			loaded = time.Now()
		}
		unread.Reset(readTimeout)
		select {
		case t.clicks <- clickOf(*t.member.Load(), c):
			t.last = c.PublicID()
		case <-unread.C:
			return transport.NewResumable(errTooSlow(t.last), t.last)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// authorize returns the error of the first check that refuses the caller. It fails open while the
// database is down: there are no clicks to send either.
func (t *clickSource) authorize(ctx context.Context) error {
	for {
		if err := poll.Wait(ctx, authInterval); err != nil {
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
	remedy := "query clicks for the missing events, and subscribe again"
	if last != "" {
		remedy = "subscribe again with after: " + last
	}
	return errs.New(errs.TooSlow, "The client did not read an event for %d seconds. To receive all events, %s.",
		int(readTimeout.Seconds()), remedy)
}
