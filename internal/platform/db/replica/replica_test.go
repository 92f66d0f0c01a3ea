package replica_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/db/replica"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// TestReplica_ServesReads by callers that state the required age of data, as long as it is recent
// enough.
func TestReplica_ServesReads(t *testing.T) {
	t.Parallel()
	pair := dbtest.NewPair(t)
	d := must.Value(db.Server{URL: pair.URL, ReadURL: pair.ReadURL, Pool: 4}.Open())(t)
	defer d.Close()
	must.NoError(t, d.Replica.Check(t.Context(), d))
	owner := db.AsOwner(t.Context())
	for _, statement := range []string{
		"CREATE ROLE linkforge_tenant", "GRANT linkforge_tenant TO CURRENT_USER", "CREATE TABLE notes (text TEXT)",
		"GRANT SELECT, INSERT ON notes TO linkforge_tenant",
	} {
		must.Value(d.ExecContext(owner, statement))(t)
	}
	watching, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Replica.Follow(watching, d, slog.New(slog.DiscardHandler), time.Now) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	tenant := db.InWorkspace(t.Context(), "ws_1", "")
	write := func(text string) time.Time {
		t.Helper()
		must.Value(d.ExecContext(tenant, "INSERT INTO notes VALUES (?)", text))(t)
		return time.Now()
	}
	// read returns the texts, and whether they came from the standby.
	read := func(ctx context.Context) (texts string, standby bool) {
		t.Helper()
		must.NoError(t, d.NewSelect().Table("notes").
			ColumnExpr("COALESCE(string_agg(text, ' ' ORDER BY text), ''), pg_is_in_recovery()").
			Scan(ctx, &texts, &standby))
		return texts, standby
	}
	want := func(what string, ctx context.Context, texts string, standby bool) {
		t.Helper()
		if got, by := read(ctx); got != texts || by != standby {
			t.Errorf("%s: %q, by a standby: %t; want %q, %t", what, got, by, texts, standby)
		}
	}
	await := func(what string, yes func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !yes(); {
			if time.Now().After(deadline) || poll.Wait(t.Context(), 10*time.Millisecond) != nil {
				t.Fatalf("not so: %s", what)
			}
		}
	}

	one := write("one")
	await("the replica has the first note", func() bool { return d.Replica.Has(one) })
	want("who has written it", replica.MayLag(tenant, one), "one", true)
	want("who does not say how new it must be", tenant, "one", false)
	want("who wants all of it", db.UpToDate(replica.MayLag(tenant, one)), "one", false)
	want("who reads of no workspace", replica.MayLag(owner, one), "one", false)
	must.NoError(t, d.Tx(replica.MayLag(tenant, one), func(ctx context.Context, tx bun.Tx) error {
		var standby bool
		err := tx.NewSelect().ColumnExpr("pg_is_in_recovery()").Scan(ctx, &standby)
		if standby {
			t.Error("a transaction reads the replica")
		}
		return err
	}))

	pair.Hold(t)
	two := write("two")
	for range 5 {
		want("who has written since", replica.MayLag(tenant, two), "one two", false)
		want("who has not", replica.MayLag(tenant, one), "one", true)
		_ = poll.Wait(t.Context(), 100*time.Millisecond)
	}
	// a node that starts now knows nothing yet
	late := must.Value(db.Server{URL: pair.URL, ReadURL: pair.ReadURL, Pool: 2}.Open())(t)
	defer late.Close()
	looking, enough := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer enough()
	if err := late.Replica.Follow(looking, late, slog.New(slog.DiscardHandler), time.Now); err != nil ||
		late.Replica.Has(one) {
		t.Errorf("a stalled replica is reported to contain a later write: %v", err)
	}
	if lag := d.Replica.Lag(time.Now()); lag < 300*time.Millisecond || lag > time.Minute {
		t.Errorf("the replica that stays where it is is %s behind", lag)
	}
	waited := time.Now()
	released := make(chan error, 1)
	go func() { released <- d.Replica.Await(t.Context(), two) }()
	_ = poll.Wait(t.Context(), 200*time.Millisecond)
	pair.Release(t)
	if err := <-released; err != nil || time.Since(waited) > replica.MaxLag {
		t.Errorf("waiting for the replica took %s: %v", time.Since(waited), err)
	}
	want("who has written", replica.MayLag(tenant, two), "one two", true)

	pair.KillStandby()
	for range 20 { // more than there are connections
		want("with the replica away", replica.MayLag(tenant, two), "one two", false)
	}
	three := write("three")
	pair.RunStandby(t)
	await("the replica is back", func() bool { return d.Replica.Has(three) })
	want("with the replica back", replica.MayLag(tenant, three), "one three two", true)
}

// TestReplica_RefusesOtherServers is refused; one that does not answer may come later.
func TestReplica_RefusesOtherServers(t *testing.T) {
	t.Parallel()
	here, other := dbtest.PostgresURL(t), dbtest.PostgresURL(t)
	for name, c := range map[string]struct {
		url, says string
	}{
		"the database itself": {here, "no standby of the database"},
		"another database":    {other, "no standby of the database"},
		"no server":           {"postgres://nobody@127.0.0.1:1/nothing?sslmode=disable", ""},
	} {
		d, err := db.Server{URL: here, ReadURL: c.url, Pool: 2}.Open()
		must.NoError(t, err)
		err = d.Replica.Check(t.Context(), d)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		var standby bool
		if err := d.NewSelect().ColumnExpr("pg_is_in_recovery()").Scan(db.AsOwner(t.Context()),
			&standby); err != nil ||
			standby {
			t.Errorf("%s: the database is read no more: %v", name, err)
		}
		must.NoError(t, d.Close())
	}
}
