package account

import (
	"context"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// skew bounds the difference of the nodes' clocks and the duration of a revoking transaction.
const skew = 30 * time.Second

// revoked are the sessions whose tokens may outlive them. Every request reads it, without a query.
type revoked struct {
	mu  sync.RWMutex
	ids map[string]bool
	// loadedAt is when they were read from the database; zero reads them at once. The feed alone
	// uses it.
	loadedAt time.Time
}

func (r *revoked) has(sessionID string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ids[sessionID]
}

func (r *revoked) add(sessionIDs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.insert(sessionIDs)
}

func (r *revoked) replace(sessionIDs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = nil
	r.insert(sessionIDs)
}

func (r *revoked) insert(sessionIDs []string) {
	if r.ids == nil {
		r.ids = make(map[string]bool, len(sessionIDs))
	}
	for _, sessionID := range sessionIDs {
		r.ids[sessionID] = true
	}
}

// Follow adds the sessions that any node has revoked. It fails open: without the database, tokens
// are valid until they expire.
func (s *Store) Follow(ctx context.Context, n feed.News) {
	for _, subject := range n.Subjects {
		if id.Valid(id.Session, subject) {
			s.revoked.add(subject)
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

// loadRevoked reads the sessions that were revoked while their tokens are valid. Sessions revoked
// meanwhile are in the next news.
func (s *Store) loadRevoked(ctx context.Context, now time.Time) error {
	var ids []string
	err := s.DB.NewSelect().Model((*Session)(nil)).Column("id").Where("revoked_at > ?", now.Add(-s.Tokens.TTL-skew)).
		Scan(ctx, &ids)
	if err != nil {
		return err
	}
	s.revoked.replace(ids)
	s.revoked.loadedAt = now
	return nil
}
