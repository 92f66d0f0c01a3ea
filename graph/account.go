package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/web"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Register implements gen.MutationResolver.
func (r mutation) Register(ctx context.Context, in gen.RegisterInput) (*gen.RegisterPayload, error) {
	s, err := r.Accounts.Register(ctx, in.Email, in.Password, in.Name, origin(ctx))
	login, err := loginPayload(s, err)
	return (*gen.RegisterPayload)(login), err
}

// Login implements gen.MutationResolver.
func (r mutation) Login(ctx context.Context, in gen.LoginInput) (*gen.LoginPayload, error) {
	return loginPayload(r.Accounts.Login(ctx, in.Email, in.Password, origin(ctx)))
}

// RefreshSession implements gen.MutationResolver.
func (r mutation) RefreshSession(ctx context.Context, in gen.RefreshSessionInput) (*gen.RefreshSessionPayload, error) {
	login, err := loginPayload(r.Accounts.Refresh(ctx, in.RefreshToken))
	return (*gen.RefreshSessionPayload)(login), err
}

func loginPayload(l account.Login, err error) (*gen.LoginPayload, error) {
	if err != nil {
		mend, err := userErrors(err)
		return &gen.LoginPayload{Errors: mend}, err
	}
	return &gen.LoginPayload{
		Token: &l.Token, ExpiresAt: &l.ExpiresAt, RefreshToken: &l.RefreshToken, User: l.Account, Errors: []*gen.UserError{},
	}, nil
}

// origin is where the request comes from.
func origin(ctx context.Context) account.Origin {
	return account.Origin{Address: web.AddressOf(ctx), Agent: web.AgentOf(ctx)}
}

// Logout implements gen.MutationResolver.
func (r mutation) Logout(ctx context.Context, in gen.LogoutInput) (*gen.LogoutPayload, error) {
	actor, err := account.Person(ctx)
	if err != nil {
		return nil, err
	}
	sessionID := actor.SessionID
	if in.SessionID != nil {
		sessionID = *in.SessionID
	}
	err = r.Accounts.Logout(ctx, actor, sessionID)
	ended := err == nil
	mend, err := userErrors(err)
	return &gen.LogoutPayload{LoggedOut: ended, Errors: mend}, err
}

// LogoutEverywhere implements gen.MutationResolver.
func (r mutation) LogoutEverywhere(ctx context.Context, in gen.LogoutEverywhereInput) (*gen.LogoutEverywherePayload, error) {
	actor, err := account.Person(ctx)
	if err != nil {
		return nil, err
	}
	keepThis := in.KeepThis != nil && *in.KeepThis
	err = r.Accounts.LogoutEverywhere(ctx, actor, keepThis)
	return &gen.LogoutEverywherePayload{LoggedOut: err == nil, Errors: []*gen.UserError{}}, err
}

// ChangePassword implements gen.MutationResolver.
func (r mutation) ChangePassword(ctx context.Context, in gen.ChangePasswordInput) (*gen.ChangePasswordPayload, error) {
	actor, err := account.Person(ctx)
	if err != nil {
		return nil, err
	}
	a, err := r.Accounts.ChangePassword(ctx, actor, in.CurrentPassword, in.NewPassword, web.AddressOf(ctx))
	mend, err := userErrors(err)
	return &gen.ChangePasswordPayload{User: a, Errors: mend}, err
}

// VerifyEmail implements gen.MutationResolver.
func (r mutation) VerifyEmail(ctx context.Context, in gen.VerifyEmailInput) (*gen.VerifyEmailPayload, error) {
	a, err := r.Accounts.VerifyEmail(ctx, in.Token)
	mend, err := userErrors(err)
	return &gen.VerifyEmailPayload{User: a, Errors: mend}, err
}

// RequestEmailVerification implements gen.MutationResolver.
func (r mutation) RequestEmailVerification(
	ctx context.Context, in gen.RequestEmailVerificationInput,
) (*gen.RequestEmailVerificationPayload, error) {
	actor, err := account.Person(ctx)
	if err != nil {
		return nil, err
	}
	err = r.Accounts.RequestVerification(ctx, actor, in.Email)
	requested := err == nil
	mend, err := userErrors(err)
	return &gen.RequestEmailVerificationPayload{Requested: requested, Errors: mend}, err
}

// RequestPasswordReset implements gen.MutationResolver.
func (r mutation) RequestPasswordReset(ctx context.Context, in gen.RequestPasswordResetInput) (*gen.RequestPasswordResetPayload, error) {
	err := r.Accounts.RequestPasswordReset(ctx, in.Email, origin(ctx))
	requested := err == nil
	mend, err := userErrors(err)
	return &gen.RequestPasswordResetPayload{Requested: requested, Errors: mend}, err
}

