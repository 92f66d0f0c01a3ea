package account

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
)

const (
	// maxAgent is how many bytes of a User-Agent are stored.
	maxAgent = 200
	// sweepBatch is how many rows CleanUp deletes per statement.
	sweepBatch = 500
)

// Session is a login. It lasts until it is revoked or not refreshed in time.
type Session struct {
	bun.BaseModel `bun:"table:sessions"`

	ID        string `bun:",pk"`
	AccountID string
	// Agent is the User-Agent header of the login.
	Agent string
	// Methods are how the user was authenticated, at AuthenticatedAt.
	Methods         Methods
	AuthenticatedAt time.Time
	CreatedAt       time.Time
	// UsedAt is when the session was last refreshed.
	UsedAt    time.Time
	ExpiresAt time.Time
	// EndsAt is when it ends although it is refreshed; nil means that it does not.
	EndsAt    *time.Time
	RevokedAt *time.Time
	// MethodsChangedAt is when Methods last changed; nil means that they are those of the login.
	MethodsChangedAt *time.Time
}

func (*Session) IsEntity() {} // an entity of Apollo Federation

// MethodList returns how the user was authenticated.
func (s *Session) MethodList() []Method { return s.Methods.List() }

// IsCurrent reports whether the context's actor uses the session.
func (s *Session) IsCurrent(ctx context.Context) bool {
	actor, err := Current(ctx)
	return err == nil && actor.SessionID == s.ID
}

// Login is the result of an authentication: a session, or the Challenge to prove more.
type Login struct {
	Challenge *Challenge // nil for a session
	Account   *Account
	// Token authenticates the account until ExpiresAt. RefreshToken is good for one Refresh.
	Token        string
	ExpiresAt    time.Time
	RefreshToken string
}

// beginSession creates the session of a login, and spends its proofs. It returns BadCredentials if
// the account was deleted or disabled, its password was changed, or it got a second factor, since
// it was loaded, which ended its sessions.
func (s *Store) beginSession(ctx context.Context, pending pendingLogin, from Client) (Login, error) {
	now := s.now()
	session := &Session{
		ID: id.New(id.Session), AccountID: pending.account.ID, Agent: from.Agent[:min(len(from.Agent), maxAgent)],
		Methods:         pending.Methods,
		AuthenticatedAt: now, CreatedAt: now, UsedAt: now, EndsAt: pending.EndsAt,
	}
	session.ExpiresAt = s.expiry(s.SessionTTL, session.EndsAt)
	refresh := refreshPrefix + rand.Text()
	scope := ctx
	if pending.Groups != nil {
		scope = db.AsSystem(ctx) // of all workspaces
	}
	err := s.DB.Tx(scope, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(session).Exec(ctx); err != nil {
			return err
		}
		token := &refreshToken{Hash: HashSecret(refresh), SessionID: session.ID}
		if _, err := tx.NewInsert().Model(token).Exec(ctx); err != nil {
			return err
		}
		// After the insert, which waits for a transaction that has locked the account.
		if err := s.settle(ctx, tx, pending); err != nil {
			return err
		}
		if err := connectIdentity(ctx, tx, pending); err != nil {
			return err
		}
		has, err := s.hasFactor(ctx, tx, pending.account.ID)
		if err == nil &&
			(len(s.missingMethods(pending, has)) > 0 || !s.admits(pending.account, pending.Methods)) {
			err = errBadLogin()
		}
		if err == nil && pending.Groups != nil {
			err = s.SSO.SyncGroups(ctx, tx, pending.account.ID, pending.Groups)
		}
		return err
	})
	if err != nil {
		return Login{}, fmt.Errorf("beginning a session: %w", err)
	}
	s.noteRecovery(ctx, pending.account, pending.spent)
	if pending.Identity != nil {
		s.notify(ctx, pending.account, "Your account was connected",
			"Your account on %s was connected with %s, which logs it in from now on.", s.SSO.Name)
	}
	return s.login(pending.account, session, refresh)
}

// expiry is when something expires that lasts from now on, and ends at an instant at the latest;
// nil means that it does not.
func (s *Store) expiry(life time.Duration, endsAt *time.Time) time.Time {
	expires := s.now().Add(life)
	if endsAt != nil && endsAt.Before(expires) {
		return *endsAt
	}
	return expires
}

func (s *Store) login(a *Account, session *Session, refresh string) (Login, error) {
	tokens, now := s.Tokens, s.Now()
	if session.EndsAt != nil {
		tokens.TTL = min(tokens.TTL, session.EndsAt.Sub(now))
	}
	token, expires, err := tokens.Issue(s.ActorOf(session), now)
	return Login{Account: a, Token: token, ExpiresAt: expires, RefreshToken: refresh}, err
}

// Sessions returns one page of the actor's active sessions, newest first.
func (s *Store) Sessions(ctx context.Context, a Actor, r page.Request) (page.Page[*Session], error) {
	var rows []*Session
	if err := page.Limit(s.active(a.AccountID).Model(&rows), r, "id").Scan(ctx); err != nil {
		return page.Page[*Session]{}, fmt.Errorf("listing sessions: %w", err)
	}
	return page.Cut(r, rows), nil
}

