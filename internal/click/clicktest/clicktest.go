// Package clicktest gives tests a recorder of clicks.
package clicktest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
)

// Clicks are both halves of their room, as the server wires them.
type Clicks struct {
	*click.Recorder
	*click.Store
}

// New makes a recorder that does not run, with a log of its own.
func New(t testing.TB, d *db.DB, now func() time.Time) Clicks {
	t.Helper()
	recorder, err := click.NewRecorder(click.RecorderConfig{DB: d, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = recorder.Close() })
	return Clicks{recorder, &click.Store{DB: d, Now: now}}
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
