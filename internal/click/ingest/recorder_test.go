package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/click/wal"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

// smallLog is a recorder's log with room for some hundred clicks.
const smallLog = 32 << 10

// newSmallRecorder makes a recorder that does not run, whose log is soon full and whose words are
// in said.
func newSmallRecorder(t *testing.T, d *db.DB) (r *ingest.Recorder, said *bytes.Buffer) {
	t.Helper()
	return newSmallLeaseRecorder(t, d, nil)
}

// newSmallLeaseRecorder is newSmallRecorder with an owner of the leases.
func newSmallLeaseRecorder(t *testing.T, d *db.DB, leases ingest.Leases) (r *ingest.Recorder, said *bytes.Buffer) {
	t.Helper()
	said = &bytes.Buffer{}
	l := must.Value(ingest.OpenLog(ingest.LogConfig{
		Dir: t.TempDir(), MaxBytes: smallLog, Logger: slog.New(slog.NewTextHandler(said, nil)), Now: clicktest.AtNoon,
	}))(t)
	t.Cleanup(func() { _ = l.Close() })
	return ingest.NewRecorder(clicktest.RecorderOf(d, l, leases)), said
}

// recordOf records n clicks of a link.
func recordOf(r *ingest.Recorder, linkID string, n int) {
	c := clicktest.ClickOf(linkID)
	for range n {
		r.Record(&c)
	}
}

// flush waits for a running recorder; ingest writes the clicks of one that does not run.
func flush(t *testing.T, r *ingest.Recorder) {
	t.Helper()
	must.NoError(t, r.Flush(t.Context()))
}

func ingestAll(t *testing.T, r *ingest.Recorder) {
	t.Helper()
	for r.IngestNext(t.Context(), ingest.MaxBatch) {
	}
	if r.Position() != r.End() {
		t.Fatalf("the log is ingested up to %d, want %d", r.Position(), r.End())
	}
}

func TestRecorder_CountsEveryClickAtShutdown(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := clicktest.NewRecorder(t, d, t.TempDir())
		stop := clicktest.Start(t, r)
		links := []string{id.New(id.Link), id.New(id.Link), id.New(id.Link)}
		taken := make([]atomic.Int64, len(links))
		const workers, each = 8, 500
		var all sync.WaitGroup
		for worker := range workers {
			all.Go(func() {
				for i := range each {
					n := (worker + i) % len(links)
					if c := clicktest.ClickOf(links[n]); r.Record(&c) > 0 { // else it came too late
						taken[n].Add(1)
					}
				}
			})
		}
		must.NoError(t, stop())
		all.Wait()
		for i, linkID := range links {
			if got, want := clicktest.ClicksOf(t, d, linkID), taken[i].Load(); got != want {
				t.Errorf("link %d: %d clicks counted, want the %d that were taken", i, got, want)
			}
		}
		if s := r.Stats(); s.Recorded+s.Lost != workers*each || s.Ingested != s.Recorded || s.Lag != 0 {
			t.Errorf("%+v, want %d recorded or lost, and all that were recorded ingested", s, workers*each)
		}
	})
}

func TestRecorder_WaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r, linkID := clicktest.NewRecorder(t, d, t.TempDir()), id.New(id.Link)
		clicktest.Start(t, r)
		clicktest.Rename(t, d, "click_totals", "elsewhere")
		recordOf(r, linkID, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flushed without a database: %v", err)
		}
		clicktest.Rename(t, d, "elsewhere", "click_totals")
		flush(t, r)
		wantClicks(t, d, linkID, 2)
	})
}

