package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/uptrace/bun"
)

// Known is a user as listed for the operator.
type Known struct {
	ID, Email, Name string
	CreatedAt       time.Time
	EmailVerifiedAt *time.Time
	// Sessions is the number of active sessions.
	Sessions int64
}

// People lists at most limit accounts after an ID, oldest first, whose address contains the text, or the ASCII form of
// it as a domain.
// It is for the operator.
func (s *Store) People(ctx context.Context, email, after string, limit int) ([]Known, error) {
	sessions := s.active(bun.Ident("account.id")).ColumnExpr("COUNT(*)")
	accounts := []Known{}
	err := s.DB.NewSelect().Model((*Account)(nil)).Column("id", "email", "name", "created_at", "email_verified_at").
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
	a, err := s.byEmail(ctx, fold(email))
	if err != nil {
		return nil, 0, err
	}
	if a.ID == "" {
		return nil, 0, errs.New(errs.NotFound, "Nobody has this e-mail address. "+
			"This finds parts of addresses: linkforge users list --email.")
	}
	n, err := s.active(a.ID).Count(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("counting sessions: %w", err)
	}
	return a, int64(n), s.end(ctx, s.DB, "account_id = ?", a.ID)
}
