package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/apikey"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// CreateAPIKey implements gen.MutationResolver.
func (r mutation) CreateAPIKey(ctx context.Context, in gen.CreateAPIKeyInput) (*gen.CreateAPIKeyPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	payload := &gen.CreateAPIKeyPayload{}
	if err == nil {
		var secret string
		payload.APIKey, secret, err = r.Keys.Create(ctx, m, apikey.NewKey{Name: in.Name, Scopes: in.Scopes, ExpiresAt: in.ExpiresAt})
		if err == nil {
			payload.Secret = &secret
		}
	}
	payload.Errors, err = userErrors(err)
	return payload, err
}

// RevokeAPIKey implements gen.MutationResolver.
func (r mutation) RevokeAPIKey(ctx context.Context, in gen.RevokeAPIKeyInput) (*gen.RevokeAPIKeyPayload, error) {
	k, mend, err := belonging(ctx, r, in.ID, r.Keys.WorkspaceOf, r.Keys.Revoke)
	return &gen.RevokeAPIKeyPayload{APIKey: k, Errors: mend}, err
}

// APIKeys implements gen.WorkspaceResolver.
func (r workspaceResolver) APIKeys(ctx context.Context, m *workspace.Membership, first *int, after *string) (*gen.APIKeyConnection, error) {
	edges, info, err := listed(ctx, m, id.Key, first, after, r.Keys.List, func(k *apikey.Key) string { return k.CreatedBy },
		func(k *apikey.Key) (string, *gen.APIKeyEdge) {
			return k.ID, &gen.APIKeyEdge{Cursor: page.Cursor(k.ID), Node: k}
		})
	return &gen.APIKeyConnection{Edges: edges, PageInfo: info}, err
}

// CreatedBy implements gen.ApiKeyResolver.
func (r keyResolver) CreatedBy(ctx context.Context, k *apikey.Key) (*account.Account, error) {
	return loader.Of(ctx).Accounts.Get(ctx, k.CreatedBy)
}
