package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// Delete deletes the actor's account after a check of a proof; only an ID remains, and the
// address is free. leave deletes what other packages hold of the account, first and in the same
// transaction, which sees all workspaces. Delete returns BadCredentials, RateLimited,
// Unauthenticated and the errors of leave.
func (s *Store) Delete(
	ctx context.Context, a Actor, p Proof, address string,
	leave func(ctx context.Context, tx bun.Tx, accountID string) error,
) error {
	account, spent, err := s.confirm(ctx, a, p, address)
	if err != nil {
		return err
	}
	return s.remove(ctx, account, func(ctx context.Context, tx bun.Tx, accountID string) error {
		if err := s.spend(ctx, tx, accountID, spent); err != nil {
			return err
		}
		return leave(ctx, tx, accountID)
	})
}

// remove deletes an account. It returns Unauthenticated if it was deleted meanwhile, and the errors of leave.
func (s *Store) remove(
	ctx context.Context, account *Account, leave func(ctx context.Context, tx bun.Tx, accountID string) error,
) (err error) {
	var ended []string
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		err := s.lock(ctx, tx, account.ID)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoAccount()
		}
		if err != nil {
			return err
		}
		if err := leave(ctx, tx, account.ID); err != nil {
			return err
		}
		ended, err = s.erase(ctx, tx, account.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting an account: %w", err)
	}
	s.revoked.add(ended...)
	return nil
}

// erase clears the account's row and those of its sessions, which stay until their tokens have
// expired, and returns the sessions. Refresh tokens come before sessions, the lock order of
// Refresh.
func (s *Store) erase(ctx context.Context, tx bun.Tx, accountID string) (sessions []string, err error) {
	for _, model := range []any{(*flow)(nil), (*authenticator)(nil), (*recoveryCode)(nil), (*Identity)(nil)} {
		if _, err := tx.NewDelete().Model(model).Where("account_id = ?", accountID).Exec(ctx); err != nil {
			return nil, err
		}
	}
	own := tx.NewSelect().Model((*Session)(nil)).Column("id").Where("account_id = ?", accountID)
	if _, err := tx.NewDelete().Model((*refreshToken)(nil)).Where("session_id IN (?)", own).Exec(ctx); err != nil {
		return nil, err
	}
	now := s.now()
	_, err = tx.NewUpdate().Model((*Session)(nil)).Set("agent = ''").Set("revoked_at = COALESCE(revoked_at, ?)", now).
		Where("account_id = ?", accountID).Returning("id").Exec(ctx, &sessions)
	if err != nil {
		return nil, err
	}
	_, err = tx.NewUpdate().Model((*Account)(nil)).Set("email = ?", "deleted:"+accountID).Set("name = ''").
		Set("password_hash = ''").
		Set("email_verified_at = NULL").Set("disabled_at = NULL").Set("updated_at = ?", now).Set("deleted_at = ?", now).Where("id = ?", accountID).
		Exec(ctx)
	return sessions, err
}

// Export is the personal data of an account.
type Export struct {
	Account       ExportedAccount    `json:"account"`
	Sessions      []ExportedSession  `json:"sessions"`
	SSOIdentities []ExportedIdentity `json:"ssoIdentities"`
}

// ExportedAccount is the account of an Export.
type ExportedAccount struct {
	ID              string     `json:"id"`
	Email           string     `json:"email"`
	Name            string     `json:"name"`
	CreatedAt       time.Time  `json:"createdAt"`
	EmailVerifiedAt *time.Time `json:"emailVerifiedAt"`
	PendingEmail    string     `json:"pendingEmail,omitempty"`
	TOTPSince       *time.Time `json:"totpSince"`
	RecoveryCodes   int        `json:"recoveryCodes"`
}

// ExportedIdentity is an identity at a provider of an Export.
type ExportedIdentity struct {
	Issuer    string    `json:"issuer"`
	Subject   string    `json:"subject"`
	CreatedAt time.Time `json:"createdAt"`
	UsedAt    time.Time `json:"usedAt"`
}

// ExportedSession is a session of an Export.
type ExportedSession struct {
	ID              string     `json:"id"`
	Agent           string     `json:"agent"`
	Methods         Methods    `json:"methods"`
	AuthenticatedAt time.Time  `json:"authenticatedAt"`
	CreatedAt       time.Time  `json:"createdAt"`
	UsedAt          time.Time  `json:"usedAt"`
	ExpiresAt       time.Time  `json:"expiresAt"`
	RevokedAt       *time.Time `json:"revokedAt"`
}

// Export returns the personal data of the actor. It returns Unauthenticated.
func (s *Store) Export(ctx context.Context, a Actor) (Export, error) {
	account, err := s.actorAccount(ctx, a)
	if err != nil {
		return Export{}, err
	}
	private, err := s.PrivateOf(ctx, account.ID)
	if err != nil {
		return Export{}, err
	}
	own := private[account.ID]
	e := Export{Sessions: []ExportedSession{}, SSOIdentities: []ExportedIdentity{}, Account: ExportedAccount{
		ID: account.ID, Email: account.Email, Name: account.Name, CreatedAt: account.CreatedAt,
		EmailVerifiedAt: account.EmailVerifiedAt, PendingEmail: own.PendingEmail,
		TOTPSince: own.Factors.TOTPSince, RecoveryCodes: own.Factors.RecoveryCodes,
	}}
	for _, i := range own.Identities {
		e.SSOIdentities = append(e.SSOIdentities, ExportedIdentity{i.Issuer, i.Subject, i.CreatedAt, i.UsedAt})
	}
	err = s.DB.NewSelect().Model((*Session)(nil)).
		Column("id", "agent", "methods", "authenticated_at", "created_at", "used_at", "expires_at", "revoked_at").
		Where("account_id = ?", account.ID).Order("id").Scan(ctx, &e.Sessions)
	if err != nil {
		return Export{}, fmt.Errorf("exporting sessions: %w", err)
	}
	return e, nil
}
