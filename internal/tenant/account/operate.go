package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// ListedAccount is a user as listed for the operator.
type ListedAccount struct {
	ID, Email, Name string
	CreatedAt       time.Time
	EmailVerifiedAt *time.Time
	DisabledAt      *time.Time
	// Sessions is the number of active sessions.
	Sessions int64
}

// AdminList lists at most limit accounts after an ID, oldest first, whose address contains the
// text, or the ASCII form of it as a domain. It is for the operator.
func (s *Store) AdminList(ctx context.Context, email, after string, limit int) ([]ListedAccount, error) {
	sessions := s.active(bun.Ident("account.id")).ColumnExpr("COUNT(*)")
	accounts := []ListedAccount{}
	err := s.DB.NewSelect().Model((*Account)(nil)).Column("id", "email", "name", "created_at", "email_verified_at",
		"disabled_at").
		ColumnExpr("(?) AS sessions", sessions).
		Where("deleted_at IS NULL").Where("id > ?", after).
		Where(`email LIKE ? ESCAPE '\' OR email LIKE ? ESCAPE '\'`,
			"%"+db.EscapeLike(fold(email))+"%", "%"+db.EscapeLike(strings.TrimPrefix(fold("@"+email), "@"))+"%").
		Order("id").Limit(int64(limit)).Scan(ctx, &accounts)
	if err != nil {
		return nil, fmt.Errorf("listing accounts: %w", err)
	}
	return accounts, nil
}

// EndSessions ends all sessions of the account with the address and returns the account and their
// number. Every node refuses their tokens within a second; API keys stay valid. It is for the
// operator and returns NotFound.
func (s *Store) EndSessions(ctx context.Context, email string) (*Account, int64, error) {
	a, err := s.existing(ctx, email)
	if err != nil {
		return nil, 0, err
	}
	n, err := s.active(a.ID).Count(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("counting sessions: %w", err)
	}
	return a, int64(n), s.LogoutEverywhere(ctx, Actor{AccountID: a.ID}, false)
}

// SetDisabled disables or enables the account with the address. Every node refuses the tokens of a
// disabled account within a second, and its password and mailed tokens at once. API keys that it
// created belong to their workspaces, and stay valid. SetDisabled returns the number of ended
// sessions. It is for the operator and returns NotFound.
func (s *Store) SetDisabled(ctx context.Context, email string, disabled bool) (_ *Account, sessions int64, err error) {
	a, err := s.existing(ctx, email)
	if err != nil {
		return nil, 0, err
	}
	accountID := a.ID
	if !disabled { // which ends no sessions: an account that is enabled again continues with them
		err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			a, err = s.updateAccount(ctx, tx, accountID, "disabled_at = NULL")
			return err
		})
	} else {
		// New sessions and mailed tokens wait for the lock, and then see that the account is
		// disabled.
		err = s.endSessions(ctx, Actor{AccountID: accountID}, func(ctx context.Context, tx bun.Tx) (err error) {
			if a, err = s.updateAccount(ctx, tx, accountID, "disabled_at = COALESCE(disabled_at, ?)",
				s.now()); err != nil {
				return err
			}
			if sessions, err = s.active(accountID).Conn(tx).Count(ctx); err != nil {
				return err
			}
			_, err = tx.NewDelete().Model((*flow)(nil)).Where("account_id = ?", accountID).Exec(ctx)
			return err
		})
	}
	if err != nil {
		return nil, 0, db.NoRowsAs(errUnknown(), err, "disabling an account")
	}
	return a, sessions, nil
}

