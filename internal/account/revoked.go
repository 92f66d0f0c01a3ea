package account

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/pause"
)

const (
	// watchEvery is how often a node asks which sessions others have ended: a revoked one stops working within a second.
	watchEvery = 500 * time.Millisecond
	// watchDeadline bounds one question. It fails open: while the database is away, tokens are good until they end.
	watchDeadline = 5 * time.Second
	// skew is how far apart the clocks of nodes may be, and how long a revocation may take to be committed.
	skew = 30 * time.Second
)

// revoked are the sessions that were ended before their tokens. It is asked for every request, and costs no query.
type revoked struct {
	mu  sync.RWMutex
	ids map[string]bool
}

func (r *revoked) has(sessionID string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ids[sessionID]
}

func (r *revoked) add(sessionIDs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = map[string]bool{}
	}
	for _, sessionID := range sessionIDs {
		r.ids[sessionID] = true
	}
}

// replace forgets all others.
func (r *revoked) replace(sessionIDs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = make(map[string]bool, len(sessionIDs))
	for _, sessionID := range sessionIDs {
		r.ids[sessionID] = true
	}
}

// LoadRevoked learns which sessions have been ended whose tokens may still be about. A node does so before it serves.
func (s *Store) LoadRevoked(ctx context.Context) error {
	ids, err := s.revokedSince(ctx, s.Now().Add(-s.Tokens.TTL-skew))
	if err == nil {
		s.revoked.replace(ids)
	}
	return err
}

// WatchRevoked learns of sessions that other nodes end, until the context ends. It returns nil.
func (s *Store) WatchRevoked(ctx context.Context) error {
	failing := false
	for whole := s.Now(); pause.For(ctx, watchEvery) == nil; {
		ids, err := s.revokedSince(ctx, s.Now().Add(-skew))
		s.revoked.add(ids...)
		if err == nil && s.Now().Sub(whole) > s.Tokens.TTL { // tokens of the oldest have ended
			whole, err = s.Now(), s.LoadRevoked(ctx)
		}
		if err != nil && !failing && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "revoked sessions are not learnt of", "error", err)
		}
		failing = err != nil
	}
	return nil
}

func (s *Store) revokedSince(ctx context.Context, since time.Time) (ids []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchDeadline)
	defer cancel()
	err = s.DB.NewSelect().Model((*Session)(nil)).Column("id").Where("revoked_at > ?", since).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("looking for revoked sessions: %w", err)
	}
	return ids, nil
}