// TestRecorder_CountsClicksLostWhenFull: the visitor is redirected all the same, and the first
// loss is logged. After ingest the log has space again.
func TestRecorder_CountsClicksLostWhenFull(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r, said := newSmallRecorder(t, d)
		linkID := id.New(id.Link)
		for round := range 3 {
			recordOf(r, linkID, 1000)
			s := r.Stats()
			if s.Lost == 0 || s.Recorded+s.Lost != int64(1000*(round+1)) || s.LogBytes > smallLog {
				t.Errorf("round %d: %+v, want recorded and lost clicks, %d in all", round, s, 1000*(round+1))
			}
			if got := strings.Count(said.String(), "clicks are lost"); got != round+1 {
				t.Errorf("round %d: the loss was logged %d times, want once each", round, got)
			}
			if got := strings.Count(said.String(), "recorded again"); got != round {
				t.Errorf("round %d: its end was logged %d times, want once each", round, got)
			}
			for err := error(nil); err == nil; { // leases are shorter
				if err = r.Note(hitquota.Lease{LinkID: linkID, Number: 1, Hits: 1}); err != nil &&
					!errors.Is(err, wal.ErrFull) {
					t.Fatal(err)
				}
			}
			ingestAll(t, r)
			if got := clicktest.ClicksOf(t, d, linkID); got != s.Recorded || r.Stats().LogBytes > smallLog/2 {
				t.Errorf("round %d: %d clicks and %d bytes of log, want %d clicks and room", round, got,
					r.Stats().LogBytes,
					s.Recorded)
			}
		}
	})
}

// TestRecorder_ReportsLag: the lag counts clicks, not other records.
func TestRecorder_ReportsLag(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	now := clicktest.Noon
	r := clicktest.NewRecorder(t, d, t.TempDir())
	r.Now = func() time.Time { return now }
	lag := func(when string, want time.Duration) {
		t.Helper()
		if got := r.Lag(); got != want {
			t.Errorf("%s: the lag is %s, want %s", when, got, want)
		}
	}
	note := func(n int64) {
		t.Helper()
		for range n {
			must.NoError(t, r.Note(hitquota.Lease{LinkID: id.New(id.Link), Number: n, Hits: 1}))
		}
	}
	lag("nothing was recorded", 0)
	note(ingest.MaxBatch)
	lag("only leases wait", 0)
	recordOf(r, id.New(id.Link), 1)
	now = now.Add(time.Minute)
	lag("a click waits", time.Minute)
	r.IngestNext(t.Context(), ingest.MaxBatch)
	lag("a click waits behind what was ingested", time.Minute)
	ingestAll(t, r)
	lag("all is ingested", 0)
	must.Value(r.Journal().Append([]byte("no record")))(t)
	now = clicktest.Noon
	recordOf(r, id.New(id.Link), ingest.MaxBatch+1)
	now = now.Add(time.Minute)
	r.IngestNext(t.Context(), ingest.MaxBatch)
	lag("more than a batch waited", time.Minute)
	ingestAll(t, r)
	lag("all is ingested but what is no record", 0)
}

// TestRecorder_PausesBriefly: the pause is bounded while redirects wait for processors, ends with
// the last of them, and does not follow a batch that kept nobody waiting, nor a full log. Batches
// are short meanwhile: one of ten thousand clicks can take seconds.
func TestRecorder_PausesBriefly(t *testing.T) {
	t.Parallel()
	const always = math.MaxInt
	for name, c := range map[string]struct {
		waiting    int
		clicks     int64
		took, want time.Duration
		crowded    int // the looks that find waiting redirects
		most       int
	}{
		"a batch": {0, ingest.MaxBatch, 500 * time.Millisecond, 4500 * time.Millisecond, always,
			ingest.MaxBatch / 2},
		"a batch of seconds": {0, ingest.MaxBatch, 2 * time.Second, ingest.LongestRest, always, 1250},
		"a quick batch": {0, ingest.MaxBatch, 100 * time.Millisecond, 900 * time.Millisecond, always,
			ingest.MaxBatch},
		"an outage":            {0, ingest.MaxBatch, time.Hour, ingest.LongestRest, always, ingest.MinBatch},
		"nothing":              {0, 0, 0, 0, always, ingest.MaxBatch},
		"no click":             {0, 0, 10 * time.Millisecond, 90 * time.Millisecond, always, ingest.MaxBatch},
		"a batch, a full log":  {1000, ingest.MaxBatch, 10 * time.Millisecond, 0, always, ingest.MaxBatch},
		"slow, a full log":     {1000, 100, 20 * time.Millisecond, 0, always, ingest.MaxBatch},
		"nobody waits":         {0, ingest.MaxBatch, time.Second, 0, 0, ingest.MaxBatch},
		"the last one is gone": {0, ingest.MaxBatch, time.Second, 3 * ingest.Lull, 3, ingest.MaxBatch},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := newSmallRecorder(t, nil)
				r.SetCrowded(func() bool {
					c.crowded--
					return c.crowded >= 0
				})
				recordOf(r, id.New(id.Link), c.waiting)
				began := time.Now()
				most := r.Rest(t.Context(), c.clicks, c.took)
				if got := time.Since(began).Truncate(time.Millisecond); got != c.want || most != c.most {
					t.Errorf("after %s: rested for %s, then %d clicks; want %s, %d", name, got, most, c.want, c.most)
				}
			})
		})
	}
}