// ResetFactors removes the second factors of the account with the address, and ends its sessions.
// It is for the operator and returns NotFound, or Conflict for an account without one.
func (s *Store) ResetFactors(ctx context.Context, email string) (*Account, error) {
	a, err := s.existing(ctx, email)
	if err != nil {
		return nil, err
	}
	has, err := s.hasFactor(ctx, s.DB, a.ID)
	if err != nil {
		return nil, err
	}
	if !has {
		return nil, errs.New(errs.Conflict, "This account has no second factor.")
	}
	err = s.changeFactors(ctx, Actor{AccountID: a.ID}, proven{}, func(ctx context.Context, tx bun.Tx) error {
		_, err := s.removeFactors(ctx, tx, a.ID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("removing second factors: %w", err)
	}
	s.notify(ctx, a, "Your second factors were removed",
		"The operator of %s has removed the authenticator app and the recovery codes of your "+
			"account. Your sessions have ended.")
	return a, nil
}

// operatorReset is resetPassword with a token that the operator passes on.
var operatorReset = purpose{kind: kindResetPassword, page: PasswordPage, life: 24 * time.Hour}

// PasswordLink leads to the page that sets the password of an account. It is valid once.
type PasswordLink struct {
	URL       string
	ExpiresAt time.Time
}

func (s *Store) passwordLink(m mailed) PasswordLink {
	return PasswordLink{URL: s.pageOf(m), ExpiresAt: m.expires}
}

// AdminCreate creates an account without a password, and returns the link that sets one. Without a
// name, it is named like its address. join adds what other packages hold of the account, in the
// same transaction, which sees all workspaces. It is for the operator and returns InvalidInput,
// EmailTaken and the errors of join.
func (s *Store) AdminCreate(
	ctx context.Context, email, name string, join func(ctx context.Context, tx bun.Tx, accountID string) error,
) (*Account, PasswordLink, error) {
	if name == "" {
		name, _, _ = strings.Cut(strings.TrimSpace(email), "@")
	}
	a, err := s.newAccount(email, name)
	if err != nil {
		return nil, PasswordLink{}, err
	}
	var reset mailed
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) (err error) {
		if err := insert(ctx, tx, a); err != nil {
			return err
		}
		if err := join(ctx, tx, a.ID); err != nil {
			return err
		}
		reset, err = s.newMailed(ctx, tx, a.ID, "", operatorReset)
		return err
	})
	if err != nil {
		taken := errs.New(errs.EmailTaken, "There is an account with this e-mail address already. "+
			"This prints a link for it: linkforge users reset-password.")
		return nil, PasswordLink{}, db.NoRowsAs(taken.At("email"), err, "creating an account")
	}
	return a, s.passwordLink(reset), nil
}

// AdminReset returns a link that sets the password of the account with the address. Its password
// and sessions stay until then; earlier links and mailed resets end. It is for the operator and
// returns NotFound, or Conflict for a disabled account.
func (s *Store) AdminReset(ctx context.Context, email string) (*Account, PasswordLink, error) {
	a, err := s.AdminGetEnabled(ctx, email)
	if err != nil {
		return nil, PasswordLink{}, err
	}
	var reset mailed
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if err := dropFlows(ctx, tx, a.ID, kindResetPassword); err != nil {
			return err
		}
		reset, err = s.newMailed(ctx, tx, a.ID, "", operatorReset)
		return err
	})
	if err != nil {
		return nil, PasswordLink{}, fmt.Errorf("storing a password reset: %w", err)
	}
	return a, s.passwordLink(reset), nil
}

// AdminDelete is Delete without a password. It is for the operator and returns NotFound and the
// errors of leave.
func (s *Store) AdminDelete(
	ctx context.Context, email string, leave func(ctx context.Context, tx bun.Tx, accountID string) error,
) (*Account, error) {
	a, err := s.existing(ctx, email)
	if err != nil {
		return nil, err
	}
	return a, s.remove(ctx, Actor{AccountID: a.ID}, leave)
}

// AdminGet returns the account with the address, or NotFound. It is for the operator.
func (s *Store) AdminGet(ctx context.Context, email string) (*Account, error) {
	return s.existing(ctx, email)
}

// AdminGetEnabled is AdminGet, and returns Conflict for a disabled account.
func (s *Store) AdminGetEnabled(ctx context.Context, email string) (*Account, error) {
	a, err := s.existing(ctx, email)
	if err == nil && a.DisabledAt != nil {
		err = errs.New(errs.Conflict, "This account is disabled. First: linkforge users enable.")
	}
	return a, err
}

// existing returns the account with the address, or NotFound.
func (s *Store) existing(ctx context.Context, email string) (*Account, error) {
	a, err := s.find(ctx, fold(email))
	if err == nil && a.ID == "" {
		err = errUnknown()
	}
	return a, err
}

func errUnknown() error {
	return errs.New(errs.NotFound, "No account has this e-mail address. "+
		"This finds parts of addresses: linkforge users list --email.")
}
