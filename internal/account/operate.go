package account

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
)

// Known is a person as the operator sees it.
type Known struct {
	ID, Email, Name string
	CreatedAt       time.Time
	EmailVerifiedAt *time.Time
	// Sessions is how many log-ins go on.
	Sessions int64
}

// escaped takes the meaning from what means something in LIKE.
var escaped = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// People are at most limit accounts, oldest first, whose address has the text in it, and which come after an id: for the operator.
func (s *Store) People(ctx context.Context, email, after string, limit int) ([]Known, error) {
	sessions := s.DB.NewSelect().Model((*Session)(nil)).ColumnExpr("COUNT(*)").
		Where("session.account_id = account.id").Where("revoked_at IS NULL").Where("expires_at > ?", s.now())
	people := []Known{}
	err := s.DB.NewSelect().Model((*Account)(nil)).Column("id", "email", "name", "created_at", "email_verified_at").
		ColumnExpr("(?) AS sessions", sessions).
		Where("deleted_at IS NULL").Where("id > ?", after).Where(`email LIKE ? ESCAPE '\'`, "%"+escaped.Replace(fold(email))+"%").
		Order("id").Limit(int64(limit)).Scan(ctx, &people)
	if err != nil {
		return nil, fmt.Errorf("listing accounts: %w", err)
	}
	return people, nil
}

// EndSessions ends all sessions of whoever has the address, for the operator, and returns the account and how many there were.
// Every node stops taking their tokens within a second; API keys go on. It returns NotFound.
func (s *Store) EndSessions(ctx context.Context, email string) (*Account, int64, error) {
	a, err := s.byEmail(ctx, fold(email))
	if err != nil {
		return nil, 0, err
	}
	if a.ID == "" {
		return nil, 0, errs.New(errs.NotFound, "Nobody has this e-mail address. This finds parts of addresses: linkforge users list --email.")
	}
	n, err := s.DB.NewSelect().Model((*Session)(nil)).Where("account_id = ?", a.ID).
		Where("revoked_at IS NULL").Where("expires_at > ?", s.now()).Count(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("counting sessions: %w", err)
	}
	return a, int64(n), s.end(ctx, s.DB, "account_id = ?", a.ID)
}
