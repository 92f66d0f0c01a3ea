// Package feed reads the news of the database, once for all parts of a node: cached rows that
// have changed, events, batches of clicks, and work that is due. Other parts subscribe, and read
// the rest when there is news.
//
// Live delivers the items of an ordered log, of clicks or events, to subscriptions, in one order on
// every node. It reads the log once for all subscriptions of the node, and not at all without any.
package feed

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// interval is the time between two reads: a change is visible on all nodes within a second.
	interval = 250 * time.Millisecond
	// deadline bounds one read. Failures are logged after reportAfter without a successful one.
	deadline    = 2 * time.Second
	reportAfter = 10 * time.Second
	// retention is how long the database stores changes for nodes that do not read them.
	retention = 15 * time.Minute
)

// News has the changes between two reads.
type News struct {
	// At is when the read began.
	At time.Time
	// Subjects are the rows that have changed, in the format of the table changes: the id of a
	// workspace or a revoked session, 'workspace/code', '~slug' or '@host'. Triggers write them in
	// the transaction of each change, so every committed change is among them, by any
	// statement, and no other. Some are read twice.
	Subjects []string
	// IsGap means that changes may have been deleted before they were read.
	IsGap bool
	State
}

// State is the state of the logs and of the work, as a read has found it.
type State struct {
	// HasEvents and HasClicks mean that new events and batches of clicks have become final: none
	// can be added before them.
	HasEvents, HasClicks bool
	// HasJobs, HasDeliveries and HasTasks mean that jobs, deliveries of webhooks and tasks are due,
	// and HasTexts that texts of links wait for their index.
	HasJobs, HasDeliveries, HasTasks, HasTexts bool
	// IsStopped means that the operator has stopped all webhooks.
	IsStopped bool
}

// Subscriber takes the news. It returns soon: it delays the other subscribers, and callers of
// CatchUp.
type Subscriber func(ctx context.Context, n News)

// Feed reads the news of a node.
type Feed struct {
	db          *db.DB
	log         *slog.Logger
	now         func() time.Time
	subscribers []Subscriber

	mu sync.Mutex // serializes reads
	// read is up to where the logs were read; nil before the first read.
	read *ends
	// at is the start of the last successful read, in nanoseconds since 1970; zero before the
	// first. down says that the last one found no database.
	at   atomic.Int64
	down atomic.Bool
}

// ends are the last final rows of the logs: their transactions on PostgreSQL, which commits out of
// order, and their numbers on SQLite. They are those of rows for the reason that Horizon has.
type ends struct{ Changes, Events, Batches int64 }

// New returns a Feed without subscribers.
func New(d *db.DB, log *slog.Logger, now func() time.Time) *Feed {
	return &Feed{db: d, log: log, now: now}
}

// Subscribe adds a subscriber, before the first read.
func (f *Feed) Subscribe(s Subscriber) { f.subscribers = append(f.subscribers, s) }

// Age is the time since the last successful read began.
func (f *Feed) Age(now time.Time) time.Duration { return time.Duration(now.UnixNano() - f.at.Load()) }

// IsDown reports whether the last read has found no database. A slow one is no evidence that it is
// down.
func (f *Feed) IsDown() bool { return f.down.Load() }

// Run reads the news until the context ends, and returns nil. It logs the first of consecutive
// failures.
func (f *Feed) Run(ctx context.Context) error {
	failures := poll.Failures{Log: f.log, Message: "reading the news of the database failed"}
	poll.Every(ctx, interval, failures, func(ctx context.Context) error {
		err := f.CatchUp(ctx)
		if f.Age(f.now()) <= reportAfter {
			return nil
		}
		return err
	})
	return nil
}