func TestFlush_EndsThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := newSmallRecorder(t, nil)
		r.SetCrowded(func() bool { return true })
		recordOf(r, id.New(id.Link), 1)
		ctx, cancel := context.WithCancel(t.Context())
		var flushing sync.WaitGroup
		flushing.Go(func() { _ = r.Flush(ctx) })
		began := time.Now()
		most := r.Rest(ctx, 1, time.Hour)
		if got := time.Since(began); got != 0 || most != ingest.MaxBatch {
			t.Errorf("rested for %s while somebody waited, then %d clicks, want not at all, %d", got, most,
				ingest.MaxBatch)
		}
		cancel()
		flushing.Wait()
	})
}

// TestPin_KeepsRecords: what lies behind the oldest open lease may be read again, though it was
// ingested.
func TestPin_KeepsRecords(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	leases := &clicktest.Pinned{}
	r, _ := newSmallLeaseRecorder(t, d, leases)
	oldest := &leases.Oldest
	recordOf(r, id.New(id.Link), 200)
	oldest.Store(r.End())
	recordOf(r, id.New(id.Link), 200)
	ingestAll(t, r)
	if got, least := r.Stats().LogBytes, r.End()-oldest.Load(); got < least || got == r.End() {
		t.Errorf("the log keeps %d bytes, want the last %d and no whole segment before", got, least)
	}
	oldest.Store(r.End())
	recordOf(r, id.New(id.Link), 1)
	ingestAll(t, r)
	if got := r.Stats().LogBytes; got > smallLog/4 {
		t.Errorf("the log keeps %d bytes, want one segment", got)
	}
}

// logs are the names of what lies in the folder of the logs.
func logs(t *testing.T, dir string) []string {
	t.Helper()
	entries := must.Value(os.ReadDir(dir))(t)
	names := []string{}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestClose_KeepsTheLogWithoutDatabase: for the next process.
func TestClose_KeepsTheLogWithoutDatabase(t *testing.T) {
	t.Parallel()
	file, dir, linkID := filepath.Join(t.TempDir(), "test.db"), t.TempDir(), id.New(id.Link)
	dbtest.WriteMigratedSQLite(t, file)
	d := dbtest.Open(t, db.SQLite, file)
	r := clicktest.NewRecorder(t, d, dir)
	recordOf(r, linkID, 10)
	ingestAll(t, r)
	recordOf(r, linkID, 10)
	must.NoError(t, d.Close())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		must.NoError(t, r.Run(ctx))
		if got := time.Since(began); got < ingest.DrainDeadline || got > ingest.DrainDeadline+time.Second {
			t.Errorf("it took %s to give up, want %s", got, ingest.DrainDeadline)
		}
	})
	if diff := cmp.Diff([]string{r.LogID()}, logs(t, dir)); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	if c := clicktest.ClickOf(linkID); r.Record(&c) != 0 || r.Stats().Lost != 1 {
		t.Errorf("a click was recorded after the end: %+v", r.Stats())
	}
	d = dbtest.Open(t, db.SQLite, file)
	must.NoError(t, clicktest.NewRecorder(t, d, dir).Adopt(t.Context()))
	wantClicks(t, d, linkID, 20)
}

