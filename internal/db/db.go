// Package db opens the database, PostgreSQL or SQLite, behind one bun.DB, and runs transactions and
// migrations on it. It knows no tables but its own.
package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Kind names a database's kind; it is also the folder of its migrations.
type Kind string

// The kinds.
const (
	Postgres Kind = "postgres"
	SQLite   Kind = "sqlite"
)

// DB is an open database.
type DB struct {
	*bun.DB
	// Kind says which database it is.
	Kind Kind
	// Replica is read where that is enough; nil when there is none.
	Replica *Replica
}

// Server is a PostgreSQL, or several of which one can be written to, and how long is waited for it.
type Server struct {
	// URL may name several hosts; with target_session_attrs=read-write, connections are made to the
	// one that can be written to.
	URL string
	// ReadURL is that of a standby, or several, which is read where that is enough; may be empty.
	ReadURL string
	// Pool is the largest number of connections, to each of them.
	Pool int
	// StatementTimeout ends a statement that goes on for so long, LockTimeout one that waits so long
	// for what another holds; zero for never. Neither holds for the system's and the owner's
	// statements: jobs and migrations take the time that they take.
	StatementTimeout, LockTimeout time.Duration
}

// OpenPostgres opens a Server without timeouts.
func OpenPostgres(databaseURL string, pool int) (*DB, error) {
	return Server{URL: databaseURL, Pool: pool}.Open()
}

// Open opens the pool. It does not connect yet.
func (s Server) Open() (*DB, error) {
	config, err := parse(s.URL)
	if err != nil {
		return nil, err
	}
	connector := stdlib.GetConnector(*config)
	conns := sql.OpenDB(scopedConnector{connector, patienceOf(s)})
	limit(conns, s.Pool)
	d := &DB{DB: bun.NewDB(conns, pgdialect.New()), Kind: Postgres}
	if s.ReadURL == "" {
		return d, nil
	}
	return d, d.followedBy(s.ReadURL, s, connector)
}

// Close closes the database, and its replica.
func (d *DB) Close() error {
	if d.Replica == nil {
		return d.DB.Close()
	}
	return errors.Join(d.DB.Close(), d.Replica.Close(), d.Replica.looks.Close())
}

func parse(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the database URL cannot be read") // pgx's own text may hold the password
	}
	// bun writes literals into its statements, so no two are alike and a cache of prepared ones only
	// costs. The few that are always the same ask for it (bind, enter), whatever the URL says of it.
	config.DefaultQueryExecMode, config.StatementCacheCapacity = pgx.QueryExecModeExec, 100
	config.RuntimeParams["application_name"] = "linkforge"
	config.RuntimeParams["standard_conforming_strings"] = "on" // bun's literals rely on it
	return config, nil
}

// writerCache gives the writer 64 MiB: codes and hashes fall anywhere into their indexes, and the
// default of 2 MiB has it write the same pages again and again.
const writerCache = "cache_size(-65536)"

// OpenSQLite opens the file, which is made when it is missing: one connection that writes, and a
// pool of at most pool that can only read.
//
// secure_delete overwrites what is removed: a key that is forgotten is in no file afterwards.
//
// synchronous=FULL keeps every commit through a loss of power. NORMAL is faster, and may lose the
// last ones.
func OpenSQLite(path string, pool int) (*DB, error) {
	if err := makePrivate(path); err != nil {
		return nil, fmt.Errorf("opening SQLite: %w", err)
	}
	writer, err := sql.Open("sqlite", sqliteDSN(path,
		"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "busy_timeout(10000)", "secure_delete(1)", writerCache))
	if err != nil {
		return nil, fmt.Errorf("opening SQLite: %w", err)
	}
	limit(writer, 1)
	readers, err := sql.Open("sqlite", sqliteDSN(path, "query_only(1)", "busy_timeout(10000)"))
	if err != nil {
		return nil, fmt.Errorf("opening SQLite: %w", err)
	}
	limit(readers, pool)
	conns := bun.NewDB(writer, sqlitedialect.New(), bun.WithConnResolver(readPool{readers}))
	return &DB{DB: conns, Kind: SQLite}, nil
}

// makePrivate makes the file, if it is missing, so that only its owner can read it; SQLite gives
// its side files the same mode.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// sqliteDSN asks for immediate transactions: a deferred one that reads and then writes fails at
// once when another has written in between, whatever the busy timeout.
func sqliteDSN(path string, pragmas ...string) string {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}).String()
}

// limit keeps as many connections idle as there may be: under load, closing and opening costs more
// than keeping.
func limit(conns *sql.DB, pool int) {
	conns.SetMaxOpenConns(pool)
	conns.SetMaxIdleConns(pool)
	conns.SetConnMaxIdleTime(5 * time.Minute)
}

// readPool sends SELECTs outside transactions to SQLite's readers, and leaves the one writer to the
// rest.
type readPool struct{ *sql.DB }

// ResolveConn implements bun.ConnResolver; nil means the writer.
func (p readPool) ResolveConn(_ context.Context, query bun.Query) bun.IConn {
	if _, ok := query.(*bun.SelectQuery); ok {
		return p.DB
	}
	return nil
}

// CopyTo writes SQLite's database into a file, as it is at one moment, beside all who use it: they
// go on meanwhile. Only its owner can read the file, and what was there before is gone.
func (d *DB) CopyTo(ctx context.Context, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copying the database: %w", err)
	}
	if err := makePrivate(path); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	if _, err := d.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	return nil
}

// CheckIntegrity reads all of SQLite's database, and returns an error when a part of it is damaged.
func (d *DB) CheckIntegrity(ctx context.Context) error {
	var found []string
	if err := d.NewRaw("PRAGMA integrity_check(1)").Scan(ctx, &found); err != nil {
		return fmt.Errorf("checking the database: %w", err)
	}
	if len(found) != 1 || found[0] != "ok" {
		return fmt.Errorf("the database is damaged: %s", strings.Join(found, "; "))
	}
	return nil
}

// Instant is t as both databases keep it: UTC, in microseconds.
func Instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Greatest is the greater of a column and a value, which each database has a word of its own for.
func (d *DB) Greatest(column string, value int64) schema.QueryWithArgs {
	word := "max"
	if d.Kind == Postgres {
		word = "GREATEST"
	}
	return bun.SafeQuery(word+"(?, ?)", bun.Ident(column), value)
}
