package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
)

// batch is how many links one statement inserts, and one transaction.
const batch = 20_000

// backend is where Linkforge keeps its data, and the textbook beside it.
type backend struct {
	name string
	// settings are Linkforge's, textbookSettings the textbook's.
	settings, textbookSettings []string
	// links and textbook are the databases of both, and open what opens them.
	links, textbook string
	open            func(where string, pool int) (*db.DB, error)
}

// prepare makes everything that is there before a server starts.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.folder, err = os.MkdirTemp("", "linkforge-bench."); err != nil {
		return err
	}
	if err := os.Chmod(b.folder, 0o711); err != nil { // a web server's workers are nobody, and read in it
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	if b.services, err = rig.TakeServices(ctx, b.databaseURL, b.redisURL); err != nil {
		return err
	}
	b.databaseURL, b.redisURL = b.services.DatabaseURL, b.services.RedisURL
	b.embedded, b.servers = b.onSQLite(), b.onPostgres()
	both, ctx := errgroup.WithContext(ctx)
	for _, on := range []*backend{b.embedded, b.servers} {
		both.Go(func() error {
			began := time.Now()
			if err := b.fill(ctx, on); err != nil {
				return fmt.Errorf("preparing the links: %s: %w", on.name, err)
			}
			b.say("%d links on %s: %.1f s", b.links, on.name, time.Since(began).Seconds())
			return nil
		})
	}
	return both.Wait()
}

// build builds this tree's server, unless another is to be measured.
func (b *bench) build(ctx context.Context) error {
	if b.server != "" {
		return nil
	}
	var err error
	if b.server, err = rig.Build(ctx, b.folder); err != nil {
		return err
	}
	b.say("the server is built")
	return nil
}

// onSQLite is Linkforge by itself. The textbook has a file of its own: each has one writer.
func (b *bench) onSQLite() *backend {
	data := filepath.Join(b.folder, "data")
	own := filepath.Join(b.folder, "textbook.db")
	return &backend{
		name: "SQLite", settings: []string{"LINKFORGE_DATA_DIR=" + data}, open: db.OpenSQLite,
		links: filepath.Join(data, "linkforge.db"), textbook: own, textbookSettings: []string{textbookDatabase + "=" + own},
	}
}

// onPostgres is Linkforge with a PostgreSQL and a Redis.
func (b *bench) onPostgres() *backend {
	return &backend{
		name: "PostgreSQL",
		settings: []string{
			"LINKFORGE_DATA_DIR=" + filepath.Join(b.folder, "node"), "LINKFORGE_DATABASE_URL=" + b.databaseURL, "LINKFORGE_REDIS_URL=" + b.redisURL,
			"LINKFORGE_JWT_SECRET=" + strings.Repeat("benchmark", 4), "LINKFORGE_CODE_SECRET=" + strings.Repeat("benchmark", 4),
		},
		open: db.OpenPostgres, links: b.databaseURL, textbook: b.databaseURL,
		textbookSettings: []string{textbookDatabase + "=" + b.databaseURL, textbookRedis + "=" + b.redisURL},
	}
}

// fill migrates the database with the server's own command, and puts the links into it, and into the textbook's.
func (b *bench) fill(ctx context.Context, on *backend) error {
	cmd := exec.CommandContext(ctx, b.server, "migrate", "up")
	cmd.Env = append(rig.CleanEnvironment(), on.settings...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("migrating: %w\n%s", err, out)
	}
	if err := on.within(on.links, func(d *db.DB) error { return insertLinks(ctx, d, b.links) }); err != nil {
		return err
	}
	return on.within(on.textbook, func(d *db.DB) error { return insertTextbook(ctx, d, b.links) })
}

