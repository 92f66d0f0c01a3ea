package db

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db/pgscope"
)

// sqliteTime is bun's format of time in SQLite.
const sqliteTime = "2006-01-02 15:04:05.999999-07:00"

// Load inserts n rows within Tx: on PostgreSQL by COPY, which bypasses row-level security and so
// accepts only tables without it, and on SQLite by one prepared statement. row returns the values
// in the order of the columns and may reuse the slice.
func (d *DB) Load(ctx context.Context, tx bun.Tx, table string, columns []string, n int, row func(i int) []any) error {
	load := d.copyRows
	if d.Kind == SQLite {
		load = insertRows
	}
	if err := load(ctx, tx, table, columns, n, row); err != nil {
		return fmt.Errorf("loading into %s: %w", table, err)
	}
	return nil
}

func (d *DB) copyRows(
	ctx context.Context, _ bun.Tx, table string, columns []string, n int, row func(i int) []any,
) error {
	conn := ctx.Value(inTx{}).(*sql.Conn) // the one that the transaction has
	rows := pgx.CopyFromSlice(n, func(i int) ([]any, error) { return row(i), nil })
	return onConn(conn, func(c *pgscope.Conn) error { return c.CopyFrom(ctx, table, columns, rows) })
}

func insertRows(ctx context.Context, tx bun.Tx, table string, columns []string, n int, row func(i int) []any) error {
	places := strings.TrimSuffix(strings.Repeat("?,", len(columns)), ",")
	insert, err := tx.Tx.PrepareContext(ctx, "INSERT INTO "+table+" ("+strings.Join(columns, ",")+") VALUES ("+places+
		")")
	if err != nil {
		return err
	}
	defer insert.Close()
	for i := range n {
		values := row(i)
		for j, v := range values {
			if t, ok := v.(time.Time); ok {
				values[j] = t.UTC().Format(sqliteTime)
			}
		}
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return err
		}
	}
	return nil
}
