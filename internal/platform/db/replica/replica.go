// Package replica sends reads that may lag to a standby of the database: a read states how current
// it must be, and uses the standby while it is known to be that current. It knows no tables.
//
// Package db opens it; package consistency states the ages.
package replica

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// MaxLag is the maximum lag of a replica that is read.
	MaxLag = 5 * time.Second

	lookEvery    = 100 * time.Millisecond
	lookDeadline = time.Second
)

// Replica is a standby of the primary database. Reads that state by MayLag how current they must be
// use it while it is known to be that current; others use the primary.
type Replica struct {
	*sql.DB
	looks *bun.DB // one connection, which looks how far it is
	// here is true while the replica responds. until is a time in nanoseconds: it has every earlier
	// commit. Zero is unknown.
	here   atomic.Bool
	until  atomic.Int64
	opened time.Time
}

// Open opens the pool of a replica, without connecting. While the replica is unavailable, its
// connections are to the primary.
func Open(url string, primary pgscope.Connector) (*Replica, error) {
	config, err := pgscope.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	r := &Replica{opened: time.Now()}
	standby := pgscope.Connector{Connector: stdlib.GetConnector(*config), Timeouts: primary.Timeouts}
	r.DB = sql.OpenDB(detour{standby, primary, r})
	r.looks = bun.NewDB(sql.OpenDB(standby), pgdialect.New())
	r.looks.SetMaxOpenConns(1)
	return r, nil
}

// EachPool calls f with each pool of connections.
func (r *Replica) EachPool(f func(*sql.DB)) {
	f(r.DB)
	f(r.looks.DB)
}

// Close closes the pool.
func (r *Replica) Close() error { return errors.Join(r.DB.Close(), r.looks.Close()) }

// lagKey is the context key of the time before which reads must see all commits.
type lagKey struct{}

// MayLag returns a context whose reads of a workspace may miss commits after a time. Transactions
// and checks of permissions read the primary regardless.
func MayLag(ctx context.Context, since time.Time) context.Context {
	return context.WithValue(ctx, lagKey{}, since)
}

// UpToDate returns a context whose reads use the primary.
func UpToDate(ctx context.Context) context.Context {
	return context.WithValue(ctx, lagKey{}, nil)
}

// ResolveConn implements bun.ConnResolver; nil selects the primary.
func (r *Replica) ResolveConn(ctx context.Context, query bun.Query) bun.IConn {
	since, ok := ctx.Value(lagKey{}).(time.Time)
	if _, reads := query.(*bun.SelectQuery); !ok || !reads || pgscope.Of(ctx).Workspace == "" || !r.Has(since) {
		return nil
	}
	return r.DB
}

// Has reports whether the replica has all commits up to a time.
func (r *Replica) Has(moment time.Time) bool {
	return r.here.Load() && r.until.Load() >= moment.UnixNano()
}

// Lag returns how far behind the replica is, or for how long that has been unknown. It grows while
// either server is unavailable, and is 0 for nil.
func (r *Replica) Lag(now time.Time) time.Duration {
	if r == nil {
		return 0
	}
	return now.Sub(time.Unix(0, max(r.until.Load(), r.opened.UnixNano())))
}

// Await waits until the replica has all commits up to now, but at most MaxLag.
func (r *Replica) Await(ctx context.Context, now time.Time) error {
	for waited := time.Duration(0); waited < MaxLag && !r.Has(now); waited += lookEvery {
		if err := poll.Wait(ctx, lookEvery); err != nil {
			return err
		}
	}
	return nil
}

var errNoReplica = errors.New("the database to read from is no standby of the database: it is another one, or one " +
	"that can be written to")

// Check returns an error if the replica responds and does not follow the primary. A nil replica has
// none.
func (r *Replica) Check(ctx context.Context, primary bun.IDB) error {
	if r == nil {
		return nil
	}
	ctx = pgscope.WithScope(ctx, pgscope.Scope{Role: pgscope.Owner})
	const identify = "SELECT system_identifier || ' ' || current_database(), pg_is_in_recovery() FROM " +
		"pg_control_system()"
	var here, there string
	var follows bool
	if err := primary.NewRaw(identify).Scan(ctx, &here, new(bool)); err != nil {
		return fmt.Errorf("checking the database: %w", err)
	}
	if err := r.looks.NewRaw(identify).Scan(ctx, &there, &follows); pgscope.IsUnavailable(err) {
		return nil // it may come later
	} else if err != nil {
		return fmt.Errorf("checking the replica: %w", err)
	}
	if here != there || !follows {
		return errNoReplica
	}
	return nil
}

