package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) UpdateMemberRole(
	ctx context.Context, in gen.UpdateMemberRoleInput,
) (*gen.UpdateMemberRolePayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	changed, err := r.Workspaces.UpdateRole(ctx, m, in.UserID, in.Role)
	return &gen.UpdateMemberRolePayload{Member: changed}, err
}

func (r *mutationResolver) RemoveMember(
	ctx context.Context, in gen.RemoveMemberInput,
) (*gen.RemoveMemberPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	changes := []*link.ScheduledChange{}
	if m.May(workspace.ReadLinks) { // who may not, can leave
		if changes, err = r.Schedule.ByActor(ctx, m, in.UserID); err != nil { // while the caller is a member
			return nil, err
		}
	}
	if err := r.Workspaces.RemoveMember(ctx, m, in.UserID); err != nil {
		return nil, err
	}
	return &gen.RemoveMemberPayload{
		DeletedID: new(id.Pair(id.Member, in.UserID, m.ID())), ScheduledChanges: changes,
	}, nil
}

func (r *mutationResolver) TransferOwnership(
	ctx context.Context, in gen.TransferOwnershipInput,
) (*gen.TransferOwnershipPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	owner, err := r.Workspaces.TransferOwnership(ctx, m, in.UserID)
	return &gen.TransferOwnershipPayload{Member: owner}, err
}

func (r *workspaceResolver) Members(
	ctx context.Context, m *workspace.Membership, first *int, after *string,
) (*gen.MemberConnection, error) {
	return list(ctx, *m, newest, id.Account, first, after, r.Workspaces.Members,
		func(one *workspace.Member) (string, string) { return one.AccountID, one.AccountID }) // the order of the page
}

func memberIDs(m *workspace.Member) (memberID, accountID string) { return m.ID(), m.AccountID }

func (r *memberResolver) User(ctx context.Context, m *workspace.Member) (*account.Account, error) {
	return loader.Of(ctx).Accounts.Get(ctx, m.AccountID)
}

func (r *memberResolver) HasSecondFactor(ctx context.Context, m *workspace.Member) (*bool, error) {
	if !m.In.May(workspace.WriteMembers) {
		return nil, nil
	}
	a, err := loader.Of(ctx).Accounts.Get(ctx, m.AccountID)
	if a == nil {
		return nil, err
	}
	return &a.HasTOTP, err
}
