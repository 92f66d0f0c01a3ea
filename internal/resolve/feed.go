package resolve

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/poll"
)

const (
	// followEvery is how often a node asks what others have changed: it knows within a second.
	followEvery = 250 * time.Millisecond
	// followDeadline bounds one question, and unheard is how long there may be no answer before
	// somebody is told.
	followDeadline = 5 * time.Second
	unheard        = 10 * time.Second
	// changesKept is how long the database keeps changes for nodes that have not asked.
	changesKept = 15 * time.Minute
)

// feed is how far this node has followed the changes that the database lists. The list is written
// by triggers in the transaction of each change, so none is missed, whoever made it and by whatever
// way, and none is heard of that was not committed. No message between nodes could say as much: one
// can be lost after the commit.
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

// Follow learns of changes that other nodes make, until the context ends. It returns nil. That the
// database does not answer is logged once.
func (s *Resolver) Follow(ctx context.Context) error {
	failures := poll.Failures{Log: s.Log, Message: "changes of links are not learnt of"}
	poll.Every(ctx, followEvery, failures, func(ctx context.Context) error {
		err := s.CatchUp(ctx)
		if s.Now().UnixNano()-s.feed.at.Load() <= int64(unheard) {
			return nil
		}
		return err
	})
	return nil
}

// CatchUp forgets what has changed since the last time. A node does so before it serves.
func (s *Resolver) CatchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(db.AsResolver(ctx), followDeadline)
	defer cancel()
	f := &s.feed
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
		s.forget(parseSubject(text)...)
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

// changes are what changed after the position, and the next position. At the start nothing is
// cached, and nothing asked for.
func (s *Resolver) changes(ctx context.Context, position int64, started bool) (texts []string, next int64, err error) {
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

// ForgetChanges removes changes that every node has heard of, or has been away for too long to be
// told of. The last one stays: SQLite would give its number to the next.
func (s *Resolver) ForgetChanges(ctx context.Context) error {
	last := s.DB.NewSelect().Table("changes").ColumnExpr("max(id)")
	_, err := s.DB.NewDelete().Table("changes").Where("changed_at < ?", db.Instant(s.Now()).Add(-changesKept)).
		Where("id < (?)", last).Exec(ctx)
	return err
}

// changesQuery asks for changes at or after a position, which are told again rather than missed: on
// PostgreSQL a transaction may commit after a later one, so a position is the oldest transaction
// that had not ended. SQLite commits one after the other. It is no raw query, which would wait for
// SQLite's one writer, and with it for a whole batch of clicks.
func (s *Resolver) changesQuery(position int64, started bool) *bun.SelectQuery {
	q := s.DB.NewSelect().ColumnExpr("h.next, c.subject")
	if s.DB.Kind == db.Postgres {
		return q.TableExpr("(SELECT pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT AS next) AS h").
			Join("LEFT JOIN changes AS c ON c.xid >= ? AND ?", position, started)
	}
	return q.TableExpr("(SELECT coalesce(max(id), 0) AS next FROM changes) AS h").
		Join("LEFT JOIN changes AS c ON c.id > ? AND ?", position, started)
}
