package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
)

const (
	// grace is how long a spent refresh token is answered with its successor: for retries, and for tabs that refresh at
	// once. Later, whoever spends it again has stolen it, or the one before them had.
	grace = 10 * time.Second
	// refreshPrefix tells a refresh token from other secrets, for people and for scanners of leaked ones.
	refreshPrefix = "refresh_"
	// maxAgent is how much of a program's name for itself is kept, in bytes.
	maxAgent = 200
)

// Session is a log-in that goes on: from one refresh token to the next, until it is ended or not used for long.
type Session struct {
	bun.BaseModel `bun:"table:sessions"`

	ID        string `bun:",pk"`
	AccountID string
	// Agent is the program that logged in, as it calls itself.
	Agent     string
	CreatedAt time.Time
	// UsedAt is when it was last refreshed, ExpiresAt when it ends unless it is refreshed again.
	UsedAt    time.Time
	ExpiresAt time.Time
	RevokedAt *time.Time
}

// refreshToken is a refresh token; the token itself is not kept.
type refreshToken struct {
	bun.BaseModel `bun:"table:refresh_tokens"`

	Hash      []byte `bun:",pk"`
	SessionID string
	SpentAt   *time.Time
}

// Login is what somebody who has proved who they are goes on with.
type Login struct {
	Account *Account
	// Token stands for the account until ExpiresAt. RefreshToken is good once, for the next Login.
	Token        string
	ExpiresAt    time.Time
	RefreshToken string
}

// begin makes a session. It returns BadCredentials when the account's password was changed, or the account deleted,
// since it was loaded: that ended the sessions that there were.
func (s *Store) begin(ctx context.Context, a *Account, agent string) (Login, error) {
	now := s.now()
	session := &Session{
		ID: id.New(id.Session), AccountID: a.ID, Agent: agent[:min(len(agent), maxAgent)],
		CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(s.SessionTTL),
	}
	refresh := refreshPrefix + rand.Text()
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(session).Exec(ctx); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&refreshToken{Hash: HashSecret(refresh), SessionID: session.ID}).Exec(ctx); err != nil {
			return err
		}
		return s.unchanged(ctx, tx, a)
	})
	if err != nil {
		return Login{}, fmt.Errorf("beginning a session: %w", err)
	}
	return s.login(a, session.ID, refresh)
}

// unchanged comes after the session was kept, which waits for whoever holds the account's lock.
func (s *Store) unchanged(ctx context.Context, tx bun.Tx, a *Account) error {
	unchanged, err := tx.NewSelect().Model((*Account)(nil)).
		Where("id = ?", a.ID).Where("password_hash = ?", a.PasswordHash).Where("deleted_at IS NULL").Exists(ctx)
	if err == nil && !unchanged {
		return errBadLogin()
	}
	return err
}

func (s *Store) login(a *Account, sessionID, refresh string) (Login, error) {
	token, expires, err := s.Tokens.Issue(Actor{AccountID: a.ID, SessionID: sessionID}, s.Now())
	return Login{Account: a, Token: token, ExpiresAt: expires, RefreshToken: refresh}, err
}

