package consistency_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/consistency"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/db/replica"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// isOnReplica reports whether reads of the context go to the replica.
func isOnReplica(t *testing.T, d *db.DB, ctx context.Context) (standby bool) {
	t.Helper()
	must.NoError(t, d.NewSelect().ColumnExpr("pg_is_in_recovery()").Scan(ctx, &standby))
	return standby
}

// TestWriters_ReadTheirOwnWrites holds the replica back: a user that has written reads the primary
// on every node, and other users read the replica.
func TestWriters_ReadTheirOwnWrites(t *testing.T) {
	t.Parallel()
	pair := dbtest.NewPair(t)
	const redisURL = "" // in the process: two nodes share its client
	shared := dbtest.Redis(t, redisURL)
	gone := dbtest.Redis(t, redisURL)
	must.NoError(t, gone.Close())
	d := must.Value(db.Server{URL: pair.URL, ReadURL: pair.ReadURL, Pool: 4}.Open())(t)
	defer d.Close()
	must.Value(d.ExecContext(db.AsOwner(t.Context()), "CREATE ROLE linkforge_tenant"))(t)
	must.Value(d.ExecContext(db.AsOwner(t.Context()), "GRANT linkforge_tenant TO CURRENT_USER"))(t)
	watching, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Replica.Follow(watching, d, slog.New(slog.DiscardHandler), time.Now) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	here := &consistency.Writers{DB: d, KV: shared, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	there := &consistency.Writers{DB: d, KV: shared, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	cutOff := &consistency.Writers{DB: d, KV: gone, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	reads := func(w *consistency.Writers, who string) bool {
		return isOnReplica(t, d, w.Reading(db.InWorkspace(t.Context(), "ws_1", ""), who))
	}
	polltest.Until(t, "the replica is read", func() bool { return reads(there, "usr_reader") })
	pair.Hold(t)
	must.Value(d.ExecContext(db.AsOwner(t.Context()), "CREATE TABLE written ()"))(t)
	here.Wrote(t.Context(), "usr_writer")
	for range 8 { // while time passes for the keys in the process
		if reads(there, "usr_writer") {
			t.Error("a user that has written reads a replica without the write")
		}
		if !reads(there, "usr_reader") {
			t.Error("a user that has not written does not read the replica")
		}
		_ = poll.Wait(t.Context(), 150*time.Millisecond)
	}
	if reads(cutOff, "usr_reader") {
		t.Error("the replica is read although Redis is unavailable")
	}
	waited := time.Now()
	cutOff.Wrote(t.Context(), "usr_unknown") // waits until the replica lags too far to be read
	if took := time.Since(waited); took < replica.MaxLag-time.Second || took > 2*replica.MaxLag {
		t.Errorf("waited for %s", took)
	}
	if reads(there, "usr_unknown") {
		t.Error("a replica that lags too far behind is read")
	}
	pair.Release(t)
	polltest.Until(t, "the user reads the replica, which has the write",
		func() bool { return reads(there, "usr_writer") })
	cutOff.Wrote(t.Context(), "usr_unknown")
	if !reads(there, "usr_unknown") {
		t.Error("the replica has the write, and is not read")
	}
}
