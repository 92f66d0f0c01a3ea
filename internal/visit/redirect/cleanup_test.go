package redirect

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/upkeep"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/jobs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// The environment variables that make TestCleaner_Process a node that dies during its clean-up, and
// the line that reports its start.
const (
	cleanerKind = "LINKFORGE_TEST_CLEANER_KIND"
	cleanerURL  = "LINKFORGE_TEST_CLEANER_URL"
	cleanerNow  = "LINKFORGE_TEST_CLEANER_NOW"
	cleaning    = "cleaning"
)

// cleaner is a node's clean-up, as the server wires it.
func cleaner(d *db.DB, now func() time.Time, run func(context.Context) error) (*jobs.Runner, jobs.Job) {
	return &jobs.Runner{DB: d, Log: slog.New(slog.DiscardHandler), Now: now},
		jobs.Job{Name: "clean-up", Every: 15 * time.Minute, Run: run}
}

// TestCleaner_Process is the process that TestCleanUp_RunsOnTwoNodes kills; by itself it does
// nothing.
func TestCleaner_Process(t *testing.T) {
	t.Parallel()
	kind := db.Kind(os.Getenv(cleanerKind))
	if kind == "" {
		return
	}
	now, err := time.Parse(time.RFC3339Nano, os.Getenv(cleanerNow))
	must.NoError(t, err)
	runner, job := cleaner(dbtest.Open(t, kind, os.Getenv(cleanerURL)), func() time.Time { return now },
		func(ctx context.Context) error {
			fmt.Println(cleaning)
			<-ctx.Done()
			return nil
		})
	_, err = runner.Try(t.Context(), job)
	t.Errorf("the node was not killed: %v", err)
}

// TestCleanUp_RunsOnTwoNodes has one node die while it holds the lease, and two others look each
// minute at once. Time is the test's: ended links answer 410 until they are purged, 404 after, and
// nothing else is touched.
func TestCleanUp_RunsOnTwoNodes(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, kind db.Kind, where string) {
		d := dbtest.Open(t, kind, where)
		b := setup(t, d)
		ends := b.now.Add(time.Hour)
		expired := b.link(t, creation.Input{URL: "https://example.com/expired", ExpiresAt: &ends})
		counted := b.link(t,
			creation.Input{URL: "https://example.com/counted", ExpiresAt: &ends, Strategy: new(link.Counter)})
		years := b.now.AddDate(2, 0, 0)
		later := b.link(t, creation.Input{URL: "https://example.com/later", ExpiresAt: &years})
		forever := b.link(t, creation.Input{URL: "https://example.com/forever"})
		answers := func(of int, links ...*link.Link) {
			t.Helper()
			for _, l := range links {
				b.expect(t, l.OriginalURL, http.MethodGet, l.Code, of, of == 302)
			}
		}

		b.turnTo(ends.Add(linktest.Tombstones)) // the first clean-up may purge as well as mark
		dies := b.now
		dbtest.Kill(t, "TestCleaner_Process", cleaning,
			cleanerKind+"="+string(kind), cleanerURL+"="+where, cleanerNow+"="+dies.Format(time.RFC3339Nano))
		answers(410, expired, counted)
		for minute := time.Minute; minute < 14*time.Minute; minute += time.Minute {
			b.turnTo(dies.Add(minute))
			if n := b.lookTwice(t, d); n != 0 {
				t.Fatalf("%d nodes cleaned up %s after the holder's death", n, minute)
			}
		}
		answers(410, expired, counted)
		answers(302, later, forever)
		b.turnTo(dies.Add(15 * time.Minute))
		if n := b.lookTwice(t, d); n != 1 {
			t.Fatalf("%d nodes cleaned up, want one to take over", n)
		}
		answers(404, expired, counted)
		answers(302, later, forever)
	})
}

// lookTwice has two nodes look at the clean-up's lease at once, and returns how many of them
// cleaned up.
func (b *bundle) lookTwice(t *testing.T, d *db.DB) int64 {
	t.Helper()
	var cleaned atomic.Int64
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			runner, job := cleaner(d, b.Now, func(ctx context.Context) error {
				cleaned.Add(1)
				return (&upkeep.Store{Store: b.links.Store}).CleanUp(ctx)
			})
			if _, err := runner.Try(t.Context(), job); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	return cleaned.Load()
}
