package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) InviteMember(
	ctx context.Context, in gen.InviteMemberInput,
) (*gen.InviteMemberPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	i, token, err := r.Workspaces.Invite(ctx, m, in.Email, in.Role)
	return &gen.InviteMemberPayload{Invitation: i, Token: &token}, err
}

func (r *mutationResolver) AcceptInvitation(
	ctx context.Context, in gen.AcceptInvitationInput,
) (*gen.AcceptInvitationPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	m, err := r.Workspaces.Accept(ctx, actor, in.Token)
	return &gen.AcceptInvitationPayload{Workspace: &m}, err
}

func (r *mutationResolver) RevokeInvitation(
	ctx context.Context, in gen.RevokeInvitationInput,
) (*gen.RevokeInvitationPayload, error) {
	_, err := forItem(ctx, &r.Config, in.ID, r.Workspaces.Invitations().WorkspaceOf, r.Workspaces.RevokeInvitation)
	return &gen.RevokeInvitationPayload{DeletedID: &in.ID}, err
}

func (r *workspaceResolver) Invitations(
	ctx context.Context, m *workspace.Membership, first *int, after *string,
) (*gen.InvitationConnection, error) {
	return list(ctx, *m, newest, id.Invitation, first, after, r.Workspaces.Invitations().List, invitationIDs)
}

func invitationIDs(i *workspace.Invitation) (invitationID, accountID string) {
	return i.ID, i.InvitedBy
}

func (r *invitationResolver) InvitedBy(ctx context.Context, i *workspace.Invitation) (*account.Account, error) {
	return loader.Of(ctx).Accounts.Get(ctx, i.InvitedBy)
}
