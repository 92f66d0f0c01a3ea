package resolve

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/poll"
)

const (
	// pollInterval is the time between two polls of the feed: a change is visible within a second.
	pollInterval = 250 * time.Millisecond
	// pollDeadline bounds one poll. Failures are logged after reportAfter without a successful poll.
	pollDeadline = 2 * time.Second
	reportAfter  = 10 * time.Second
	// changeRetention is how long the database stores changes for nodes that do not poll.
	changeRetention = 15 * time.Minute
)

// feed is the position of this node in the change feed, a table that triggers write in the
// transaction of each change. So every committed change is listed, by whatever statement, and no
// other. Messages between nodes could be lost after the commit.
type feed struct {
	mu       sync.Mutex // serializes polls
	position int64
	started  bool
	// at is the start of the last successful poll, in nanoseconds since 1970; zero before the first.
	at atomic.Int64
	// epoch counts how often changes may have been missed.
	epoch atomic.Uint64
}

// fresh reports whether cached entries may be used.
func (f *feed) fresh(now time.Time) bool {
	return now.UnixNano()-f.at.Load() < int64(staleLife)
}

// Follow polls the feed until the context ends, and returns nil. It logs the first of consecutive
// failures.
func (s *Resolver) Follow(ctx context.Context) error {
	failures := poll.Failures{Log: s.Log, Message: "polling link changes failed"}
	poll.Every(ctx, pollInterval, failures, func(ctx context.Context) error {
		err := s.CatchUp(ctx)
		if s.Now().UnixNano()-s.feed.at.Load() <= int64(reportAfter) {
			return nil
		}
		return err
	})
	return nil
}

// CatchUp removes the entries of subjects that have changed since the last poll. A node calls it
// before it serves.
func (s *Resolver) CatchUp(caller context.Context) error {
	ctx, cancel := context.WithTimeout(db.AsResolver(caller), pollDeadline)
	defer cancel()
	f := &s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	start := s.Now()
	texts, next, err := s.changes(ctx, f.position, f.started)
	if caller.Err() == nil { // otherwise the error is that of the caller
		s.down.Store(errs.Is(err, errs.Unavailable))
	}
	if err != nil {
		return fmt.Errorf("polling link changes: %w", err)
	}
	if f.started && start.UnixNano()-f.at.Load() > int64(changeRetention/2) {
		f.epoch.Add(1) // changes may have been deleted before this poll
	}
	for _, text := range texts {
		s.forget(parseSubject(text)...)
	}
	f.position, f.started = next, true
	f.at.Store(start.UnixNano())
	return nil
}

// change is a row of the feed.
type change struct {
	Next    int64
	Subject *string
}

// changes returns the changes after a position, and the next position. Before the first poll the
// cache is empty, so no change is read.
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

// DeleteExpiredChanges deletes changes that are older than changeRetention. The last one stays,
// because SQLite would reuse its number.
func (s *Resolver) DeleteExpiredChanges(ctx context.Context) error {
	last := s.DB.NewSelect().Table("changes").ColumnExpr("max(id)")
	_, err := s.DB.NewDelete().Table("changes").Where("changed_at < ?", db.Instant(s.Now()).Add(-changeRetention)).
		Where("id < (?)", last).Exec(ctx)
	return err
}

// changesQuery selects changes at or after a position; some are read twice, none is missed. On
// PostgreSQL, transactions commit out of order, so the position is the oldest open transaction.
// SQLite commits in order. A raw query would wait for the only writer of SQLite, and so for a batch
// of clicks.
func (s *Resolver) changesQuery(position int64, started bool) *bun.SelectQuery {
	q := s.DB.NewSelect().ColumnExpr("h.next, c.subject")
	if s.DB.Kind == db.Postgres {
		return q.TableExpr("(SELECT "+db.OldestTransaction+" AS next) AS h").
			Join("LEFT JOIN changes AS c ON c.xid >= ? AND ?", position, started)
	}
	return q.TableExpr("(SELECT coalesce(max(id), 0) AS next FROM changes) AS h").
		Join("LEFT JOIN changes AS c ON c.id > ? AND ?", position, started)
}
