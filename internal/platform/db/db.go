// Package db opens PostgreSQL or SQLite behind one bun.DB, and has the scopes, transactions and
// statements that both share. It knows no tables. Every package with SQL calls it. Package pgscope
// runs statements of PostgreSQL in their scopes, package admission divides connections, package replica
// reads from standbys, and package migrate changes the schema.
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

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
	"github.com/linkforge/linkforge/internal/platform/db/replica"
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
	Kind Kind
	// Replica serves reads that may lag; nil if there is none.
	Replica *replica.Replica
	// ListTimeout bounds the statements of Briefly on SQLite.
	ListTimeout time.Duration

	turns  admission.Turns
	groups groups
}

// Server configures PostgreSQL.
type Server struct {
	// URL may name several hosts. With target_session_attrs=read-write, connections go to the
	// writable one.
	URL string
	// ReadURL is that of one or several standbys; optional.
	ReadURL string
	// Pool is the maximum number of connections to each server.
	Pool int
	// StatementTimeout and LockTimeout are unlimited if zero. They do not apply to the scopes of
	// the system and the owner: jobs and migrations take as long as they need.
	StatementTimeout, LockTimeout time.Duration
	// ListTimeout is the statement timeout of Briefly; zero means StatementTimeout.
	ListTimeout time.Duration
}

// OpenPostgres opens a Server without timeouts.
func OpenPostgres(databaseURL string, pool int) (*DB, error) {
	return Server{URL: databaseURL, Pool: pool}.Open()
}

// Open opens the pool without connecting.
func (s Server) Open() (*DB, error) {
	config, err := pgscope.ParseConfig(s.URL)
	if err != nil {
		return nil, err
	}
	connector := pgscope.Connector{
		Connector: stdlib.GetConnector(*config),
		Timeouts:  pgscope.Timeouts{Statement: s.StatementTimeout, Lock: s.LockTimeout, List: s.ListTimeout},
	}
	queue := admission.NewPoolQueue(s.Pool)
	d := &DB{Kind: Postgres, turns: admission.Turns{Reads: queue, Writes: queue, Primary: sql.OpenDB(connector)}}
	limit(d.turns.Primary, s.Pool)
	expire(d.turns.Primary)
	if s.ReadURL != "" {
		if d.Replica, err = replica.Open(s.ReadURL, connector); err != nil {
			return nil, err
		}
		limit(d.Replica.DB, s.Pool)
		d.Replica.EachPool(expire)
		d.turns.Route = d.Replica
	}
	d.DB = d.turns.Open(exactJSON{pgdialect.New()})
	return d, nil
}

// File is a SQLite database.
type File struct {
	Path string
	// Pool is the maximum number of connections that read.
	Pool int
	// CacheBytes bounds the page caches of all connections together; zero means the default.
	CacheBytes int64
	// ListTimeout bounds the statements of Briefly; zero means no bound.
	ListTimeout time.Duration
}

const (
	// writerCache is large because codes and hashes fall anywhere into their indexes: with the
	// default of 2 MiB the writer rewrites the same pages.
	writerCache = 64 << 20
	// readerCache is SQLite's default.
	readerCache = 2 << 20
)

// caches returns the size of the writer's page cache and of that of each reader. A bound below the
// defaults is divided in half between the writer and the readers.
func (f File) caches() (writer, reader int64) {
	if f.CacheBytes == 0 {
		return writerCache, readerCache
	}
	return min(writerCache, f.CacheBytes/2), min(readerCache, f.CacheBytes/2/int64(f.Pool))
}

// OpenSQLite opens a File with the default caches.
func OpenSQLite(path string, pool int) (*DB, error) { return File{Path: path, Pool: pool}.Open() }

// Open opens the file, which is created if missing, with one connection that writes and at most
// Pool connections that read.
//
// secure_delete overwrites deleted rows, so that no file contains a deleted key. synchronous=FULL
// keeps every commit through a loss of power; NORMAL may lose the last ones.
func (f File) Open() (*DB, error) {
	if err := makePrivate(f.Path); err != nil {
		return nil, fmt.Errorf("opening SQLite: %w", err)
	}
	writerBytes, readerBytes := f.caches()
	writer, err := sql.Open("sqlite", sqliteDSN(f.Path, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		"busy_timeout(10000)", "secure_delete(1)", cacheSize(writerBytes)))
	if err != nil {
		return nil, fmt.Errorf("opening SQLite: %w", err)
	}
	limit(writer, 1)
	readers, err := sql.Open("sqlite",
		sqliteDSN(f.Path, "query_only(1)", "busy_timeout(10000)", cacheSize(readerBytes)))
	if err != nil {
		return nil, fmt.Errorf("opening SQLite: %w", err)
	}
	limit(readers, f.Pool)
	shared := admission.Turns{
		Reads: admission.NewPoolQueue(f.Pool), Writes: admission.NewStatementQueue(maxGroup), Primary: writer,
		Route: readPool{readers},
	}
	return &DB{
		DB: shared.Open(exactJSON{sqlitedialect.New()}), Kind: SQLite, ListTimeout: f.ListTimeout, turns: shared,
		groups: groups{MaxBatch: maxGroup, Serial: true},
	}, nil
}

// cacheSize is the pragma for a page cache of some bytes; SQLite takes kibibytes as a negative
// number.
func cacheSize(bytes int64) string { return fmt.Sprintf("cache_size(%d)", -bytes>>10) }

// makePrivate creates a missing file so that only its owner can read it. SQLite gives its side
// files the same mode.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// sqliteDSN selects immediate transactions. A deferred one that reads and then writes fails at once
// if another has written in between, even with a busy timeout.
func sqliteDSN(path string, pragmas ...string) string {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}).String()
}

// limit keeps all connections idle: under load, closing and opening costs more than keeping.
func limit(conns *sql.DB, pool int) {
	conns.SetMaxOpenConns(pool)
	conns.SetMaxIdleConns(pool)
	conns.SetConnMaxIdleTime(5 * time.Minute)
}

const (
	// connLife bounds the life of a connection to a server, idleLife how long it is unused.
	connLife = 5 * time.Minute
	idleLife = 2 * time.Minute
)

// expire has connections to a server end after minutes, also those that periodic statements keep
// busy: a pooler that stops waits for its clients, and new connections lead to another one.
func expire(conns *sql.DB) {
	conns.SetConnMaxLifetime(connLife)
	conns.SetConnMaxIdleTime(idleLife)
}

// readPool sends SELECTs outside transactions to the readers.
type readPool struct{ *sql.DB }

// ResolveConn implements bun.ConnResolver; nil means the writer.
func (p readPool) ResolveConn(_ context.Context, query bun.Query) bun.IConn {
	if _, ok := query.(*bun.SelectQuery); ok {
		return p.DB
	}
	return nil
}

// CopyTo writes a consistent copy of the SQLite database into a file, which it replaces and only
// its owner can read. Other connections continue.
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

// CheckIntegrity reads the whole SQLite database and returns an error if it is damaged.
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

// Instant returns t as both databases store it: UTC, in microseconds.
func Instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Contains keeps the rows whose text in the column contains the word, case-sensitively. It uses no
// index.
func (d *DB) Contains(q *bun.SelectQuery, column, word string) *bun.SelectQuery {
	if d.Kind == Postgres {
		return q.Where("strpos(?, ?) > 0", bun.Ident(column), word)
	}
	return q.Where("instr(?, ?) > 0", bun.Ident(column), word)
}