// Follow polls how far the replica is behind the primary, until the context ends. A nil replica is
// not polled.
func (r *Replica) Follow(ctx context.Context, primary bun.IDB, log *slog.Logger, now func() time.Time) error {
	if r == nil {
		return nil
	}
	ctx = pgscope.WithScope(ctx, pgscope.Scope{Role: pgscope.Owner})
	var seen []position
	for read, warned := false, false; poll.Wait(ctx, lookEvery) == nil; {
		var err error
		seen, err = r.observe(ctx, primary, seen, now())
		r.here.Store(err == nil)
		fit := r.Has(now().Add(-MaxLag))
		switch {
		case fit && !read:
			log.InfoContext(ctx, "the replica is read")
			warned = false
		case !fit && !warned && ctx.Err() == nil && (read || r.Lag(now()) > MaxLag):
			log.WarnContext(ctx, "the replica is not read: it is away, or too far behind", "error", err)
			warned = true
		}
		read = fit
	}
	return nil
}

// position is the end of the primary's log at a time.
type position struct {
	at  time.Time
	lsn int64
}

// observe appends the primary's position, and removes the positions that the replica has reached.
func (r *Replica) observe(
	ctx context.Context, primary bun.IDB, seen []position, now time.Time,
) ([]position, error) {
	ctx, cancel := context.WithTimeout(ctx, lookDeadline)
	defer cancel()
	// Every commit up to now is in the log before this position.
	p := position{at: now}
	ahead := primary.NewRaw("SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint").Scan(ctx, &p.lsn)
	if ahead == nil {
		seen = append(seen, p)
	}
	var passed int64
	// One that receives nothing may have stayed behind at a promotion, with a log of its own.
	err := r.looks.NewRaw("SELECT (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint "+
		"WHERE pg_is_in_recovery() AND EXISTS (SELECT FROM pg_stat_wal_receiver)").Scan(ctx, &passed)
	if err != nil {
		return nil, errors.Join(ahead, fmt.Errorf("checking the replica: %w", err))
	}
	for len(seen) > 0 && seen[0].lsn <= passed {
		r.until.Store(seen[0].at.UnixNano())
		seen = seen[1:]
	}
	if len(seen) > int(2*MaxLag/lookEvery) { // so far behind, it is not read
		seen = seen[:0]
	}
	return seen, ahead
}

// detour connects to the replica or, while it is unavailable, to the primary.
type detour struct {
	pgscope.Connector
	primary pgscope.Connector
	replica *Replica
}

// Connect implements driver.Connector.
func (d detour) Connect(ctx context.Context) (driver.Conn, error) {
	if d.replica.here.Load() {
		conn, err := d.Connector.Connect(ctx)
		if err == nil {
			return &readConn{conn.(*pgscope.Conn), d.replica, false}, nil
		}
		d.replica.here.Store(false)
	}
	conn, err := d.primary.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &readConn{conn.(*pgscope.Conn), d.replica, true}, nil
}

// readConn is a connection to the replica, or to the primary while the replica is too old.
type readConn struct {
	*pgscope.Conn
	replica *Replica
	instead bool
}

// IsValid implements driver.Validator: connections are replaced when the replica becomes available
// or unavailable.
func (c *readConn) IsValid() bool {
	return c.Conn.IsValid() && c.instead != c.replica.here.Load()
}

// ResetSession implements driver.SessionResetter.
func (c *readConn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	return c.Conn.ResetSession(ctx)
}

// QueryContext implements driver.QueryerContext. If the replica is unavailable or cancels a
// statement that conflicts with recovery, database/sql retries on another connection.
func (c *readConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.QueryContext(ctx, query, args)
	if err == nil || c.instead || ctx.Err() != nil {
		return rows, err
	}
	// serialization_failure, as standbys call their conflicts
	if pgscope.Code(err) == pgscope.SerializationFailure { // a conflict with recovery
		c.replica.here.Store(false) // until it is looked at again
		return nil, driver.ErrBadConn
	}
	if pgscope.IsUnavailable(err) { // or was, and this connection is left over
		return nil, driver.ErrBadConn
	}
	return nil, err
}
