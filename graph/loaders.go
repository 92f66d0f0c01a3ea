package graph

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/workspace"
)

// loaders load at once what the items of a page ask for one by one. They live as long as an operation.
type loaders struct {
	*resolver
	accounts loader[*account.Account]

	mu    sync.Mutex
	links map[string]*linkLoaders // by workspace
}

// linkLoaders load what belongs to links of one workspace.
type linkLoaders struct {
	totals loader[click.Tally]
	tags   loader[[]string]
	hits   loader[int64]
	links  loader[*link.Link]
}

type loadersKey struct{}

func (r *resolver) withLoaders(ctx context.Context) context.Context {
	return context.WithValue(ctx, loadersKey{}, &loaders{
		resolver: r, accounts: loader[*account.Account]{load: r.Accounts.Load}, links: map[string]*linkLoaders{},
	})
}

// of are the loaders for links of a membership's workspace.
func (l *loaders) of(m workspace.Membership) *linkLoaders {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.links[m.ID()] == nil {
		l.links[m.ID()] = &linkLoaders{
			totals: loader[click.Tally]{load: within(m, l.Clicks.Totals)},
			tags:   loader[[]string]{load: within(m, l.Links.TagsOf)},
			hits:   loader[int64]{load: within(m, l.hitsUsed)},
			links:  loader[*link.Link]{load: within(m, l.many)},
		}
	}
	return l.links[m.ID()]
}

// within binds what loads to the membership by which it may.
func within[T any](
	m workspace.Membership, load func(ctx context.Context, m workspace.Membership, keys ...string) (map[string]T, error),
) func(ctx context.Context, keys ...string) (map[string]T, error) {
	return func(ctx context.Context, keys ...string) (map[string]T, error) { return load(ctx, m, keys...) }
}

// freshLoaders gives each mutation of an operation loaders of its own: what one has changed, the next must not be
// told as it was before.
func (r *resolver) freshLoaders(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if graphql.GetOperationContext(ctx).Operation.Operation == ast.Mutation {
		ctx = r.withLoaders(ctx)
	}
	return next(ctx)
}

// readOwnWrites has queries read from a replica, if there is one, and mutations be known to whoever makes them on any node. Nobody
// in particular reads nothing of a workspace.
func (r *resolver) readOwnWrites(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	if _, err := account.Current(ctx); err != nil {
		return next(ctx)
	}
	switch graphql.GetOperationContext(ctx).Operation.Operation {
	case ast.Query:
		return next(r.Writers.Reading(ctx, subject(ctx)))
	case ast.Mutation:
		defer r.Writers.Wrote(ctx, subject(ctx))
	}
	return next(ctx)
}

func loadersOf(ctx context.Context) *loaders { return ctx.Value(loadersKey{}).(*loaders) }

// expect says that what follows is about these links.
func (l *loaders) expect(links []*link.Link) {
	ids, accounts := map[*linkLoaders][]string{}, []string{}
	for _, one := range links {
		ids[l.of(one.In)] = append(ids[l.of(one.In)], one.ID)
		if one.CreatedBy != nil {
			accounts = append(accounts, *one.CreatedBy)
		}
	}
	for loaders, ids := range ids {
		loaders.totals.expect(ids)
		loaders.tags.expect(ids)
		loaders.hits.expect(ids)
	}
	l.accounts.expect(accounts)
}

// many loads links, of which what belongs to them will be asked.
func (l *loaders) many(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string]*link.Link, error) {
	found, err := l.Links.Many(ctx, m, linkIDs...)
	l.expect(slices.Collect(maps.Values(found)))
	return found, err
}

// loader loads values by key. Keys that are expected together are loaded together, when the first of them is
// asked for: nothing waits for others to come, and a page costs as many statements as one item.
type loader[T any] struct {
	load func(ctx context.Context, keys ...string) (map[string]T, error)

	mu     sync.Mutex
	groups map[string]*group[T]
}

// group is what is loaded at once.
type group[T any] struct {
	keys   []string
	once   sync.Once
	values map[string]T
	err    error
}

var errNotLoaded = errors.New("loading failed for another part of the operation")

// expect groups the keys that no group has yet.
func (l *loader[T]) expect(keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.join(keys)
}

// get is the key's value: the zero value when there is none.
func (l *loader[T]) get(ctx context.Context, key string) (T, error) {
	l.mu.Lock()
	l.join([]string{key})
	g := l.groups[key]
	l.mu.Unlock()
	g.once.Do(func() {
		g.err = errNotLoaded // should load panic, the others must not take nothing for the truth
		g.values, g.err = l.load(ctx, g.keys...)
	})
	return g.values[key], g.err
}

func (l *loader[T]) join(keys []string) {
	if l.groups == nil {
		l.groups = map[string]*group[T]{}
	}
	g := &group[T]{}
	for _, key := range keys {
		if l.groups[key] == nil {
			l.groups[key] = g
			g.keys = append(g.keys, key)
		}
	}
}

// hitsUsed is how many redirects the links have answered this month.
func (r *resolver) hitsUsed(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string]int64, error) {
	return r.Clicks.CountsSince(ctx, m, linkIDs, hitquota.MonthOf(r.Now()).Start)
}