// ResetPassword implements gen.MutationResolver.
func (r mutation) ResetPassword(ctx context.Context, in gen.ResetPasswordInput) (*gen.ResetPasswordPayload, error) {
	a, err := r.Accounts.ResetPassword(ctx, in.Token, in.NewPassword, origin(ctx))
	mend, err := userErrors(err)
	return &gen.ResetPasswordPayload{User: a, Errors: mend}, err
}

// Sessions implements gen.UserResolver.
func (r userResolver) Sessions(ctx context.Context, a *account.Account, first *int, after *string) (*gen.SessionConnection, error) {
	request, err := page.Parse(id.Session, first, after, nil, nil)
	if err != nil {
		return nil, err
	}
	actor, err := account.Current(ctx)
	if err != nil || actor.AccountID != a.ID {
		return &gen.SessionConnection{Edges: []*gen.SessionEdge{}, PageInfo: &gen.PageInfo{}}, nil
	}
	p, err := r.Accounts.Sessions(ctx, actor, request)
	if err != nil {
		return nil, err
	}
	edges, info := connect(p, func(s *account.Session) (string, *gen.SessionEdge) {
		return s.ID, &gen.SessionEdge{Cursor: page.Cursor(s.ID), Node: s}
	})
	return &gen.SessionConnection{Edges: edges, PageInfo: info}, nil
}

// IsCurrent implements gen.SessionResolver.
func (r sessionResolver) IsCurrent(ctx context.Context, s *account.Session) (bool, error) {
	actor, err := account.Current(ctx)
	return err == nil && actor.SessionID == s.ID, nil
}

// Me implements gen.QueryResolver.
func (r query) Me(ctx context.Context) (*account.Account, error) {
	actor, err := account.Person(ctx)
	if err != nil {
		return nil, nil
	}
	return r.accountOf(ctx, actor.AccountID)
}

// accountOf loads an account; one that is gone is null.
func (r *Config) accountOf(ctx context.Context, accountID string) (*account.Account, error) {
	found, err := r.Accounts.Load(ctx, accountID)
	return found[accountID], err
}

// Workspaces implements gen.UserResolver.
func (r userResolver) Workspaces(ctx context.Context, a *account.Account, deleted *bool, first *int, after *string) (*gen.WorkspaceConnection, error) {
	request, err := page.Parse(id.Workspace, first, after, nil, nil)
	if err != nil {
		return nil, err
	}
	actor, err := account.Current(ctx)
	if err != nil || actor.AccountID != a.ID {
		return &gen.WorkspaceConnection{Edges: []*gen.WorkspaceEdge{}, PageInfo: &gen.PageInfo{}}, nil
	}
	p, err := r.Config.Workspaces.List(ctx, actor, deleted != nil && *deleted, request)
	if err != nil {
		return nil, err
	}
	edges, info := connect(p, func(m workspace.Membership) (string, *gen.WorkspaceEdge) {
		return m.ID(), &gen.WorkspaceEdge{Cursor: page.Cursor(m.ID()), Node: &m}
	})
	return &gen.WorkspaceConnection{Edges: edges, PageInfo: info}, nil
}

// connect makes the edges of a page in the order of ids; edge makes one, and says its id.
func connect[T, E any](p page.Page[T], edge func(T) (id string, e E)) ([]E, *gen.PageInfo) {
	edges, ids := make([]E, 0, len(p.Items)), make([]string, 0, len(p.Items))
	for _, item := range p.Items {
		itemID, e := edge(item)
		edges, ids = append(edges, e), append(ids, itemID)
	}
	return edges, pageInfo(p, func(i int) string { return page.Cursor(ids[i]) })
}

// listed answers with a page of what belongs to a workspace: list reads it, person names the account that an item may be
// asked for, if there is one, and edge makes its edge.
func listed[T, E any](
	ctx context.Context, m *workspace.Membership, p id.Prefix, first *int, after *string,
	list func(ctx context.Context, m workspace.Membership, r page.Request) (page.Page[*T], error),
	person func(*T) string, edge func(*T) (id string, e *E),
) ([]*E, *gen.PageInfo, error) {
	request, err := page.Parse(p, first, after, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	found, err := list(ctx, *m, request)
	if err != nil {
		return nil, nil, err
	}
	people := make([]string, 0, len(found.Items))
	for _, item := range found.Items {
		if one := person(item); id.Valid(id.Account, one) {
			people = append(people, one)
		}
	}
	loader.Of(ctx).Accounts.Expect(people)
	edges, info := connect(found, edge)
	return edges, info, nil
}

// pageInfo says where the page stands; cursor is that of its i-th edge.
func pageInfo[T any](p page.Page[T], cursor func(i int) string) *gen.PageInfo {
	info := &gen.PageInfo{HasNextPage: p.HasNext, HasPreviousPage: p.HasPrevious}
	if len(p.Items) > 0 {
		start, end := cursor(0), cursor(len(p.Items)-1)
		info.StartCursor, info.EndCursor = &start, &end
	}
	return info
}