// within opens a database for as long as something is done in it.
func (on *backend) within(where string, do func(*db.DB) error) (err error) {
	d, err := on.open(where, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return do(d)
}

// PostgreSQL is given an array for each column, SQLite a list of rows. What only searching needs stays empty: no redirect
// looks at it.
var (
	linkRows = map[db.Kind]string{
		db.Postgres: `INSERT INTO links (id, workspace_id, code, root_code, original_url, canonical_url, canonical_hash,
				strategy, redirect_status, created_at, updated_at)
			SELECT id, workspace, code, code, url, url, decode(hash, 'hex'),
				'DETERMINISTIC', 302, '2026-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00'
			FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) AS u (id, workspace, code, url, hash)`,
		db.SQLite: `INSERT INTO links (id, workspace_id, code, root_code, original_url, canonical_url, canonical_hash,
				strategy, redirect_status, created_at, updated_at)
			SELECT column1, column2, column3, column3, column4, column4, unhex(column5),
				'DETERMINISTIC', 302, '2026-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00'
			FROM (VALUES %s)`,
	}
	textbookRows = map[db.Kind]string{
		db.Postgres: `INSERT INTO textbook (code, url) SELECT * FROM unnest($1::text[], $2::text[])`,
		db.SQLite:   `INSERT INTO textbook (code, url) VALUES %s`,
	}
)

// insertLinks makes a workspace, and all links in it.
func insertLinks(ctx context.Context, d *db.DB, links int) error {
	workspace := id.New(id.Workspace)
	_, err := d.ExecContext(db.AsSystem(ctx), `INSERT INTO workspaces (id, slug, name, created_at, updated_at)
		VALUES (?, 'bench', 'Bench', '2026-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00')`, workspace)
	if err != nil {
		return err
	}
	_, err = d.ExecContext(db.AsSystem(ctx), `INSERT INTO slugs (slug, workspace_id, created_at) VALUES ('bench', ?, '2026-01-01 00:00:00+00:00')`, workspace)
	if err != nil {
		return err
	}
	indexes, err := dropIndexes(db.AsOwner(ctx), d)
	if err != nil {
		return err
	}
	err = insert(db.AsSystem(ctx), d, linkRows[d.Kind], links, func(number int) []string {
		c, to := codeOf(number), urlOf(number)
		hash := sha256.Sum256([]byte(to))
		return []string{id.New(id.Link), workspace, string(c[:]), to, hex.EncodeToString(hash[:])}
	})
	for _, index := range indexes {
		if err == nil {
			_, err = d.DB.DB.ExecContext(db.AsOwner(ctx), index)
		}
	}
	return errors.Join(err, analyze(ctx, d, "links"))
}

// dropIndexes drops what would be written at every row, and returns the statements that make it anew: the indexes of links
// but those of its constraints, and what SQLite does for searching.
func dropIndexes(ctx context.Context, d *db.DB) (again []string, err error) {
	var all []struct{ Drop, Again string }
	find := map[db.Kind]string{
		db.Postgres: `SELECT 'DROP INDEX ' || indexname AS "drop", indexdef AS again FROM pg_indexes
			WHERE tablename = 'links' AND indexname NOT IN (SELECT conname FROM pg_constraint)`,
		db.SQLite: `SELECT 'DROP ' || type || ' ' || name AS "drop", sql AS again FROM sqlite_master
			WHERE tbl_name = 'links' AND type IN ('index', 'trigger') AND sql IS NOT NULL`,
	}
	if err := d.NewRaw(find[d.Kind]).Scan(ctx, &all); err != nil {
		return nil, err
	}
	for _, one := range all {
		if _, err := d.ExecContext(ctx, one.Drop); err != nil {
			return nil, err
		}
		again = append(again, one.Again)
	}
	return again, nil
}

// insertTextbook makes the textbook's table. PostgreSQL is not to clean it up while others are measured.
func insertTextbook(ctx context.Context, d *db.DB, links int) error {
	table := "CREATE TABLE textbook (code TEXT PRIMARY KEY, url TEXT NOT NULL, clicks BIGINT NOT NULL DEFAULT 0)"
	if d.Kind == db.Postgres {
		table += " WITH (autovacuum_enabled = false)"
	}
	if _, err := d.ExecContext(db.AsOwner(ctx), table); err != nil {
		return err
	}
	err := insert(db.AsOwner(ctx), d, textbookRows[d.Kind], links, func(number int) []string {
		c := codeOf(number)
		return []string{string(c[:]), urlOf(number)}
	})
	return errors.Join(err, analyze(ctx, d, "textbook"))
}

// insert inserts all rows, a batch in a transaction.
func insert(ctx context.Context, d *db.DB, statement string, links int, row func(number int) []string) error {
	insertBatch := map[db.Kind]func(context.Context, *sql.Tx, string, [][]string) error{db.Postgres: insertArrays, db.SQLite: insertRows}[d.Kind]
	for from := 0; from < links; from += batch {
		rows := make([][]string, 0, batch)
		for number := from; number < min(from+batch, links); number++ {
			rows = append(rows, row(number))
		}
		tx, err := d.DB.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := insertBatch(ctx, tx, statement, rows); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func insertArrays(ctx context.Context, tx *sql.Tx, statement string, rows [][]string) error {
	columns := make([]any, len(rows[0]))
	for i := range columns {
		column := make([]string, len(rows))
		for j, row := range rows {
			column[j] = row[i]
		}
		columns[i] = column
	}
	_, err := tx.ExecContext(ctx, statement, columns...)
	return err
}

// rowsAtOnce is how many rows a statement of SQLite has: more take longer to parse than they save.
const rowsAtOnce = 100

func insertRows(ctx context.Context, tx *sql.Tx, statement string, rows [][]string) error {
	for some := range slices.Chunk(rows, rowsAtOnce) {
		places, values := make([]string, len(some)), make([]any, 0, len(some)*len(some[0]))
		for i, row := range some {
			places[i] = "(?" + strings.Repeat(", ?", len(row)-1) + ")"
			for _, value := range row {
				values = append(values, value)
			}
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(statement, strings.Join(places, ", ")), values...); err != nil {
			return err
		}
	}
	return nil
}

// analyze has PostgreSQL do at once what it would do in time, while others are measured.
func analyze(ctx context.Context, d *db.DB, table string) error {
	if d.Kind != db.Postgres {
		return nil
	}
	_, err := d.ExecContext(db.AsOwner(ctx), "VACUUM ANALYZE "+table)
	return err
}

// close stops and removes everything that is still there.
func (b *bench) close() (err error) {
	for _, t := range b.targets {
		err = errors.Join(err, t.process.Stop())
	}
	err = errors.Join(err, b.services.Close())
	if b.folder != "" {
		err = errors.Join(err, os.RemoveAll(b.folder))
	}
	return err
}
