package account

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/poll"
)

const (
	// watchEvery is how often a node polls for sessions that other nodes revoked.
	watchEvery = 500 * time.Millisecond
	// watchDeadline bounds one poll. It fails open: without the database, tokens are valid until they
	// expire.
	watchDeadline = 5 * time.Second
	// skew bounds the difference of the nodes' clocks and the duration of a revoking transaction.
	skew = 30 * time.Second
)

// revoked are the sessions whose tokens may outlive them. Every request reads it, without a query.
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

// LoadRevoked loads the sessions that were revoked while their tokens are valid. A node calls it
// before it serves.
func (s *Store) LoadRevoked(ctx context.Context) error {
	ids, err := s.revokedSince(ctx, s.Now().Add(-s.Tokens.TTL-skew))
	if err == nil {
		s.revoked.replace(ids)
	}
	return err
}

// WatchRevoked polls for sessions that other nodes revoke, until the context ends. It returns nil.
func (s *Store) WatchRevoked(ctx context.Context) error {
	loaded := s.Now()
	failures := poll.Failures{Log: s.Log, Message: "polling revoked sessions failed"}
	poll.Every(ctx, watchEvery, failures, func(ctx context.Context) error {
		ids, err := s.revokedSince(ctx, s.Now().Add(-skew))
		s.revoked.add(ids...)
		if err == nil && s.Now().Sub(loaded) > s.Tokens.TTL { // drops those whose tokens have expired
			loaded, err = s.Now(), s.LoadRevoked(ctx)
		}
		return err
	})
	return nil
}

func (s *Store) revokedSince(ctx context.Context, since time.Time) (ids []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchDeadline)
	defer cancel()
	err = s.DB.NewSelect().Model((*Session)(nil)).Column("id").Where("revoked_at > ?", since).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("reading revoked sessions: %w", err)
	}
	return ids, nil
}
