package main

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// step is a step of the schema that was taken.
type step struct {
	name string
	took time.Duration
	// waited is the longest that a statement of a server waited for a lock meanwhile.
	waited time.Duration
}

// watcher looks at a database that is migrated.
type watcher struct {
	in      *sql.DB
	cancel  context.CancelFunc
	running sync.WaitGroup
	steps   []step
	err     error
}

const (
	// watchEvery is how often it looks.
	watchEvery = 5 * time.Millisecond
	// migrationLock is the key of the lock that whoever migrates holds: see internal/db/migrate.go.
	migrationLock = 0x6c696e6b666f7267
)

// look is what it sees: the steps taken, whether somebody migrates, and for how long the longest
// statement has waited for a lock. Those that wait to migrate are no statements of requests.
const look = `SELECT
	(SELECT count(*) FROM migrations) AS taken,
	EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND ((classid::BIGINT << 32) | objid::BIGINT) = $1) AS migrating,
	(SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0) FROM pg_stat_activity
		WHERE datname = current_database() AND state = 'active' AND wait_event_type = 'Lock' AND query NOT LIKE '%pg_advisory%') AS waited`

type seen struct {
	Taken     int
	Migrating bool
	Waited    float64 // seconds
}

// watchMigrations looks until it is told to end.
func watchMigrations(ctx context.Context, databaseURL string) (*watcher, error) {
	in, err := rig.Open(databaseURL, false)
	if err != nil {
		return nil, err
	}
	w := &watcher{in: in}
	ctx, w.cancel = context.WithCancel(ctx)
	var first seen
	if err := in.QueryRowContext(ctx, look, int64(migrationLock)).
		Scan(&first.Taken, &first.Migrating, &first.Waited); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	w.running.Go(func() { w.err = w.watch(ctx, first.Taken) })
	return w, nil
}

func (w *watcher) watch(ctx context.Context, taken int) error {
	var began time.Time
	var waited float64
	for tick := time.NewTicker(watchEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		var now seen
		if err := w.in.QueryRowContext(ctx, look, int64(migrationLock)).
			Scan(&now.Taken, &now.Migrating, &now.Waited); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if began.IsZero() && (now.Migrating || now.Taken > taken) {
			began = time.Now()
		}
		waited = max(waited, now.Waited)
		for ; taken < now.Taken; taken++ { // several at once, when they are faster than looks
			w.steps = append(w.steps, step{todaysSteps()[taken], time.Since(began),
				time.Duration(waited * float64(time.Second))})
			began, waited = time.Now(), 0
		}
	}
}

// end returns the steps that were seen.
func (w *watcher) end() ([]step, error) {
	w.cancel()
	w.running.Wait()
	return w.steps, errors.Join(w.err, w.in.Close())
}
