package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

func (r *mutationResolver) EnrollTotp(ctx context.Context, in gen.EnrollTotpInput) (*gen.EnrollTotpPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	e, err := r.Accounts.EnrollTOTP(ctx, actor, proofAt("proof", in.Proof), web.AddressOf(ctx))
	return &gen.EnrollTotpPayload{Secret: &e.Secret, URI: &e.URI, ExpiresAt: &e.ExpiresAt}, err
}

func (r *mutationResolver) ConfirmTotp(ctx context.Context, in gen.ConfirmTotpInput) (*gen.ConfirmTotpPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	a, codes, err := r.Accounts.ConfirmTOTP(ctx, actor, in.Code, web.AddressOf(ctx))
	return &gen.ConfirmTotpPayload{RecoveryCodes: codes, User: a}, err
}

func (r *mutationResolver) RemoveTotp(ctx context.Context, in gen.RemoveTotpInput) (*gen.RemoveTotpPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	a, err := r.Accounts.RemoveTOTP(ctx, actor, proofAt("proof", in.Proof), web.AddressOf(ctx))
	return &gen.RemoveTotpPayload{User: a}, err
}

func (r *mutationResolver) RenewRecoveryCodes(
	ctx context.Context, in gen.RenewRecoveryCodesInput,
) (*gen.RenewRecoveryCodesPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	codes, err := r.Accounts.RenewRecoveryCodes(ctx, actor, proofAt("proof", in.Proof), web.AddressOf(ctx))
	return &gen.RenewRecoveryCodesPayload{RecoveryCodes: codes}, err
}