// TestRecorder_SurvivesALostCommitAnswer: the database has committed a batch, but the recorder
// received an error. Its next batch begins with the same clicks, and has more.
func TestRecorder_SurvivesALostCommitAnswer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r, linkID := clicktest.NewRecorder(t, d, t.TempDir()), id.New(id.Link)
		recordOf(r, linkID, 5)
		b := must.Value(r.Next(r.Journal(), 0, ingest.MaxBatch))(t)
		must.NoError(t, r.Write(t.Context(), b))
		recordOf(r, linkID, 3)
		ingestAll(t, r)
		wantClicks(t, d, linkID, 8)
	})
}

func TestRecorder_RepeatedBatchChangesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		linkID, log := id.New(id.Link), id.New(id.Log)
		for range 3 {
			must.NoError(t, clicktest.Write(t, d, log, 2, []click.Click{clicktest.ClickOf(linkID),
				clicktest.ClickOf(linkID)}))
		}
		wantClicks(t, d, linkID, 2)
	})
}

func TestRecorder_FailedBatchLeavesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		linkID, log := id.New(id.Link), id.New(id.Log)
		clicks := []click.Click{clicktest.ClickOf(linkID), clicktest.ClickOf(clicktest.RefuseOne(t, d))}
		clicks[0].Visitor = 7
		if err := clicktest.Write(t, d, log, 2, clicks); !db.IsRefused(err) {
			t.Fatalf("a batch with a click that the database refuses: %v", err)
		}
		if err := clicktest.Write(t, d, log, 1, clicks[:1]); err != nil {
			t.Errorf("the log's position moved with the failed batch: %v", err)
		}
		visits, err := d.NewSelect().Table("clicks").Where("link_id = ? AND visit", linkID).
			Count(db.AsSystem(t.Context()))
		if got := clicktest.ClicksOf(t, d, linkID); got != 1 || visits != 1 || err != nil {
			t.Errorf("%d clicks and %d visits, want 1 of each: %v", got, visits, err)
		}
	})
}

// afterWrite calls a function when the database has a batch, before the recorder knows it.
type afterWrite struct {
	clickstore.Store
	then func()
}

func (s afterWrite) Write(ctx context.Context, b clickstore.Batch) error {
	err := s.Store.Write(ctx, b)
	s.then()
	return err
}

// TestWaiting_CountsNoClickOfTheDatabase: the floor of a quota is the sum of both.
func TestWaiting_CountsNoClickOfTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		l := must.Value(ingest.OpenLog(ingest.LogConfig{
			Dir: t.TempDir(), MaxBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler), Now: clicktest.AtNoon,
		}))(t)
		defer l.Close()
		linkID, this := id.New(id.Link), click.MonthOf(clicktest.AtNoon())
		config := clicktest.RecorderOf(d, l, nil)
		want := func(when string, n int64) {
			stored, position, err := config.Ledger.Since(db.AsSystem(t.Context()), l.LogID(), []string{linkID}, this)
			must.NoError(t, err)
			waiting := must.Value(l.Waiting(position, this.Start()))(t)
			if got := stored[linkID].Clicks + waiting[linkID].Clicks; got != n {
				t.Errorf("%s, %d clicks are stored and %d wait, want %d", when, stored[linkID], waiting[linkID], n)
			}
		}
		written := false
		config.Clicks = afterWrite{config.Clicks, func() { written = true; want("after the first batch", 5) }}
		r := ingest.NewRecorder(config)
		recordOf(r, linkID, 5)
		want("before a batch", 5)
		r.IngestNext(t.Context(), 3)
		recordOf(r, linkID, 2)
		if want("with later clicks", 7); !written {
			t.Error("nothing was written")
		}
	})
}
