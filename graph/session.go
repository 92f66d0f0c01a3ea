package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/sso"
)

func (r *mutationResolver) Login(ctx context.Context, in gen.LoginInput) (*gen.LoginPayload, error) {
	l, err := r.Accounts.Login(ctx, in.Email, in.Password, clientOf(ctx))
	return loginPayload(l), err
}

func (r *mutationResolver) RefreshSession(
	ctx context.Context, in gen.RefreshSessionInput,
) (*gen.RefreshSessionPayload, error) {
	l, err := r.Accounts.Refresh(ctx, in.RefreshToken)
	return sessionPayload(l), err
}

func (r *mutationResolver) StartSso(ctx context.Context, in gen.StartSsoInput) (*gen.StartSsoPayload, error) {
	t, err := r.Accounts.StartSSO(ctx, in.RedirectURI, clientOf(ctx))
	return &gen.StartSsoPayload{AuthorizationURL: &t.AuthorizationURL, Transaction: &t.Secret,
		ExpiresAt: &t.ExpiresAt}, err
}

func (r *mutationResolver) FinishSso(ctx context.Context, in gen.FinishSsoInput) (*gen.FinishSsoPayload, error) {
	l, err := r.Accounts.FinishSSO(ctx, sso.Response{
		Secret: in.Transaction, Code: in.Code, State: in.State, Issuer: optional.Value(in.Issuer),
	}, clientOf(ctx))
	return (*gen.FinishSsoPayload)(loginPayload(l)), err
}

func (r *mutationResolver) CompleteLogin(
	ctx context.Context, in gen.CompleteLoginInput,
) (*gen.CompleteLoginPayload, error) {
	l, err := r.Accounts.CompleteLogin(ctx, in.Challenge, proofAt("proof", in.Proof), clientOf(ctx))
	return (*gen.CompleteLoginPayload)(loginPayload(l)), err
}

func loginPayload(l account.Login) *gen.LoginPayload {
	if c := l.Challenge; c != nil {
		return &gen.LoginPayload{Challenge: &gen.LoginChallenge{Token: c.Token, Methods: c.Methods,
			ExpiresAt: c.ExpiresAt}}
	}
	return &gen.LoginPayload{Token: &l.Token, ExpiresAt: &l.ExpiresAt, RefreshToken: &l.RefreshToken, User: l.Account}
}

func sessionPayload(l account.Login) *gen.RefreshSessionPayload {
	return &gen.RefreshSessionPayload{Token: &l.Token, ExpiresAt: &l.ExpiresAt, RefreshToken: &l.RefreshToken,
		User: l.Account}
}

// proofAt is the proof of an input's field; none for nil.
func proofAt(field string, p *account.Proof) account.Proof {
	proof := optional.Value(p)
	proof.Field = field
	return proof
}

// passwordOrProof is the proof of an input with a field for the password, and proof for others. It
// returns InvalidInput for both.
func passwordOrProof(field string, password *string, p *account.Proof) (account.Proof, error) {
	switch {
	case password != nil && p != nil:
		return account.Proof{}, errs.New(errs.InvalidInput, "Send either %s or proof.", field).At("proof")
	case password != nil:
		return account.Proof{Password: password, Field: field}, nil
	case p != nil:
		return proofAt("proof", p), nil
	}
	return account.Proof{Field: field}, nil
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
