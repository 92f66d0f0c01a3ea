// Package clicktest gives tests a recorder of clicks.
package clicktest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// Clicks are both halves of their room, as the server wires them.
type Clicks struct {
	*ingest.Recorder
	*clicksql.Store
}

// Stats answers questions about the clicks.
func (c Clicks) Stats() *stats.Store {
	return &stats.Store{DB: c.Store.DB, Clicks: c.Store, Ledger: &clickstore.Ledger{DB: c.Store.DB}, Now: c.Store.Now}
}

// New returns a recorder that does not run, with a log of its own and without leases.
func New(t testing.TB, d *db.DB, now func() time.Time) Clicks {
	t.Helper()
	return WithLeases(d, OpenLog(t, now), nil)
}

// OpenLog returns a click log that is closed at the test's end.
func OpenLog(t testing.TB, now func() time.Time) *ingest.Log {
	t.Helper()
	log, err := ingest.OpenLog(ingest.LogConfig{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// WithLeases returns a recorder of a log that does not run.
func WithLeases(d *db.DB, log *ingest.Log, leases ingest.Leases) Clicks {
	return Clicks{ingest.NewRecorder(RecorderOf(d, log, leases)), &clicksql.Store{DB: d, Now: log.Now}}
}

// RecorderOf returns the configuration of a recorder that writes a log to a database.
func RecorderOf(d *db.DB, log *ingest.Log, leases ingest.Leases) ingest.RecorderConfig {
	return ingest.RecorderConfig{
		Clicks: &clicksql.Store{DB: d, Now: log.Now}, Ledger: &clickstore.Ledger{DB: d}, Log: log, Leases: leases,
	}
}

// Run runs the parts until the test's end, or until the function that it returns is called.
func Run(t testing.TB, parts ...interface {
	Run(ctx context.Context) error
}) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(func() {
			if err := part.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}
