package account

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// skew bounds the difference of the nodes' clocks and the duration of a revoking transaction.
const skew = 30 * time.Second

// revoked are the sessions whose tokens may say more than they still prove: those that have ended,
// and those whose methods have changed, with the present ones. Every request reads it, without a
// query.
type revoked struct {
	mu      sync.RWMutex
	ended   map[string]bool
	methods map[string]Methods
	// loadedAt is when they were read from the database; zero reads them at once. The feed alone
	// uses it.
	loadedAt time.Time
}

// of reports whether a session has ended, and returns its methods if they have changed, or nil.
func (r *revoked) of(sessionID string) (hasEnded bool, methods *Methods) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if present, hasChanged := r.methods[sessionID]; hasChanged {
		methods = &present
	}
	return r.ended[sessionID], methods
}

func (r *revoked) add(sessionIDs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sessionID := range sessionIDs {
		r.ended = put(r.ended, sessionID, true)
	}
}

// change sets the present methods of sessions.
func (r *revoked) change(sessions ...Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range sessions {
		r.methods = put(r.methods, one.ID, one.Methods)
	}
}

// put returns a map, which may be nil, with another value.
func put[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

func (r *revoked) replace(sessions []Session) {
	ended, methods := map[string]bool{}, map[string]Methods{}
	for _, one := range sessions {
		if one.RevokedAt != nil {
			ended[one.ID] = true
		} else {
			methods[one.ID] = one.Methods
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.methods = ended, methods
}

// Follow adds the sessions that any node has revoked, or whose methods it has changed. It fails
// open: without the database, tokens are valid until they expire.
func (s *Store) Follow(ctx context.Context, n feed.News) {
	for _, subject := range n.Subjects {
		switch sessionID, methods, hasChanged := strings.Cut(subject, " "); {
		case !id.Valid(id.Session, sessionID):
		case hasChanged:
			s.revoked.change(Session{ID: sessionID, Methods: Methods(methods)})
		default:
			s.revoked.add(sessionID)
		}
	}
	if n.IsGap {
		s.revoked.loadedAt = time.Time{}
	}
	if n.At.Sub(s.revoked.loadedAt) <= s.Tokens.TTL {
		return
	}
	if err := s.loadRevoked(ctx, n.At); err != nil {
		s.Log.Log(ctx, errs.LogLevel(err), "reading revoked sessions failed", "error", err)
	}
}

// loadRevoked reads the sessions that were revoked, or whose methods were changed, while their
// tokens are valid. What changes meanwhile is in the next news.
func (s *Store) loadRevoked(ctx context.Context, now time.Time) error {
	oldest := now.Add(-s.Tokens.TTL - skew)
	var changed []Session
	err := s.DB.NewSelect().Model(&changed).Column("id", "methods", "revoked_at").
		Where("revoked_at > ? OR methods_changed_at > ?", oldest, oldest).Scan(ctx)
	if err != nil {
		return err
	}
	s.revoked.replace(changed)
	s.revoked.loadedAt = now
	return nil
}
