package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/optional"
)

func (r *mutationResolver) Login(ctx context.Context, in gen.LoginInput) (*gen.LoginPayload, error) {
	l, err := r.Accounts.Login(ctx, in.Email, in.Password, origin(ctx))
	return loginPayload(l), err
}

func (r *mutationResolver) RefreshSession(
	ctx context.Context, in gen.RefreshSessionInput,
) (*gen.RefreshSessionPayload, error) {
	l, err := r.Accounts.Refresh(ctx, in.RefreshToken)
	return (*gen.RefreshSessionPayload)(loginPayload(l)), err
}

func loginPayload(l account.Login) *gen.LoginPayload {
	return &gen.LoginPayload{
		Token: &l.Token, ExpiresAt: &l.ExpiresAt, RefreshToken: &l.RefreshToken, User: l.Account,
	}
}

func (r *mutationResolver) Logout(ctx context.Context, in gen.LogoutInput) (*gen.LogoutPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	err = r.Accounts.Logout(ctx, actor, optional.Or(in.SessionID, actor.SessionID))
	return &gen.LogoutPayload{LoggedOut: true}, err
}

func (r *mutationResolver) LogoutEverywhere(
	ctx context.Context, in gen.LogoutEverywhereInput,
) (*gen.LogoutEverywherePayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	err = r.Accounts.LogoutEverywhere(ctx, actor, optional.Value(in.KeepThis))
	return &gen.LogoutEverywherePayload{LoggedOut: true}, err
}

func (r *sessionResolver) IsCurrent(ctx context.Context, s *account.Session) (bool, error) {
	actor, err := account.Current(ctx)
	return err == nil && actor.SessionID == s.ID, nil
}