// Refresh spends a refresh token, and goes on with the session. Whoever comes with the same token within ten seconds
// gets the same successor. Later the session ends: one of the two is not who they should be. It returns
// BadCredentials.
func (s *Store) Refresh(ctx context.Context, refresh string) (Login, error) {
	var session Session
	next, stolen := s.successor(refresh), false
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		now := s.now()
		spent := refreshToken{}
		// The row is locked now: whoever comes with the same token waits.
		_, err := tx.NewUpdate().Model(&spent).Set("spent_at = COALESCE(spent_at, ?)", now).
			Where("hash = ?", HashSecret(refresh)).Returning("*").Exec(ctx)
		if err != nil {
			return err
		}
		if err := tx.NewSelect().Model(&session).Where("id = ?", spent.SessionID).
			Where("revoked_at IS NULL").Where("expires_at > ?", now).Scan(ctx); err != nil {
			return err
		}
		if stolen = now.Sub(*spent.SpentAt) > grace; stolen {
			return revoke(ctx, tx, now, "id = ?", session.ID)
		}
		successor := &refreshToken{Hash: HashSecret(next), SessionID: session.ID}
		if _, err := tx.NewInsert().Model(successor).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx); err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model(&session).Set("used_at = ?", now).Set("expires_at = ?", now.Add(s.SessionTTL)).WherePK().Exec(ctx)
		return err
	})
	if stolen && err == nil {
		s.revoked.add(session.ID)
	}
	if stolen || errors.Is(err, sql.ErrNoRows) {
		return Login{}, errRefresh()
	}
	if err != nil {
		return Login{}, fmt.Errorf("refreshing a session: %w", err)
	}
	found, err := s.Get(ctx, session.AccountID)
	if err != nil {
		return Login{}, err
	}
	account := found[session.AccountID]
	if account == nil { // deleted in this moment
		return Login{}, errRefresh()
	}
	return s.login(account, session.ID, next)
}

func errRefresh() error {
	return errs.New(errs.BadCredentials, "This refresh token is not good, or no longer. Log in again.").At("refreshToken")
}

// successor is the refresh token after another one: computed, so that all who spend that one at once get the same,
// and none has to be kept.
func (s *Store) successor(refresh string) string {
	mac := hmac.New(sha256.New, s.Tokens.Secret)
	mac.Write([]byte("linkforge: the refresh token after " + refresh))
	return refreshPrefix + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:20])
}

// Sessions is one page of the actor's sessions that go on, newest first.
func (s *Store) Sessions(ctx context.Context, a Actor, r page.Request) (page.Page[*Session], error) {
	var rows []*Session
	if err := page.Limit(s.active(a, &rows), r, "id").Scan(ctx); err != nil {
		return page.Page[*Session]{}, fmt.Errorf("listing sessions: %w", err)
	}
	return page.Cut(r, rows), nil
}

// SessionsByID returns the sessions with the ids that Sessions lists. Other ids are missing from
// the result.
func (s *Store) SessionsByID(ctx context.Context, a Actor, ids ...string) ([]*Session, error) {
	var rows []*Session
	if err := s.active(a, &rows).Where("id IN (?)", bun.In(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("looking up sessions: %w", err)
	}
	return rows, nil
}

// active returns a query for the actor's sessions that have not ended.
func (s *Store) active(a Actor, into *[]*Session) *bun.SelectQuery {
	return s.DB.NewSelect().Model(into).Where("account_id = ?", a.AccountID).Where("revoked_at IS NULL").Where("expires_at > ?", s.now())
}

// Logout ends one of the actor's sessions: every node stops taking its tokens within a second. Ending it again
// changes nothing. It returns NotFound.
func (s *Store) Logout(ctx context.Context, a Actor, sessionID string) error {
	if !id.Valid(id.Session, sessionID) {
		return errNoSession()
	}
	known, err := s.DB.NewSelect().Model((*Session)(nil)).Where("id = ?", sessionID).Where("account_id = ?", a.AccountID).Exists(ctx)
	if err != nil {
		return fmt.Errorf("looking for a session: %w", err)
	}
	if !known {
		return errNoSession()
	}
	return s.end(ctx, s.DB, "id = ?", sessionID)
}

func errNoSession() error {
	return errs.New(errs.NotFound, "You have no such session.").At("sessionId")
}

// LogoutEverywhere ends all of the actor's sessions, but for the one that the actor is in if that is to be kept.
func (s *Store) LogoutEverywhere(ctx context.Context, a Actor, keepThis bool) error {
	return s.end(ctx, s.DB, "account_id = ? AND NOT (id = ? AND ?)", a.AccountID, a.SessionID, keepThis)
}

// ChangePassword replaces the actor's password, and ends their other sessions and what was mailed to replace it. It returns BadCredentials,
// InvalidInput or RateLimited.
func (s *Store) ChangePassword(ctx context.Context, a Actor, current, password, address string) (*Account, error) {
	account, err := s.of(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := s.prove(ctx, account, account.Email, current, address); err != nil {
		if errs.Is(err, errs.BadCredentials) {
			return nil, errs.New(errs.BadCredentials, "This is not the current password.").At("currentPassword")
		}
		return nil, err
	}
	if err := checkPassword(password, account.Email); err != nil {
		return nil, errs.From(err).At("newPassword")
	}
	hash, err := s.Passwords.hash(ctx, password)
	if err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		// Hashing takes time, in which the account may have been deleted, or recovered by its owner.
		if err := s.lock(ctx, tx, account.ID); err != nil {
			return err
		}
		result, err := tx.NewUpdate().Model(account).Set("password_hash = ?", hash).Set("updated_at = ?", s.now()).WherePK().
			Where("password_hash = ?", account.PasswordHash).Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, sql.ErrNoRows)
		}
		if err := dropMailed(ctx, tx, account.ID, resetPassword); err != nil {
			return err
		}
		return s.end(ctx, tx, "account_id = ? AND id <> ?", a.AccountID, a.SessionID)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errs.New(errs.BadCredentials, "This is not the current password any more.").At("currentPassword")
	}
	if err != nil {
		return nil, fmt.Errorf("changing a password: %w", err)
	}
	return account, nil
}