// CatchUp hands the news so far to the subscribers. A node calls it before it serves. Before the
// first read nothing is cached, so that one has no changes, and as much time as the caller.
func (f *Feed) CatchUp(caller context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx := db.AsSystem(caller)
	if f.read != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	n := News{At: f.now()}
	var rows []row
	err := f.newsQuery(n.At).Scan(ctx, &rows)
	if caller.Err() == nil { // otherwise the error is that of the caller
		f.down.Store(errs.Is(err, errs.Unavailable))
	}
	if err != nil {
		return fmt.Errorf("reading the news of the database: %w", err)
	}
	for _, one := range rows {
		if one.Subject != nil {
			n.Subjects = append(n.Subjects, *one.Subject)
		}
	}
	n.State, n.IsGap = rows[0].State, f.read != nil && f.Age(n.At) > retention/2
	f.read = &rows[0].ends
	f.at.Store(n.At.UnixNano())
	for _, s := range f.subscribers {
		s(ctx, n)
	}
	return nil
}

// row is a change, or none, with the state of the logs.
type row struct {
	ends    `bun:",extend"`
	State   `bun:",extend"`
	Subject *string
}

// newsQuery selects the news. A raw query would wait for the only writer of SQLite, and so for a
// batch of clicks.
func (f *Feed) newsQuery(now time.Time) *bun.SelectQuery {
	from, started, free := ends{}, f.read != nil, lease.Free(now)
	if started {
		from = *f.read
	}
	state := f.db.NewSelect().ColumnExpr("logs.*").
		ColumnExpr("EXISTS (SELECT 1 FROM webhooks WHERE due_at <= ? AND status = 'ACTIVE' AND deleted_at IS NULL) "+
			"AS has_deliveries", db.Instant(now)).
		ColumnExpr("EXISTS (SELECT 1 FROM leases WHERE due_at > ? AND due_at <= ? AND ?) AS has_jobs",
			db.Instant(now.Add(-retention)), db.Instant(now), free). // no node has jobs that are due for longer
		ColumnExpr(`EXISTS (SELECT 1 FROM tasks WHERE finished_at IS NULL AND due_at <= ?
			AND status IN ('QUEUED', 'RUNNING') AND ?) AS has_tasks`, db.Instant(now), free).
		ColumnExpr("EXISTS (SELECT 1 FROM link_text_queue) AS has_texts").
		ColumnExpr("EXISTS (SELECT 1 FROM webhook_stops) AS is_stopped").
		Limit(1) // PostgreSQL evaluates the columns once, not for each change
	q := f.db.NewSelect().ColumnExpr("state.*").Column("change.subject").TableExpr("(?) AS state", state)
	state.ColumnExpr("logs.events > ? AS has_events", from.Events).ColumnExpr("logs.batches > ? AS has_clicks",
		from.Batches)
	if f.db.Kind == db.Postgres {
		state.TableExpr(`(SELECT (SELECT coalesce(max(xid), 0) FROM changes WHERE xid < ?0) AS changes,
			(SELECT coalesce(max(xid), 0) FROM audit_events WHERE seq IS NOT NULL AND xid < ?0) AS events,
			(SELECT coalesce(max(xid), 0) FROM click_batches WHERE xid < ?0) AS batches) AS logs`,
			bun.Safe(db.OldestTransaction))
		return q.Join("LEFT JOIN changes AS change ON change.xid > ? AND ?", from.Changes, started)
	}
	state.TableExpr(`(SELECT (SELECT coalesce(max(id), 0) FROM changes) AS changes,
		(SELECT coalesce(max(seq), 0) FROM audit_events WHERE seq IS NOT NULL) AS events,
		(SELECT coalesce(max(id), 0) FROM click_batches) AS batches) AS logs`)
	return q.Join("LEFT JOIN changes AS change ON change.id > ? AND ?", from.Changes, started)
}

// DeleteExpired deletes changes that are older than retention. The last one stays, because SQLite
// would reuse its number.
func (f *Feed) DeleteExpired(ctx context.Context) error {
	last := f.db.NewSelect().Table("changes").ColumnExpr("max(id)")
	_, err := f.db.NewDelete().Table("changes").Where("changed_at < ?", db.Instant(f.now()).Add(-retention)).
		Where("id < (?)", last).Exec(ctx)
	return err
}
