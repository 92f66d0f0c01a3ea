package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Delete deletes the actor's account after a check of a proof; only an ID remains, and the
// address is free. leave deletes what other packages hold of the account, first and in the same
// transaction, which sees all workspaces. Delete returns BadCredentials, RateLimited,
// Unauthenticated and the errors of leave.
func (s *Store) Delete(
	ctx context.Context, a Actor, p Proof, address string,
	leave func(ctx context.Context, tx bun.Tx, accountID string) error,
) error {
	account, spent, err := s.requireProof(ctx, a, p, address)
	if err != nil {
		return err
	}
	return s.remove(ctx, a, func(ctx context.Context, tx bun.Tx, accountID string) error {
		isUnchanged, err := s.isUnchanged(ctx, tx, account)
		if err != nil {
			return err
		}
		if !isUnchanged {
			return errs.New(errs.BadCredentials, "The password was changed meanwhile. Send the new one.").At(p.Field)
		}
		if err := s.spend(ctx, tx, accountID, spent); err != nil {
			return err
		}
		return leave(ctx, tx, accountID)
	})
}

// remove deletes the actor's account. It returns Unauthenticated if it was deleted meanwhile, or
// the actor's session has ended, and the errors of leave.
func (s *Store) remove(
	ctx context.Context, a Actor, leave func(ctx context.Context, tx bun.Tx, accountID string) error,
) (err error) {
	var ended []string
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		err := s.lockFor(ctx, tx, a)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoAccount()
		}
		if err != nil {
			return err
		}
		if err := leave(ctx, tx, a.AccountID); err != nil {
			return err
		}
		ended, err = s.erase(ctx, tx, a.AccountID)
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
		Set("email_verified_at = NULL").Set("disabled_at = NULL").Set("updated_at = ?", now).Set("deleted_at = ?", now).
		Where("id = ?", accountID).
		Exec(ctx)
	return sessions, err
}