// SessionsByID returns the actor's active sessions with the IDs.
func (s *Store) SessionsByID(ctx context.Context, a Actor, ids ...string) ([]*Session, error) {
	var rows []*Session
	if err := s.active(a.AccountID).Model(&rows).Where("id IN (?)", bun.In(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("looking up sessions: %w", err)
	}
	return rows, nil
}

// active returns a query for the sessions of an account that have not ended.
func (s *Store) active(accountID any) *bun.SelectQuery {
	return s.DB.NewSelect().Model((*Session)(nil)).
		Where("session.account_id = ?", accountID).Where("revoked_at IS NULL").Where("expires_at > ?", s.now())
}

// Logout ends one of the actor's sessions: every node refuses its tokens within a second. With
// another session than the actor's own it cancels a change of the address, which that one may have
// begun to take the account over. Ending it again has no effect. It returns NotFound.
func (s *Store) Logout(ctx context.Context, a Actor, sessionID string) error {
	missing := errs.New(errs.NotFound, "You have no such session.").At("sessionId")
	if !id.Valid(id.Session, sessionID) {
		return missing
	}
	owned, err := s.DB.NewSelect().Model((*Session)(nil)).
		Where("id = ?", sessionID).Where("account_id = ?", a.AccountID).Exists(ctx)
	if err != nil {
		return fmt.Errorf("looking up a session: %w", err)
	}
	if !owned {
		return missing
	}
	var ended []string
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.lock(ctx, tx, a.AccountID); err != nil {
			return err
		}
		if sessionID != a.SessionID {
			if err := dropFlows(ctx, tx, a.AccountID, kindChangeEmail); err != nil {
				return err
			}
		}
		ended, err = s.end(ctx, tx, "id = ?", sessionID)
		return err
	})
	if err != nil {
		return db.NoRowsAs(missing, err, "ending a session")
	}
	s.revoked.add(ended...)
	return nil
}

// LogoutEverywhere ends all of the actor's sessions, except the actor's own if keepThis is true.
func (s *Store) LogoutEverywhere(ctx context.Context, a Actor, keepThis bool) error {
	if !keepThis {
		a.SessionID = ""
	}
	err := s.endSessions(ctx, a, func(context.Context, bun.Tx) error { return nil })
	if err != nil {
		err = db.NoRowsAs(errNoAccount(), err, "ending sessions")
	}
	return err
}

// endSessions changes the actor's account, which is locked, and ends all its sessions but the
// actor's own, with all flows that they may have begun: logins that wait for another proof, and a
// new address that waits for its verification, which would take the account over. It returns
// sql.ErrNoRows if the account was deleted meanwhile, Unauthenticated if the actor's session has
// ended, and the errors of the change.
func (s *Store) endSessions(ctx context.Context, a Actor, change func(ctx context.Context, tx bun.Tx) error) error {
	var ended []string
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.lockFor(ctx, tx, a); err != nil {
			return err
		}
		if err := change(ctx, tx); err != nil {
			return err
		}
		err := dropFlows(ctx, tx, a.AccountID, kindLogin, kindChangeEmail)
		if err == nil {
			ended, err = s.end(ctx, tx, "account_id = ? AND id <> ?", a.AccountID, a.SessionID)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.revoked.add(ended...)
	return nil
}

// end revokes sessions, and returns them. This node refuses their tokens at once if they are added
// to revoked after the commit.
func (s *Store) end(ctx context.Context, conn bun.IDB, where string, args ...any) (ids []string, err error) {
	err = conn.NewSelect().Model((*Session)(nil)).Column("id").Where(where, args...).Where("revoked_at IS NULL").
		Scan(ctx, &ids)
	if err == nil && len(ids) > 0 {
		_, err = conn.NewUpdate().Model((*Session)(nil)).Set("revoked_at = ?", s.now()).Where("revoked_at IS NULL").
			Where("id IN (?)", bun.In(ids)).Exec(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("ending sessions: %w", err)
	}
	return ids, nil
}

// CleanUp deletes sessions that ended before the oldest valid token was issued, with their refresh
// tokens, and flows and enrollments that have expired.
func (s *Store) CleanUp(ctx context.Context) error {
	now := s.now()
	ended := now.Add(-s.Tokens.TTL - skew)
	if err := s.sweep(ctx, (*Session)(nil), "id", "expires_at <= ? OR revoked_at <= ?", ended, ended); err != nil {
		return fmt.Errorf("removing sessions: %w", err)
	}
	if err := s.sweep(ctx, (*flow)(nil), "hash", "expires_at <= ?", now); err != nil {
		return fmt.Errorf("removing flows: %w", err)
	}
	err := s.sweep(ctx, (*authenticator)(nil), "account_id", "enrolled_at IS NULL AND created_at <= ?",
		now.Add(-enrollmentTTL))
	if err != nil {
		return fmt.Errorf("removing authenticator apps that were not confirmed: %w", err)
	}
	return nil
}

func (s *Store) sweep(ctx context.Context, model any, key, where string, args ...any) error {
	_, err := db.InBatches(sweepBatch, func() (int64, error) {
		batch := s.DB.NewSelect().Model(model).Column(key).Where(where, args...).Limit(sweepBatch)
		return db.Affected(s.DB.NewDelete().Model(model).Where("? IN (?)", bun.Ident(key), batch).Exec(ctx))
	})
	return err
}
