package account

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// Factors are the second factors of an account.
type Factors struct {
	// TOTPSince is when an authenticator app was enrolled; nil without one.
	TOTPSince *time.Time
	// RecoveryCodes is the number of unused codes.
	RecoveryCodes int
}

// TOTP reports whether an authenticator app is enrolled.
func (f Factors) TOTP() bool { return f.TOTPSince != nil }

// FactorsOf returns the second factors of an account.
func (s *Store) FactorsOf(ctx context.Context, accountID string) (f Factors, err error) {
	count := s.DB.NewSelect().Model((*recoveryCode)(nil)).ColumnExpr("count(*)").Where("account_id = account.id")
	err = s.DB.NewSelect().Model((*Account)(nil)).ColumnExpr("app.enrolled_at AS totp_since").
		ColumnExpr("(?) AS recovery_codes", count).
		Join("LEFT JOIN totp AS app ON app.account_id = account.id").Where("account.id = ?", accountID).Scan(ctx, &f)
	if err != nil {
		return Factors{}, fmt.Errorf("reading second factors: %w", err)
	}
	return f, nil
}

// changeFactors changes the factors of the actor's account in a transaction that spends the proof
// and ends the other sessions.
func (s *Store) changeFactors(
	ctx context.Context, actor Actor, spent proven, change func(ctx context.Context, tx bun.Tx) error,
) error {
	// A login that began before waits for the lock, and then sees the factors.
	err := s.endSessions(ctx, actor, func(ctx context.Context, tx bun.Tx) error {
		if err := s.spend(ctx, tx, actor.AccountID, spent); err != nil {
			return err
		}
		return change(ctx, tx)
	})
	if err != nil {
		err = db.NoRowsAs(errNoAccount(), err, "changing second factors")
	}
	return err
}

// removeFactors removes the account's factors, and returns its sessions, which have not proved one
// any more. After the commit, the caller adds them to revoked, so that this node knows at once.
func (s *Store) removeFactors(ctx context.Context, tx bun.Tx, accountID string) (changed []Session, err error) {
	for _, model := range []any{(*authenticator)(nil), (*recoveryCode)(nil)} {
		if _, err := tx.NewDelete().Model(model).Where("account_id = ?", accountID).Exec(ctx); err != nil {
			return nil, err
		}
	}
	_, err = tx.NewUpdate().Model(&changed).
		Set("methods = CASE WHEN methods LIKE 'SSO%' THEN 'SSO' ELSE 'PASSWORD' END").
		Set("methods_changed_at = ?", s.now()).Where("account_id = ?", accountID).Where("revoked_at IS NULL").
		Returning("id, methods").Exec(ctx)
	return changed, err
}

func (s *Store) hasFactor(ctx context.Context, conn bun.IDB, accountID string) (bool, error) {
	has, err := conn.NewSelect().Model((*authenticator)(nil)).Where("account_id = ?", accountID).
		Where("enrolled_at IS NOT NULL").Exists(ctx)
	if err != nil {
		return false, fmt.Errorf("looking up an authenticator app: %w", err)
	}
	return has, nil
}

// notify mails the user a description of a change, if mail is configured. The format names the
// instance as %s, before the arguments.
func (s *Store) notify(ctx context.Context, a *Account, subject, format string, args ...any) {
	if s.sendsMail() && receivesMail(a.Email) {
		s.Mail.Send(ctx, a.Email, subject, fmt.Sprintf(format, slices.Insert(args, 0, any(s.PublicURL))...)+
			"\n\nIf that was not you, choose a new password and end all sessions.\n")
	}
}
