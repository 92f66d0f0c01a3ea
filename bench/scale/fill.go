package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// madeAt is when everything was made.
var madeAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fillAll fills all estates, as many at a time as there are cores to sort.
func (b *bench) fillAll(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(2)
	for i := len(b.estates) - 1; i >= 0; i-- { // the large ones take longest
		e := b.estates[i]
		all.Go(func() error {
			began := time.Now()
			if err := b.fill(ctx, e); err != nil {
				return fmt.Errorf("filling %s: %w", e.title(), err)
			}
			b.Say("%s are there after %.0f s", e.title(), time.Since(began).Seconds())
			return nil
		})
	}
	return all.Wait()
}

// fill migrates the database with the server's own command, and puts everything into it.
func (b *bench) fill(ctx context.Context, e *estate) (err error) {
	if _, err := b.Command(ctx, []string{"LINKFORGE_DATABASE_URL=" + e.databaseURL}, "migrate", "up"); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, e.databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	again, err := b.prepareTables(ctx, conn)
	if err != nil {
		return err
	}
	if err := e.insertWorkspaces(ctx, conn); err != nil {
		return err
	}
	if err := e.copyLinks(ctx, conn); err != nil {
		return err
	}
	return execute(ctx, conn, append(again, "VACUUM ANALYZE")...)
}

// guarded are the tables whose rows not even their owner sees, and which COPY does not fill
// therefore.
var guarded = []string{"workspaces", "slugs", "members", "links"}

// prepareTables lets the owner write, and drops what would be looked up or written at every row. It
// returns the statements that make it all anew. Foreign keys hold for new rows only then, which
// cost as much as with others.
func (b *bench) prepareTables(ctx context.Context, conn *pgx.Conn) (again []string, err error) {
	first := []string{"SET maintenance_work_mem = '1GB'", "SET synchronous_commit = off"}
	for _, table := range guarded {
		first = append(first, "ALTER TABLE "+table+" NO FORCE ROW LEVEL SECURITY")
		again = append(again, "ALTER TABLE "+table+" FORCE ROW LEVEL SECURITY")
	}
	rows, err := conn.Query(ctx, `SELECT format('ALTER TABLE links DROP CONSTRAINT %I', conname),
			format('ALTER TABLE links ADD CONSTRAINT %I %s %s', conname, pg_get_constraintdef(oid), CASE contype WHEN 'f' THEN 'NOT VALID' END)
		FROM pg_constraint WHERE conrelid = 'links'::regclass AND contype IN ('u', 'f')
		UNION ALL
		SELECT format('DROP INDEX %I', indexname), indexdef FROM pg_indexes
		WHERE tablename = 'links' AND indexname NOT IN (SELECT conname FROM pg_constraint)`)
	if err != nil {
		return nil, err
	}
	var drop, restore string
	_, err = pgx.ForEachRow(rows, []any{&drop, &restore}, func() error {
		first, again = append(first, drop), append(again, restore)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return again, execute(ctx, conn, first...)
}

func execute(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	return nil
}

// insertWorkspaces makes the workspaces, each with an owner of its own.
func (e *estate) insertWorkspaces(ctx context.Context, conn *pgx.Conn) error {
	id := func(prefix string) string {
		return fmt.Sprintf("'%s_00%04x' || lpad(to_hex(n), 20, '0')", prefix, e.Number)
	}
	words := strings.NewReplacer("{owner}", id("usr"), "{workspace}", id("ws"), "{made}",
		"'"+madeAt.Format(time.RFC3339)+"'::timestamptz",
		"{numbers}", fmt.Sprintf("generate_series(0, %d) AS n", e.Tenants-1))
	for _, statement := range []string{
		`INSERT INTO accounts (id, email, name, password_hash, created_at, updated_at)
			SELECT {owner}, 'owner-' || n || '@example.com', 'Owner', '', {made}, {made} FROM {numbers}`,
		`INSERT INTO workspaces (id, slug, name, created_at, updated_at) SELECT {workspace}, 'team-' || n, 'Team ' || n, {made}, {made} FROM {numbers}`,
		`INSERT INTO slugs (slug, workspace_id, created_at) SELECT 'team-' || n, {workspace}, {made} FROM {numbers}`,
		`INSERT INTO members (workspace_id, account_id, role, created_at) SELECT {workspace}, {owner}, 'OWNER', {made} FROM {numbers}`,
		`TRUNCATE changes`, // no node is there that has to hear of the slugs
	} {
		if err := execute(ctx, conn, words.Replace(statement)); err != nil {
			return err
		}
	}
	return nil
}

var linkColumns = []string{
	"id", "workspace_id", "code", "root_code", "strategy", "original_url", "canonical_url", "canonical_hash", "title",
	"title_key", "search",
	"redirect_status", "created_by", "created_at", "updated_at", "check_at",
}

// copyLinks copies all links. The table is new to the transaction, so that PostgreSQL need not log
// what goes into it.
func (e *estate) copyLinks(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "TRUNCATE links, link_tags"); err != nil {
			return err
		}
		next := 0
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"links"}, linkColumns, pgx.CopyFromFunc(func() ([]any, error) {
			if next == e.Links {
				return nil, nil
			}
			row := e.row(next)
			next++
			return row, nil
		}))
		return err
	})
}

// row is a link as Linkforge would have written it.
func (e *estate) row(link int) []any {
	home, code, to, title := e.home(link), rig.Code(link), urlOf(link), e.titleOf(link)
	hash, key := sha256.Sum256([]byte(to)), strings.ToLower(title)
	search := strings.Join([]string{key, "", to, strings.ToLower(code)}, "\n")
	return []any{
		e.linkID(link), e.workspaceID(home), code, code, "DETERMINISTIC", to, to, hash[:], title, key, search,
		int32(302), e.ownerID(home), madeAt, madeAt, madeAt,
	}
}

// disk is what the links take, in bytes a link: their table, and each of their indexes.
type disk struct {
	table   float64
	indexes map[string]float64
}

func (d disk) total() float64 {
	total := d.table
	for _, bytes := range d.indexes {
		total += bytes
	}
	return total
}

// measureDisk asks PostgreSQL, before anything was measured.
func (e *estate) measureDisk(ctx context.Context) (err error) {
	conn, err := pgx.Connect(ctx, e.databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var table int64
	if err := conn.QueryRow(ctx, "SELECT pg_table_size('links')").Scan(&table); err != nil {
		return err
	}
	e.disk = disk{table: float64(table) / float64(e.Links), indexes: map[string]float64{}}
	rows, err := conn.Query(ctx, "SELECT indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index WHERE "+
		"indrelid = 'links'::regclass")
	if err != nil {
		return err
	}
	var name string
	var size int64
	_, err = pgx.ForEachRow(rows, []any{&name, &size}, func() error {
		e.disk.indexes[name] = float64(size) / float64(e.Links)
		return nil
	})
	return err
}