// end revokes sessions. This node stops taking their tokens at once.
func (s *Store) end(ctx context.Context, conn bun.IDB, where string, args ...any) error {
	var ids []string
	err := conn.NewSelect().Model((*Session)(nil)).Column("id").Where(where, args...).Where("revoked_at IS NULL").Scan(ctx, &ids)
	if err == nil && len(ids) > 0 {
		err = revoke(ctx, conn, s.now(), "id IN (?)", bun.In(ids))
	}
	if err != nil {
		return fmt.Errorf("ending sessions: %w", err)
	}
	s.revoked.add(ids...)
	return nil
}

func revoke(ctx context.Context, conn bun.IDB, now time.Time, where string, args ...any) error {
	_, err := conn.NewUpdate().Model((*Session)(nil)).Set("revoked_at = ?", now).Where("revoked_at IS NULL").Where(where, args...).Exec(ctx)
	return err
}

// sweepBatch is how many rows the clean-up removes at once.
const sweepBatch = 500

// CleanUp removes sessions that have ended for longer than their tokens can be about, with their refresh tokens, and
// mailed tokens that are no longer good.
func (s *Store) CleanUp(ctx context.Context) error {
	now := s.now()
	ended := now.Add(-s.Tokens.TTL - skew)
	if err := s.sweep(ctx, (*Session)(nil), "id", "expires_at <= ? OR revoked_at <= ?", ended, ended); err != nil {
		return fmt.Errorf("removing sessions: %w", err)
	}
	if err := s.sweep(ctx, (*mailedToken)(nil), "hash", "expires_at <= ?", now); err != nil {
		return fmt.Errorf("removing mailed tokens: %w", err)
	}
	return nil
}

func (s *Store) sweep(ctx context.Context, model any, key, where string, args ...any) error {
	for {
		batch := s.DB.NewSelect().Model(model).Column(key).Where(where, args...).Limit(sweepBatch)
		result, err := s.DB.NewDelete().Model(model).Where("? IN (?)", bun.Ident(key), batch).Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n < sweepBatch {
			return err
		}
	}
}

// HashSecret returns the stored form of a random secret: it has enough entropy to need no salt.
func HashSecret(secret string) []byte {
	hash := sha256.Sum256([]byte(secret))
	return hash[:]
}

func (s *Store) now() time.Time { return db.Instant(s.Now()) }
