package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) CreateAPIKey(
	ctx context.Context, in gen.CreateAPIKeyInput,
) (*gen.CreateAPIKeyPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	k, secret, err := r.APIKeys.Create(ctx, m, apikey.NewKey{
		Name: in.Name, Scopes: in.Scopes, FolderIDs: in.FolderIds, ExpiresAt: in.ExpiresAt,
		Limits: apikey.Limits{
			DestinationHosts: in.DestinationHosts, Origins: in.Origins, Networks: in.Networks,
			RequestsPerMinute: in.RequestsPerMinute, LinksPerDay: in.LinksPerDay,
		},
	})
	return &gen.CreateAPIKeyPayload{APIKey: k, Secret: &secret}, err
}

func (r *mutationResolver) RevokeAPIKey(
	ctx context.Context, in gen.RevokeAPIKeyInput,
) (*gen.RevokeAPIKeyPayload, error) {
	k, err := forItem(ctx, &r.Config, in.ID, r.APIKeys.Rows().WorkspaceOf, r.APIKeys.Revoke)
	return &gen.RevokeAPIKeyPayload{APIKey: k}, err
}

func (r *mutationResolver) RotateAPIKey(
	ctx context.Context, in gen.RotateAPIKeyInput,
) (*gen.RotateAPIKeyPayload, error) {
	p := &gen.RotateAPIKeyPayload{}
	rotate := func(ctx context.Context, m workspace.Membership, keyID string) (*apikey.Key, error) {
		k, secret, err := r.APIKeys.Rotate(ctx, m, keyID, in.OldSecretEndsAt)
		if err == nil {
			p.Secret = &secret
		}
		return k, err
	}
	var err error
	p.APIKey, err = forItem(ctx, &r.Config, in.ID, r.APIKeys.Rows().WorkspaceOf, rotate)
	return p, err
}

func (r *workspaceResolver) APIKeys(
	ctx context.Context, m *workspace.Membership, first *int, after *string,
) (*gen.APIKeyConnection, error) {
	p, err := list(ctx, *m, newest, id.Key, first, after, r.Config.APIKeys.Rows().List, apiKeyIDs)
	for _, k := range p.Items {
		loader.Of(ctx).In(*m).Folders.Expect(k.Folders)
	}
	return p, err
}

func apiKeyIDs(k *apikey.Key) (keyID, accountID string) { return k.ID, k.CreatedBy }

func (r *apiKeyResolver) CreatedBy(ctx context.Context, k *apikey.Key) (*account.Account, error) {
	return loader.Of(ctx).Accounts.Get(ctx, k.CreatedBy)
}

func (r *apiKeyResolver) Folders(ctx context.Context, k *apikey.Key) ([]*folder.Folder, error) {
	found := []*folder.Folder{}
	if len(k.Folders) == 0 {
		return found, nil
	}
	folders := &loader.Of(ctx).In(k.In).Folders
	folders.Expect(k.Folders)
	for _, folderID := range k.Folders {
		f, err := folders.Get(ctx, folderID)
		if err != nil {
			return nil, err
		}
		if f != nil { // else it was deleted after the key was revoked
			found = append(found, f)
		}
	}
	return found, nil
}
