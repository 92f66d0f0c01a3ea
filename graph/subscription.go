package graph

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/eventstream"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// authInterval is the time between two checks that the caller may still subscribe, and
	// authTimeout bounds a check.
	authInterval = 3 * time.Second
	authTimeout  = 5 * time.Second
	// readTimeout bounds the time that a client leaves an event unread.
	readTimeout = 5 * time.Second
	// clicksLoadedTTL is how long objects that were loaded for one click are reused for others.
	clicksLoadedTTL = time.Second
)

func (r *subscriptionResolver) LinkClicked(
	ctx context.Context, workspaceID string, linkID, after *string,
) (<-chan *gen.Click, error) {
	m, err := r.mayWatch(ctx, transport.StreamOf(ctx).Authorization, workspaceID, workspace.ReadStats,
		optional.Value(linkID))
	if err != nil {
		return nil, err
	}
	if linkID != nil {
		if err := r.isLinkOf(ctx, m, *linkID); err != nil {
			return nil, err
		}
	}
	w, err := r.ClickStream.Watch(ctx, m, optional.Value(linkID), optional.Value(after))
	if err != nil {
		return nil, err
	}
	return serve(ctx, m, &source[*click.Click, gen.Click]{
		Config: &r.Config, watch: w, permission: workspace.ReadStats, linkID: optional.Value(linkID),
		loadedTTL: clicksLoadedTTL,
		last:      optional.Value(after), recovery: "query clicks for the missing events, and subscribe again",
		show: func(m workspace.Membership, c *click.Click) (*gen.Click, string) { return clickOf(m, c), c.PublicID() },
	}), nil
}

func (r *subscriptionResolver) EventCommitted(
	ctx context.Context, workspaceID string, types []audit.Action, linkID, after *string,
) (<-chan *workspace.LoggedEvent, error) {
	m, err := r.mayWatch(ctx, transport.StreamOf(ctx).Authorization, workspaceID, workspace.ReadLinks,
		optional.Value(linkID))
	if err != nil {
		return nil, err
	}
	if err := checkEventFilter(types, linkID); err != nil {
		return nil, err
	}
	filter := eventstream.Filter{Actions: types, TargetID: optional.Value(linkID)}
	w, err := r.EventStream.Watch(ctx, m, filter, optional.Value(after))
	if err != nil {
		return nil, err
	}
	return serve(ctx, m, &source[*audit.Event, workspace.LoggedEvent]{
		Config: &r.Config, watch: w, permission: workspace.ReadLinks, linkID: filter.TargetID,
		last:     optional.Value(after),
		recovery: "read the events of the workspace", show: visibleEvent,
	}), nil
}

// visibleEvent returns nil for an event that the member may not see.
func visibleEvent(m workspace.Membership, e *audit.Event) (*workspace.LoggedEvent, string) {
	if !slices.Contains(m.EventActions(), e.Action) {
		return nil, e.ID
	}
	return &workspace.LoggedEvent{Event: e, In: m}, e.ID
}

// mayWatch authenticates the caller again, and proves that it has the permission for the link or,
// if its id is empty, in the workspace.
func (c *Config) mayWatch(
	ctx context.Context, authorization, workspaceID string, p workspace.Permission, linkID string,
) (workspace.Membership, error) {
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
	_, err = m.EnterLink(ctx, p, c.Links.DB, linkID)
	return m, err
}

// isLinkOf returns NotFound for a link of another workspace, the same as for one that does not
// exist.
func (c *Config) isLinkOf(ctx context.Context, m workspace.Membership, linkID string) error {
	workspaceID, err := c.Links.WorkspaceOf(ctx, linkID)
	if errs.Is(err, errs.NotFound) || err == nil && workspaceID != m.ID() {
		err = workspace.ErrNoLink().At("linkId")
	}
	return err
}

// source sends the items of one subscription.
type source[Item, Shown any] struct {
	*Config
	watch *feed.Watch[Item]
	// show returns an item for the member, and its cursor; nil for an item that is left out.
	show func(workspace.Membership, Item) (*Shown, string)
	// permission is the one that the caller needs.
	permission workspace.Permission
	// linkID is the only link that the source is about; empty for the whole workspace.
	linkID string
	// loadedTTL is how long objects that were loaded for one item are reused for others.
	loadedTTL time.Duration
	// last is the cursor of the last item that the client read, or that was left out.
	last string
	// recovery is how to get the items after an empty cursor.
	recovery string

	stream  *transport.Stream
	loaders *loader.Loaders
	shown   chan *Shown
	// member is the result of the last check.
	member atomic.Pointer[workspace.Membership]
}

// serve runs the source while the subscription lasts, and returns the items that it sends.
func serve[Item, Shown any](
	ctx context.Context, m workspace.Membership, s *source[Item, Shown],
) <-chan *Shown {
	s.stream, s.loaders, s.shown = transport.StreamOf(ctx), loader.Of(ctx), make(chan *Shown)
	s.member.Store(&m)
	s.stream.Go(func() error {
		defer close(s.shown)
		defer s.watch.Close()
		return s.run(ctx)
	})
	return s.shown
}

// run sends items until the context ends, and returns the reason.
func (s *source[Item, Shown]) run(ctx context.Context) error {
	var authorizing sync.WaitGroup
	defer authorizing.Wait()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	authorizing.Go(func() { end(s.authorize(ctx)) })
	unread, loaded := time.NewTimer(readTimeout), time.Now()
	defer unread.Stop()
	for {
		item, err := s.watch.Next(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		shown, cursor := s.show(*s.member.Load(), item)
		if shown == nil {
			s.last = cursor
			continue
		}
		if time.Since(loaded) > s.loadedTTL {
			s.loaders.Forget()
			loaded = time.Now()
		}
		unread.Reset(readTimeout)
		select {
		case s.shown <- shown:
			s.last = cursor
		case <-unread.C:
			return transport.NewResumable(errTooSlow(s.last, s.recovery), s.last)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// authorize returns the error of the first check that refuses the caller. It fails open while the
// database is down: there are no clicks to send either.
func (s *source[Item, Shown]) authorize(ctx context.Context) error {
	for {
		if err := poll.Wait(ctx, authInterval); err != nil {
			return err
		}
		m, err := s.mayWatch(ctx, s.stream.Authorization, s.member.Load().ID(), s.permission, s.linkID)
		switch errs.From(err).Kind {
		case errs.Unauthenticated, errs.NotFound, errs.Forbidden:
			return err
		}
		if err == nil {
			s.member.Store(&m)
		}
	}
}

// errTooSlow names the remedy: to resume after the last cursor or, without one, another one.
func errTooSlow(last, remedy string) error {
	if last != "" {
		remedy = "subscribe again with after: " + last
	}
	return errs.New(errs.TooSlow, "The client did not read an event for %d seconds. To receive all events, %s.",
		int(readTimeout.Seconds()), remedy)
}
