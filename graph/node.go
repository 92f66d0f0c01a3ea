package graph

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/graph/scalar"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Node implements gen.QueryResolver.
func (r query) Node(ctx context.Context, nodeID string) (scalar.Node, error) {
	switch {
	case strings.HasPrefix(nodeID, string(id.Link)):
		return node(orNull(r.link(ctx, nodeID)))
	case strings.HasPrefix(nodeID, string(id.Workspace)):
		return node(r.workspace(ctx, nodeID))
	case strings.HasPrefix(nodeID, string(id.Account)):
		return node(r.self(ctx, nodeID))
	}
	return nil, nil
}

// Nodes implements gen.QueryResolver. However many ids there are, it asks who the caller is, and what there is, once for each
// workspace.
func (r query) Nodes(ctx context.Context, ids []string) ([]scalar.Node, error) {
	if len(ids) < 1 || len(ids) > page.Max {
		return nil, errs.New(errs.InvalidInput, "Ask for 1 to %d ids; these are %d.", page.Max, len(ids)).At("ids")
	}
	spaces, err := r.memberships(ctx, ids)
	if err != nil {
		return nil, err
	}
	found := make([]scalar.Node, len(ids))
	for i, nodeID := range ids {
		m, known := spaces[nodeID]
		switch {
		case known && strings.HasPrefix(nodeID, string(id.Link)):
			found[i], err = node(orNull(loadersOf(ctx).of(m).links.get(ctx, nodeID)))
		case known:
			found[i], err = node(&m, nil)
		case strings.HasPrefix(nodeID, string(id.Account)):
			found[i], err = node(r.self(ctx, nodeID))
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// memberships are the caller's in the workspaces among the ids, and in those of the links among them, by the ids. The links are
// loaded.
func (r *resolver) memberships(ctx context.Context, ids []string) (map[string]workspace.Membership, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err
	}
	spaceOf, err := r.Links.WorkspacesOf(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for _, nodeID := range ids {
		if strings.HasPrefix(nodeID, string(id.Workspace)) {
			spaceOf[nodeID] = nodeID
		}
	}
	spaces, err := r.Workspaces.RequireEach(ctx, actor, slices.Collect(maps.Values(spaceOf))...)
	if err != nil {
		return nil, err
	}
	found, links := map[string]workspace.Membership{}, map[string][]string{}
	for nodeID, spaceID := range spaceOf {
		m, ok := spaces[spaceID]
		if !ok {
			continue
		}
		if found[nodeID] = m; nodeID != spaceID {
			links[spaceID] = append(links[spaceID], nodeID)
		}
	}
	return found, loadersOf(ctx).load(ctx, spaces, links)
}

// self is the caller's own account; everybody else's is null.
func (r *resolver) self(ctx context.Context, accountID string) (*account.Account, error) {
	actor, err := account.Current(ctx)
	if err != nil || actor.AccountID != accountID {
		return nil, err
	}
	return r.accountOf(ctx, accountID)
}

// node keeps a nil pointer from becoming an interface that is not nil.
func node[T any](value *T, err error) (scalar.Node, error) {
	if value == nil || err != nil {
		return nil, err
	}
	return value, nil
}
