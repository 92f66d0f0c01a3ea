package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
)

// TestServing_FindsNodesThatRunJobs: a node serves that begins a run during the look; earlier runs do
// not count, also not those of a clock that was ahead.
func TestServing_FindsNodesThatRunJobs(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		r, c := setup(d)
		r.Node = "box/7"
		pauses := 0
		idle := func(context.Context, time.Duration) error { pauses++; return nil }
		busy := func(ctx context.Context, _ time.Duration) error { return errstest.Of(r.RunNow(ctx, quarterly(noop))) }
		want := func(when, node string, pause func(context.Context, time.Duration) error) {
			t.Helper()
			if got, err := Serving(t.Context(), d, pause); err != nil || got != node {
				t.Errorf("%s: %q, %v; want %q", when, got, err, node)
			}
		}
		want("no run at all", "", idle)
		want("the first run", "box/7", busy)
		c.set(24 * time.Hour)
		want("a run of a clock that is ahead", "box/7", busy)
		c.set(time.Minute)
		want("after the last run", "", idle)
		want("the next run", "box/7", busy)
		if pauses != 2*servingLooks {
			t.Errorf("%d pauses", pauses)
		}
	})
}
