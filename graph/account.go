package graph

import (
	"cmp"
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// clientOf returns where the request comes from.
func clientOf(ctx context.Context) account.Client {
	return account.Client{Address: web.AddressOf(ctx), Agent: web.AgentOf(ctx)}
}

func (r *mutationResolver) Register(ctx context.Context, in gen.RegisterInput) (*gen.RegisterPayload, error) {
	var invitation account.Invitation
	if in.InvitationToken != nil {
		invitation = r.Workspaces.Presented(*in.InvitationToken)
	}
	l, err := r.Accounts.Register(ctx, in.Email, in.Password, in.Name, clientOf(ctx), invitation)
	return (*gen.RegisterPayload)(sessionPayload(l)), err
}

func (r *queryResolver) LoginOptions(context.Context) (*gen.LoginOptions, error) {
	o := &gen.LoginOptions{Password: !r.Accounts.PasswordsOff,
		Registration: cmp.Or(r.Accounts.Registration, account.Open)}
	if r.Accounts.PasswordsOff {
		o.Registration = account.Closed
	}
	if r.Accounts.SSO != nil {
		o.SsoName = &r.Accounts.SSO.Name
	}
	return o, nil
}

func (r *mutationResolver) ChangePassword(
	ctx context.Context, in gen.ChangePasswordInput,
) (*gen.ChangePasswordPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	p, err := passwordOrProof("currentPassword", in.CurrentPassword, in.Proof)
	if err != nil {
		return nil, err
	}
	a, err := r.Accounts.ChangePassword(ctx, actor, p, in.NewPassword, web.AddressOf(ctx))
	return &gen.ChangePasswordPayload{User: a}, err
}

func (r *mutationResolver) VerifyEmail(ctx context.Context, in gen.VerifyEmailInput) (*gen.VerifyEmailPayload, error) {
	a, err := r.Accounts.VerifyEmail(ctx, in.Token)
	return &gen.VerifyEmailPayload{User: a}, err
}

func (r *mutationResolver) RequestEmailVerification(
	ctx context.Context, in gen.RequestEmailVerificationInput,
) (*gen.RequestEmailVerificationPayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	err = r.Accounts.RequestVerification(ctx, actor, in.Email)
	return &gen.RequestEmailVerificationPayload{Requested: true}, err
}

func (r *mutationResolver) RequestPasswordReset(
	ctx context.Context, in gen.RequestPasswordResetInput,
) (*gen.RequestPasswordResetPayload, error) {
	err := r.Accounts.RequestPasswordReset(ctx, in.Email, clientOf(ctx))
	return &gen.RequestPasswordResetPayload{Requested: true}, err
}

func (r *mutationResolver) ResetPassword(
	ctx context.Context, in gen.ResetPasswordInput,
) (*gen.ResetPasswordPayload, error) {
	a, err := r.Accounts.ResetPassword(ctx, in.Token, in.NewPassword, proofAt("secondFactor", in.SecondFactor),
		clientOf(ctx))
	return &gen.ResetPasswordPayload{User: a}, err
}

func (r *mutationResolver) UpdateMe(ctx context.Context, in gen.UpdateMeInput) (*gen.UpdateMePayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	a, err := r.Accounts.Update(ctx, actor, in.Name, in.Email, proofAt("proof", in.Proof), web.AddressOf(ctx))
	return &gen.UpdateMePayload{User: a}, err
}

func (r *queryResolver) Me(ctx context.Context) (*account.Account, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, nil
	}
	return r.accountOf(ctx, actor.AccountID)
}

// accountOf loads an account; null if it has been deleted.
func (c *Config) accountOf(ctx context.Context, accountID string) (*account.Account, error) {
	found, err := c.Accounts.Load(ctx, accountID)
	return found[accountID], err
}

func (r *userResolver) Sessions(
	ctx context.Context, a *account.Account, first *int, after *string,
) (*gen.SessionConnection, error) {
	return list(ctx, a, newest, id.Session, first, after, own(r.Accounts.Sessions),
		func(s *account.Session) (string, string) { return s.ID, "" })
}

// isCaller reports whether the account is the caller's own.
func isCaller(ctx context.Context, a *account.Account) bool {
	actor, err := account.Current(ctx)
	return err == nil && actor.AccountID == a.ID
}

// private returns what only the caller may see of their account; nil for other accounts.
func private(ctx context.Context, a *account.Account) (*account.Private, error) {
	if !isCaller(ctx, a) {
		return nil, nil
	}
	return loader.Of(ctx).Private.Get(ctx, a.ID)
}

func (r *userResolver) PendingEmail(ctx context.Context, a *account.Account) (*string, error) {
	p, err := private(ctx, a)
	if p == nil {
		return nil, err
	}
	return optional.Of(p.PendingEmail), err
}

func (r *userResolver) HasPassword(ctx context.Context, a *account.Account) (bool, error) {
	return isCaller(ctx, a) && a.PasswordHash != "", nil
}

func (r *userResolver) SecondFactors(ctx context.Context, a *account.Account) (*account.Factors, error) {
	p, err := private(ctx, a)
	if p == nil {
		return nil, err
	}
	return &p.Factors, err
}

func (r *userResolver) SsoIdentities(ctx context.Context, a *account.Account) ([]*account.Identity, error) {
	p, err := private(ctx, a)
	if p == nil {
		return notNull([]*account.Identity(nil), err)
	}
	return notNull(p.Identities, err)
}

func (r *userResolver) Workspaces(
	ctx context.Context, a *account.Account, deleted *bool, first *int, after *string,
) (*gen.WorkspaceConnection, error) {
	load := func(ctx context.Context, actor account.Actor, q page.Request) (page.Page[workspace.Membership], error) {
		return r.Config.Workspaces.List(ctx, actor, optional.Value(deleted), q)
	}
	return list(ctx, a, newest, id.Workspace, first, after, own(load),
		func(m workspace.Membership) (string, string) { return m.ID(), "" })
}

// own loads the caller's own objects: none if the account is another user's.
func own[T any](
	load func(ctx context.Context, actor account.Actor, r page.Request) (page.Page[T], error),
) func(ctx context.Context, a *account.Account, r page.Request) (page.Page[T], error) {
	return func(ctx context.Context, a *account.Account, r page.Request) (page.Page[T], error) {
		if !isCaller(ctx, a) {
			return page.Page[T]{}, nil
		}
		actor, err := account.Current(ctx)
		if err != nil {
			return page.Page[T]{}, err
		}
		return load(ctx, actor, r)
	}
}
