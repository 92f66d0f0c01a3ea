package link

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/poll"
)

const (
	// followEvery is how often a node asks what others have changed: it knows within a second.
	followEvery = 250 * time.Millisecond
	// followDeadline bounds one question, and unheard is how long there may be no answer before somebody is told.
	followDeadline = 5 * time.Second
	unheard        = 10 * time.Second
	// changesKept is how long the database keeps changes for nodes that have not asked.
	changesKept = 15 * time.Minute
)

// feed is how far this node has followed the changes that the database lists. The list is written by triggers in the
// transaction of each change, so none is missed, whoever made it and by whatever way, and none is heard of that was not
// committed. No message between nodes could say as much: one can be lost after the commit.
type feed struct {
	mu       sync.Mutex // one question at a time
	position int64
	started  bool
	// at is when the last answer was asked for, in nanoseconds since 1970; zero before the first.
	at atomic.Int64
	// epoch counts how often changes may have been missed.
	epoch atomic.Uint64
}

// fresh says that what is cached may be believed.
func (f *feed) fresh(now time.Time) bool {
	return now.UnixNano()-f.at.Load() < int64(staleLife)
}

// Follow learns of changes that other nodes make, until the context ends. It returns nil. That the database does not
// answer is logged once.
func (s *Store) Follow(ctx context.Context) error {
	failures := poll.Failures{Log: s.Log, Message: "changes of links are not learnt of"}
	poll.Every(ctx, followEvery, failures, func(ctx context.Context) error {
		err := s.CatchUp(ctx)
		if s.Now().UnixNano()-s.cache.feed.at.Load() <= int64(unheard) {
			return nil
		}
		return err
	})
	return nil
}

// CatchUp forgets what has changed since the last time. A node does so before it serves.
func (s *Store) CatchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(db.AsResolver(ctx), followDeadline)
	defer cancel()
	f := &s.cache.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := s.Now()
	texts, next, err := s.changes(ctx, f.position, f.started)
	if err != nil {
		return fmt.Errorf("looking for changes of links: %w", err)
	}
	if f.started && asked.UnixNano()-f.at.Load() > int64(changesKept/2) {
		f.epoch.Add(1) // some may have been removed before this node asked
	}
	for _, text := range texts {
		s.cache.forget(parseSubject(text)...)
	}
	f.position, f.started = next, true
	f.at.Store(asked.UnixNano())
	return nil
}

// change is a row of the list.
type change struct {
	Next    int64
	Subject *string
}

// changes are what changed after the position, and the next position. At the start nothing is cached, and nothing asked for.
func (s *Store) changes(ctx context.Context, position int64, started bool) (texts []string, next int64, err error) {
	var rows []change
	if err := s.changesQuery(position, started).Scan(ctx, &rows); err != nil {
		return nil, 0, err
	}
	for _, row := range rows {
		next = row.Next
		if row.Subject != nil {
			texts = append(texts, *row.Subject)
		}
	}
	return texts, next, nil
}

// forgetChanges removes changes that every node has heard of, or has been away for too long to be told of. The last one
// stays: SQLite would give its number to the next.
func (s *Store) forgetChanges(ctx context.Context) (int, error) {
	last := s.DB.NewSelect().Table("changes").ColumnExpr("max(id)")
	_, err := s.DB.NewDelete().Table("changes").Where("changed_at < ?", s.now().Add(-changesKept)).Where("id < (?)", last).Exec(ctx)
	return 0, err
}
