package db_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// kind is a text of its own type.
type kind string

// size is a part of a row.
type size struct{ Width, Height float64 }

// sample is a row with a value of each type that rows have.
type sample struct {
	bun.BaseModel `bun:"table:samples"`

	ID     string `bun:",pk"`
	Kind   kind
	Text   *string
	Bytes  []byte
	Hash   []byte
	Number int
	Limit  *int64
	Open   bool
	MadeAt time.Time
	EndsAt *time.Time
	size
	Ignored string
}

// setupSamples creates a table that numbers its rows in the order of insertion.
func setupSamples(t *testing.T, d *db.DB) {
	t.Helper()
	serial, timestamp, blob := "INTEGER PRIMARY KEY", "TIMESTAMP", "BLOB"
	if d.Kind == db.Postgres {
		serial, timestamp, blob = "BIGSERIAL PRIMARY KEY", "TIMESTAMPTZ", "BYTEA"
	}
	must.Value(d.ExecContext(db.AsOwner(t.Context()), fmt.Sprintf(`CREATE TABLE samples (serial %s,
		id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, text TEXT,
		bytes %s, hash %[2]s, number INTEGER NOT NULL, "limit" BIGINT, open BOOLEAN NOT NULL, made_at %[3]s NOT NULL,
			ends_at %[3]s,
		width DOUBLE PRECISION NOT NULL, height DOUBLE PRECISION NOT NULL, ignored TEXT NOT NULL DEFAULT 'by default')`,
		serial, blob, timestamp)))(t)
}

var insertSamples = db.Insert{
	Into: "samples AS s", Without: []string{"ignored"},
	Rest: "ON CONFLICT (id) DO UPDATE SET number = s.number + excluded.number RETURNING id, number",
}

func inTx(t *testing.T, d *db.DB, f func(ctx context.Context, tx bun.Tx) error) error {
	t.Helper()
	return d.Tx(db.AsOwner(t.Context()), f)
}

// TestInsert_WritesRows in their order and with their values, next to existing ones.
func TestInsert_WritesRows(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setupSamples(t, d)
		text, limit, at := `it's {"a", \N}, NULL; ? $1`, int64(1)<<62, time.Date(2026, 3, 29, 1, 30, 0, 123456000,
			time.UTC)
		rows := []*sample{
			{ID: "b", Kind: "FULL", Text: &text, Bytes: []byte{0, 1, 255}, Number: 7, Limit: &limit, Open: true,
				MadeAt: at,
				EndsAt: &at, size: size{0.1, 1e300}},
			{ID: "a", Kind: "", MadeAt: at, Bytes: []byte{}},
		}
		const rounds = 8 // where it may choose, PostgreSQL plans the first five for their values
		for round := 1; round <= rounds; round++ {
			var got []sample
			err := inTx(t, d, func(ctx context.Context, tx bun.Tx) error {
				return db.InsertReturning(ctx, tx, insertSamples, rows, &got)
			})
			if err != nil || len(got) != 2 || got[0].ID != "b" || got[0].Number != round*7 || got[1].ID != "a" {
				t.Fatalf("got %+v, %v", got, err)
			}
		}
		var kept []*sample
		must.NoError(t, d.NewSelect().Model(&kept).Order("serial").Scan(db.AsOwner(t.Context())))
		rows[0].Number = 7 * rounds
		for _, row := range rows {
			row.Ignored = "by default"
		}
		for _, row := range kept {
			row.MadeAt = row.MadeAt.UTC()
			if row.EndsAt != nil {
				*row.EndsAt = row.EndsAt.UTC()
			}
		}
		if diff := cmp.Diff(rows, kept, cmp.AllowUnexported(sample{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestInsert_AcceptsAnyNumber goes in, none among them.
func TestInsert_AcceptsAnyNumber(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		for _, n := range []int{0, 2500} {
			rows := make([]thing, n)
			for i := range rows {
				rows[i].ID = fmt.Sprint(i)
			}
			must.NoError(t, inTx(t, d, func(ctx context.Context, tx bun.Tx) error {
				return db.InsertRows(ctx, tx, db.Insert{}, rows)
			}))
			if got := len(things(t, d)); got != n+1 {
				t.Errorf("%d rows, want %d and the one that was there", got, n)
			}
		}
	})
}

// TestInsert_ReportsARefusedRow fails the whole statement, which can be used again.
func TestInsert_ReportsARefusedRow(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setupSamples(t, d)
		write := func(ids ...string) error {
			var rows []sample
			for _, id := range ids {
				rows = append(rows, sample{ID: id, MadeAt: time.Now()})
			}
			return inTx(t, d, func(ctx context.Context, tx bun.Tx) error {
				return db.InsertRows(ctx, tx, db.Insert{Without: []string{"ignored"}}, rows)
			})
		}
		must.NoError(t, write("there"))
		if err := write("new", "there"); !db.IsUniqueViolation(err) || !db.IsRefused(err) {
			t.Errorf("a row that is there: %v", err)
		}
		if d.Kind == db.Postgres {
			if err := write("new", "no\x00text"); !db.IsRefused(err) || strings.Contains(err.Error(), "prepared") {
				t.Errorf("a text that the database cannot keep: %v", err)
			}
		}
		must.NoError(t, write("new"))
		if n, err := d.NewSelect().Table("samples").Count(db.AsOwner(t.Context())); n != 2 || err != nil {
			t.Errorf("%d rows, %v, want two", n, err)
		}
	})
}

// TestInsert_CachedPlanKeepsTheScope: a statement that a connection has prepared for one workspace
// inserts nothing into another.
func TestInsert_CachedPlanKeepsTheScope(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	d.SetMaxOpenConns(1)
	for _, statement := range []string{
		"CREATE TABLE notes (workspace_id TEXT NOT NULL)",
		"ALTER TABLE notes ENABLE ROW LEVEL SECURITY", "ALTER TABLE notes FORCE ROW LEVEL SECURITY",
		"CREATE POLICY own ON notes TO linkforge_tenant USING (workspace_id = current_setting('linkforge.workspace'))",
		"CREATE POLICY every ON notes TO linkforge_system USING (TRUE)",
		"GRANT SELECT, INSERT ON notes TO linkforge_tenant, linkforge_system",
	} {
		must.Value(d.ExecContext(db.AsOwner(t.Context()), statement))(t)
	}
	type note struct{ WorkspaceID string }
	write := func(ctx context.Context, workspaceID string) error {
		return d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			return db.InsertRows(ctx, tx, db.Insert{}, []note{{workspaceID}})
		})
	}
	mine, yours, system := db.InWorkspace(t.Context(), "ws_mine", ""), db.InWorkspace(t.Context(), "ws_yours", ""),
		db.AsSystem(t.Context())
	workspaces := map[context.Context]string{mine: "ws_mine", yours: "ws_yours", system: "ws_mine"}
	for range 8 { // where it may choose, PostgreSQL plans the first five for their values
		for _, ctx := range []context.Context{mine, yours, system} {
			must.NoError(t, write(ctx, workspaces[ctx]))
		}
	}
	var kept int
	err := d.NewRaw("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'INSERT INTO%notes%'").
		Scan(system, &kept)
	if err != nil || kept != 1 {
		t.Errorf("%d statements are prepared, %v, want one", kept, err)
	}
	if err := write(mine, "ws_yours"); err == nil || !strings.Contains(err.Error(), "row-level security") {
		t.Errorf("a row of another workspace: %v", err)
	}
}
