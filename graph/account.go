package graph

import (
	"cmp"
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/web"
	"github.com/linkforge/linkforge/internal/workspace"
)

// origin returns where the request comes from.
func origin(ctx context.Context) account.Origin {
	return account.Origin{Address: web.AddressOf(ctx), Agent: web.AgentOf(ctx)}
}

func (r *mutationResolver) Register(ctx context.Context, in gen.RegisterInput) (*gen.RegisterPayload, error) {
	var invitation account.Invitation
	if in.InvitationToken != nil {
		invitation = r.Workspaces.Presented(*in.InvitationToken)
	}
	l, err := r.Accounts.Register(ctx, in.Email, in.Password, in.Name, origin(ctx), invitation)
	return (*gen.RegisterPayload)(loginPayload(l)), err
}

func (r *queryResolver) LoginOptions(context.Context) (*gen.LoginOptions, error) {
	return &gen.LoginOptions{Registration: cmp.Or(r.Accounts.Registration, account.Open)}, nil
}

func (r *mutationResolver) ChangePassword(
	ctx context.Context, in gen.ChangePasswordInput,
) (*gen.ChangePasswordPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	a, err := r.Accounts.ChangePassword(ctx, actor, in.CurrentPassword, in.NewPassword, web.AddressOf(ctx))
	return &gen.ChangePasswordPayload{User: a}, err
}

func (r *mutationResolver) VerifyEmail(ctx context.Context, in gen.VerifyEmailInput) (*gen.VerifyEmailPayload, error) {
	a, err := r.Accounts.VerifyEmail(ctx, in.Token)
	return &gen.VerifyEmailPayload{User: a}, err
}

func (r *mutationResolver) RequestEmailVerification(
	ctx context.Context, in gen.RequestEmailVerificationInput,
) (*gen.RequestEmailVerificationPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	err = r.Accounts.RequestVerification(ctx, actor, in.Email)
	return &gen.RequestEmailVerificationPayload{Requested: true}, err
}

func (r *mutationResolver) RequestPasswordReset(
	ctx context.Context, in gen.RequestPasswordResetInput,
) (*gen.RequestPasswordResetPayload, error) {
	err := r.Accounts.RequestPasswordReset(ctx, in.Email, origin(ctx))
	return &gen.RequestPasswordResetPayload{Requested: true}, err
}

func (r *mutationResolver) ResetPassword(
	ctx context.Context, in gen.ResetPasswordInput,
) (*gen.ResetPasswordPayload, error) {
	a, err := r.Accounts.ResetPassword(ctx, in.Token, in.NewPassword, origin(ctx))
	return &gen.ResetPasswordPayload{User: a}, err
}

func (r *queryResolver) Me(ctx context.Context) (*account.Account, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, nil
	}
	return r.accountOf(ctx, actor.AccountID)
}

// accountOf loads an account; null if it has been deleted.
func (c *Config) accountOf(ctx context.Context, accountID string) (*account.Account, error) {
	found, err := c.Accounts.Load(ctx, accountID)
	return found[accountID], err
}

func (r *userResolver) Sessions(
	ctx context.Context, a *account.Account, first *int, after *string,
) (*gen.SessionConnection, error) {
	edges, nodes, info, err := list(ctx, a, id.Session, first, after, own(r.Accounts.Sessions),
		func(s *account.Session) (string, string) { return s.ID, "" },
		func(cursor string, s *account.Session) *gen.SessionEdge {
			return &gen.SessionEdge{Cursor: cursor, Node: s}
		})
	return &gen.SessionConnection{Edges: edges, Nodes: nodes, PageInfo: info}, err
}

func (r *userResolver) Workspaces(
	ctx context.Context, a *account.Account, deleted *bool, first *int, after *string,
) (*gen.WorkspaceConnection, error) {
	load := func(ctx context.Context, actor account.Actor, q page.Request) (page.Page[workspace.Membership], error) {
		return r.Config.Workspaces.List(ctx, actor, optional.Value(deleted), q)
	}
	nodes := []*workspace.Membership{}
	edges, _, info, err := list(ctx, a, id.Workspace, first, after, own(load),
		func(m workspace.Membership) (string, string) { return m.ID(), "" },
		func(cursor string, m workspace.Membership) *gen.WorkspaceEdge {
			nodes = append(nodes, &m)
			return &gen.WorkspaceEdge{Cursor: cursor, Node: &m}
		})
	return &gen.WorkspaceConnection{Edges: edges, Nodes: nodes, PageInfo: info}, err
}

// own loads the caller's own objects: none if the account is another user's.
func own[T any](
	load func(ctx context.Context, actor account.Actor, r page.Request) (page.Page[T], error),
) func(ctx context.Context, a *account.Account, r page.Request) (page.Page[T], error) {
	return func(ctx context.Context, a *account.Account, r page.Request) (page.Page[T], error) {
		actor, err := account.Current(ctx)
		if err != nil || actor.AccountID != a.ID {
			return page.Page[T]{}, nil
		}
		return load(ctx, actor, r)
	}
}
