package graph

import (
	"context"
	"strings"

	"github.com/linkforge/linkforge/graph/scalar"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/id"
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
