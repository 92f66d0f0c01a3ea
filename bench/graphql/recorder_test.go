package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/dbtest"
)

// TestRecorderKeepsStatements speaks to a real PostgreSQL through the recorder, and has pgbench repeat what was said.
func TestRecorderKeepsStatements(t *testing.T) {
	t.Parallel()
	serverURL := dbtest.ServerURL(t, dbtest.DatabaseURL)
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal("the database URL cannot be read")
	}
	r, err := startRecorder(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	u.Host, u.RawQuery = r.listener.Addr().String(), "sslmode=disable"
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		t.Fatal("the database URL cannot be read")
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // as internal/db
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	ask := func(text string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	ask("SELECT 1;")
	const enter = "SELECT set_config('role', $1, false), set_config('linkforge.workspace', $2, false)"
	ask(enter, pgx.QueryExecModeCacheStatement, "none", "another")
	ask("SELECT $1::text, $2::text, '10:30:00'::time", "o'clock", nil)
	if err := conn.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask("SELECT $1::text AS kept", pgx.QueryExecModeCacheStatement, "a")
	ask(enter, pgx.QueryExecModeCacheStatement, "none", "it's") // by its name
	ask("SELECT $1::text AS kept", pgx.QueryExecModeCacheStatement, "b")
	ask("SELECT current_setting('linkforge.workspace')::text")
	const another = "SELECT set_config('role', 'none', false), set_config('linkforge.workspace', 'another', false)"
	const scope = "SELECT set_config('role', 'none', false), set_config('linkforge.workspace', 'it''s', false)"
	want := []statement{
		{text: "SELECT 1"},
		{scope: another, text: "SELECT 'o''clock'::text, NULL::text, '10:30:00'::time"},
		{scope: another, text: "SELECT 'a'::text AS kept"},
		{scope: scope, text: "SELECT 'b'::text AS kept"},
		{scope: scope, text: "SELECT current_setting('linkforge.workspace')::text"},
	}
	got, err := r.taken()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(statement{})); err != nil || diff != "" {
		t.Fatalf("error %v (-want +got):\n%s", err, diff)
	}
	if again, _ := r.taken(); len(again) > 0 {
		t.Errorf("%d statements were kept", len(again))
	}
	// What is answered before pgbench looks, as it may be on a busy machine, took no time by its clock.
	t.Run("pgbench", func(t *testing.T) { repeat(t, serverURL, script(got[1:])+"SELECT pg_sleep(0.001);\n") })
}

// repeat has pgbench run a script for a moment.
func repeat(t *testing.T, databaseURL, script string) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	b := &bench{pgbenchBinary: findPgbench(), folder: t.TempDir(), services: &rig.Services{DatabaseURL: databaseURL}}
	if b.pgbenchBinary == "" {
		t.Skip("pgbench is not installed")
	}
	b.burst, b.connections = 200*time.Millisecond, 2
	f, err := b.measureSQL(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	if f.rate <= 0 || f.p50 <= 0 || f.p99 < f.p50 {
		t.Errorf("the figures are %+v", f)
	}
	if _, err := b.measureSQL(t.Context(), "SELECT nothing FROM nowhere;\n"); err == nil {
		t.Error("a script that fails was measured")
	}
	if left, _ := os.ReadDir(b.folder); len(left) > 0 {
		t.Errorf("%d folders are left", len(left))
	}
}

func TestInlinedRefusesWhatIsNoText(t *testing.T) {
	t.Parallel()
	if text, err := inlined("SELECT $1", pgproto3.Bind{ParameterFormatCodes: []int16{1}, Parameters: [][]byte{{0, 0, 0, 1}}}); err == nil {
		t.Errorf("a parameter in binary was written as %q", text)
	}
	text, err := inlined("SELECT $10, $1", pgproto3.Bind{Parameters: [][]byte{[]byte("a"), nil, nil, nil, nil, nil, nil, nil, nil, []byte("j")}})
	if err != nil || text != "SELECT 'j', 'a'" {
		t.Errorf("got %q and error %v", text, err)
	}
}

func TestUsualLeavesOutWhatOthersSay(t *testing.T) {
	t.Parallel()
	own := func(number string) []statement {
		return []statement{{"s", "SELECT a WHERE id = " + number}, {"s", "SELECT b"}}
	}
	feed := statement{"r", "SELECT changes"}
	got := usual([][]statement{{feed}, {own("1")[0], feed, own("1")[1]}, own("22"), append(own("3"), feed), own("444")})
	if diff := cmp.Diff(own("444"), got, cmp.AllowUnexported(statement{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := usual(nil); got != nil {
		t.Errorf("of nothing, %v is usual", got)
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		statements []statement
		want       string
	}{
		{"no scope", []statement{{"", "A"}, {"", "B"}}, "A;\nB;\n"},
		{"one scope", []statement{{"S", "A"}, {"S", "B"}}, "\\if :fresh\nS;\n\\set fresh 0\n\\endif\nA;\nB;\n"},
		{"two scopes", []statement{{"S", "A"}, {"S", "B"}, {"T", "C"}}, "S;\nA;\nB;\nT;\nC;\n"},
	} {
		if diff := cmp.Diff(c.want, script(c.statements)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestReadLogs(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"log.1":   "0 1 9000 0 100 999999\n1 1 1000 0 101 0\n",
		"log.1.1": "2 1 3000 0 101 500000\n0 2 9000 0 102 0\n",
		"script":  "no log",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	times, err := readLogs(folder, time.Unix(101, 0), time.Unix(102, 0))
	if err != nil || times.Total != 2 || times.Max != 3*time.Millisecond {
		t.Errorf("%d transactions, the longest %s, error %v", times.Total, times.Max, err)
	}
	for _, bad := range []string{"0 1 1000\n", "0 1 failed 0 101 0\n"} {
		if err := readLog(strings.NewReader(bad), new(rig.Histogram), time.Time{}, time.Now()); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
