package main

import (
	"context"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// memberOfGrant returns the membership of the session or the API key that signed a URL. It reads
// both from the primary database, so a URL ends on every node when the credential does. It returns
// Expired when that has ended, and NotFound when the account or the workspace has left.
func (a *app) memberOfGrant(ctx context.Context, g *secrets.Grant) (workspace.Membership, error) {
	actor := account.Actor{AccountID: g.ActorID, SessionID: g.SessionID}
	if !id.Valid(id.Key, g.ActorID) {
		active, err := a.Accounts.SessionsByID(ctx, actor, g.SessionID)
		if err != nil {
			return workspace.Membership{}, err
		}
		if len(active) == 0 {
			return workspace.Membership{}, errEnded()
		}
		actor = a.Accounts.ActorOf(active[0])
	}
	m, err := a.member(ctx, actor, g.WorkspaceID)
	if errs.Is(err, errs.Unauthenticated) {
		err = errEnded()
	}
	return m, err
}

func errEnded() error {
	return errs.New(errs.Expired, "The session or the API key that requested this URL has ended. Request a new one.")
}

// member returns the current membership of an actor, which is an account or an API key. It returns
// Unauthenticated for a key that has ended, and NotFound when the account or the
// workspace has left, or the account is disabled.
func (a *app) member(ctx context.Context, actor account.Actor, workspaceID string) (workspace.Membership, error) {
	if id.Valid(id.Key, actor.AccountID) {
		key, err := a.APIKeys.Valid(ctx, actor.AccountID)
		if err != nil {
			return workspace.Membership{}, err
		}
		actor = account.Actor{Key: key}
	} else if _, err := a.Accounts.Enabled(ctx, actor.AccountID); errs.Is(err, errs.Unauthenticated) {
		return workspace.Membership{}, errs.New(errs.NotFound, "The account was deleted or disabled.")
	} else if err != nil {
		return workspace.Membership{}, err
	}
	return a.Workspaces.Require(ctx, actor, workspaceID)
}
