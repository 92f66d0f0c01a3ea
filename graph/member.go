package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// InviteMember implements gen.MutationResolver.
func (r mutation) InviteMember(ctx context.Context, in gen.InviteMemberInput) (*gen.InviteMemberPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	payload := &gen.InviteMemberPayload{}
	if err == nil {
		var token string
		if payload.Invitation, token, err = r.Workspaces.Invite(ctx, m, in.Email, in.Role); err == nil {
			payload.Token = &token
		}
	}
	payload.Errors, err = userErrors(err)
	return payload, err
}

// AcceptInvitation implements gen.MutationResolver.
func (r mutation) AcceptInvitation(ctx context.Context, in gen.AcceptInvitationInput) (*gen.AcceptInvitationPayload, error) {
	actor, err := account.Person(ctx)
	if err != nil {
		return nil, err
	}
	m, err := r.Workspaces.Accept(ctx, actor, in.Token)
	w, mend, err := membershipOrErrors(m, err)
	return &gen.AcceptInvitationPayload{Workspace: w, Errors: mend}, err
}

// RevokeInvitation implements gen.MutationResolver.
func (r mutation) RevokeInvitation(ctx context.Context, in gen.RevokeInvitationInput) (*gen.RevokeInvitationPayload, error) {
	i, mend, err := belonging(ctx, r, in.ID, r.Workspaces.WorkspaceOfInvitation, r.Workspaces.RevokeInvitation)
	return &gen.RevokeInvitationPayload{Invitation: i, Errors: mend}, err
}

// belonging does something with what belongs to a workspace that the caller is a member of. What belongs to others looks
// like what does not exist.
func belonging[T any](
	ctx context.Context, r mutation, itemID string,
	workspaceOf func(ctx context.Context, itemID string) (string, error),
	do func(ctx context.Context, m workspace.Membership, itemID string) (*T, error),
) (*T, []*gen.UserError, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, nil, err
	}
	var item *T
	m, err := r.Workspaces.RequireFor(ctx, actor, itemID, workspaceOf)
	if err == nil {
		item, err = do(ctx, m, itemID)
	}
	mend, err := userErrors(err)
	return item, mend, err
}

// UpdateMemberRole implements gen.MutationResolver.
func (r mutation) UpdateMemberRole(ctx context.Context, in gen.UpdateMemberRoleInput) (*gen.UpdateMemberRolePayload, error) {
	var changed *workspace.Member
	m, err := r.membership(ctx, in.WorkspaceID)
	if err == nil {
		changed, err = r.Workspaces.UpdateRole(ctx, m, in.UserID, in.Role)
	}
	mend, err := userErrors(err)
	return &gen.UpdateMemberRolePayload{Member: changed, Errors: mend}, err
}

// RemoveMember implements gen.MutationResolver.
func (r mutation) RemoveMember(ctx context.Context, in gen.RemoveMemberInput) (*gen.RemoveMemberPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err == nil {
		err = r.Workspaces.RemoveMember(ctx, m, in.UserID)
	}
	removed := err == nil
	mend, err := userErrors(err)
	return &gen.RemoveMemberPayload{Removed: removed, Errors: mend}, err
}

// TransferOwnership implements gen.MutationResolver.
func (r mutation) TransferOwnership(ctx context.Context, in gen.TransferOwnershipInput) (*gen.TransferOwnershipPayload, error) {
	var owner *workspace.Member
	m, err := r.membership(ctx, in.WorkspaceID)
	if err == nil {
		owner, err = r.Workspaces.TransferOwnership(ctx, m, in.UserID)
	}
	mend, err := userErrors(err)
	return &gen.TransferOwnershipPayload{Member: owner, Errors: mend}, err
}

// Members implements gen.WorkspaceResolver.
func (r workspaceResolver) Members(ctx context.Context, m *workspace.Membership, first *int, after *string) (*gen.MemberConnection, error) {
	edges, info, err := listed(ctx, m, id.Account, first, after, r.Workspaces.Members, func(one *workspace.Member) string { return one.AccountID },
		func(one *workspace.Member) (string, *gen.MemberEdge) {
			return one.AccountID, &gen.MemberEdge{Cursor: page.Cursor(one.AccountID), Node: one}
		})
	return &gen.MemberConnection{Edges: edges, PageInfo: info}, err
}

// User implements gen.MemberResolver.
func (r memberResolver) User(ctx context.Context, m *workspace.Member) (*account.Account, error) {
	return loader.Of(ctx).Accounts.Get(ctx, m.AccountID)
}

// Invitations implements gen.WorkspaceResolver.
func (r workspaceResolver) Invitations(
	ctx context.Context, m *workspace.Membership, first *int, after *string,
) (*gen.InvitationConnection, error) {
	edges, info, err := listed(ctx, m, id.Invitation, first, after, r.Workspaces.Invitations, func(i *workspace.Invitation) string { return i.InvitedBy },
		func(i *workspace.Invitation) (string, *gen.InvitationEdge) {
			return i.ID, &gen.InvitationEdge{Cursor: page.Cursor(i.ID), Node: i}
		})
	return &gen.InvitationConnection{Edges: edges, PageInfo: info}, err
}

// InvitedBy implements gen.InvitationResolver.
func (r invitedResolver) InvitedBy(ctx context.Context, i *workspace.Invitation) (*account.Account, error) {
	return loader.Of(ctx).Accounts.Get(ctx, i.InvitedBy)
}
