package account

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

const (
	// refreshGrace is how long a spent refresh token still returns its successor, for retries and
	// concurrent tabs. A later use means that the token was stolen.
	refreshGrace = 10 * time.Second
	// refreshPrefix identifies refresh tokens to users and secret scanners.
	refreshPrefix = "refresh_"
)

// refreshToken is the row of a refresh token; only the hash is stored.
type refreshToken struct {
	bun.BaseModel `bun:"table:refresh_tokens"`

	Hash      []byte `bun:",pk"`
	SessionID string
	SpentAt   *time.Time
}

// Refresh spends a refresh token and extends its session. Within the grace period the same token
// returns the same successor. A later use ends the session, and so does any use if the session began
// with a password and log-ins with passwords are off now. It returns BadCredentials.
func (s *Store) Refresh(ctx context.Context, refresh string) (Login, error) {
	var session Session
	next, isOver := s.successor(refresh), false
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		now := s.now()
		spent := refreshToken{}
		// The update locks the row: concurrent refreshes with the same token wait.
		_, err := tx.NewUpdate().Model(&spent).Set("spent_at = COALESCE(spent_at, ?)", now).
			Where("hash = ?", HashSecret(refresh)).Returning("*").Exec(ctx)
		if err != nil {
			return err
		}
		if err := tx.NewSelect().Model(&session).Where("id = ?", spent.SessionID).
			Where("revoked_at IS NULL").Where("expires_at > ?", now).Scan(ctx); err != nil {
			return err
		}
		owner := &Account{}
		if err := tx.NewSelect().Model(owner).Where("id = ?", session.AccountID).Scan(ctx); err != nil {
			return err
		}
		isStolen := now.Sub(*spent.SpentAt) > refreshGrace
		if isOver = isStolen || !s.admits(owner, session.Methods); isOver {
			return nil
		}
		successor := &refreshToken{Hash: HashSecret(next), SessionID: session.ID}
		if _, err := tx.NewInsert().Model(successor).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx); err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model(&session).Set("used_at = ?", now).Set("expires_at = ?",
			s.expiry(s.SessionTTL, session.EndsAt)).
			WherePK().Exec(ctx)
		return err
	})
	if err == nil && isOver {
		if err = s.Logout(ctx, Actor{AccountID: session.AccountID}, session.ID); err == nil {
			return Login{}, errRefresh()
		}
	}
	if err != nil {
		return Login{}, db.NoRowsAs(errRefresh(), err, "refreshing a session")
	}
	found, err := s.Get(ctx, session.AccountID)
	if err != nil {
		return Login{}, err
	}
	if account := found[session.AccountID]; account != nil {
		return s.login(account, &session, next)
	}
	return Login{}, errRefresh() // deleted in the meantime
}

func errRefresh() error {
	return errs.New(errs.BadCredentials, "The refresh token is invalid or has expired. Log in again.").
		At("refreshToken")
}

// successor derives the next refresh token: concurrent refreshes get the same one, and it need not
// be stored.
func (s *Store) successor(refresh string) string {
	mac := hmac.New(sha256.New, s.Tokens.Secrets[0])
	mac.Write([]byte("linkforge: the refresh token after " + refresh))
	return refreshPrefix + unpadded.EncodeToString(mac.Sum(nil)[:20])
}
