package dbtest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// Analyze analyzes all tables and, on PostgreSQL, vacuums them. PostgreSQL would do both in the
// background at some time, and change plans during a test.
func Analyze(t testing.TB, d *db.DB) {
	t.Helper()
	statement := map[db.Kind]string{db.SQLite: "ANALYZE", db.Postgres: "VACUUM ANALYZE"}[d.Kind]
	if _, err := d.ExecContext(db.AsOwner(t.Context()), statement); err != nil {
		t.Fatal(err)
	}
}

// Plans returns the query plans of the statements that do executes.
func Plans(t testing.TB, d *db.DB, do func(watched *db.DB)) (plans []string) {
	t.Helper()
	var w watch
	do(&db.DB{DB: d.WithQueryHook(&w), Kind: d.Kind})
	for _, s := range w {
		plans = append(plans, plan(t, d, s))
	}
	return plans
}

// watch records statements.
type watch []statement

// statement is a statement with its scope.
type statement struct {
	ctx   context.Context
	query string
}

// BeforeQuery implements bun.QueryHook.
func (w *watch) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	*w = append(*w, statement{context.WithoutCancel(ctx), event.Query})
	return ctx
}

// AfterQuery implements bun.QueryHook.
func (w *watch) AfterQuery(context.Context, *bun.QueryEvent) {}

func plan(t testing.TB, d *db.DB, s statement) string {
	t.Helper()
	ctx, values := db.Unbound(s.ctx)
	conn, err := d.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if values > 0 { // it is planned once for all of them
		if _, err := conn.ExecContext(ctx, "PREPARE kept AS "+s.query); err != nil {
			t.Fatal(err)
		}
		defer conn.ExecContext(ctx, "DEALLOCATE kept")
		s.query = "EXECUTE kept (" + strings.Join(slices.Repeat([]string{"NULL"}, values), ", ") + ")"
	}
	explain := map[db.Kind]string{db.SQLite: "EXPLAIN QUERY PLAN ", db.Postgres: "EXPLAIN (COSTS OFF) "}[d.Kind]
	rows, err := conn.QueryContext(ctx, explain+s.query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		line, fields := "", make([]any, len(columns))
		for i := range fields {
			fields[i] = new(any)
		}
		fields[len(fields)-1] = &line // SQLite's plan is the last of four columns
		if err := rows.Scan(fields...); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
