package jobs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// patience is the timeout of each wait, long enough for a loaded machine.
const patience = 60 * time.Second

// started is a running Runner that uses the real clock, and the news of its database.
type started struct {
	runner   *Runner
	log      bytes.Buffer // read it only after stop
	shutDown context.CancelFunc
	running  sync.WaitGroup
	err      error
}

func start(t *testing.T, d *db.DB, jobs ...Job) *started {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &started{shutDown: cancel}
	s.runner = &Runner{DB: d, Log: slog.New(slog.NewTextHandler(&s.log, nil)), Now: time.Now, Jobs: jobs}
	news := feed.New(d, quiet(), time.Now)
	news.Subscribe(s.runner.Follow)
	s.running.Go(func() { _ = news.Run(ctx) })
	s.running.Go(func() { s.err = s.runner.Run(ctx) })
	t.Cleanup(func() { s.stop(t) })
	return s
}

// stop ends the runner's context and waits for Run.
func (s *started) stop(t *testing.T) {
	t.Helper()
	s.shutDown()
	s.running.Wait()
	if s.err != nil {
		t.Errorf("Run ended with %v", s.err)
	}
}

func wait(t *testing.T, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(patience):
		t.Fatalf("timed out after %s, waiting for %s", patience, what)
	}
}

// TestRun_ContinuesAfterFailures runs a job that fails, then panics, then succeeds, in parallel
// with a job that always succeeds.
func TestRun_ContinuesAfterFailures(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		third, others, runs := make(chan struct{}), make(chan struct{}, 1000), 0
		s := start(t, d,
			Job{Name: "shaky", Every: 300 * time.Millisecond, Run: func(context.Context) error {
				switch runs++; runs {
				case 1:
					return errors.New("no luck")
				case 2:
					panic("no luck at all")
				case 3:
					close(third)
				}
				return nil
			}},
			Job{Name: "sound", Every: 300 * time.Millisecond, Run: func(context.Context) error {
				others <- struct{}{}
				return nil
			}})
		wait(t, "the third run", third)
		for range 3 {
			wait(t, "the other job", others)
		}
		s.stop(t)
		for text, want := range map[string]int{
			`msg="job failed"`: 2, `name=shaky error="no luck"`: 1, `error="panic: no luck at all" stack=`: 1,
			"jobs_test.go":       1,
			`failed" name=sound`: 0,
		} {
			if got := strings.Count(s.log.String(), text); got != want {
				t.Errorf("the log contains %q %d times, want %d:\n%s", text, got, want, s.log.String())
			}
		}
		for i, failures := range []int64{2, 0} {
			got := s.runner.Stats()[i]
			if got.Failures != failures || !got.LastSuccess.After(s.runner.startedAt) ||
				got.Every != 300*time.Millisecond {
				t.Errorf("since %s: %+v, want %d failures", s.runner.startedAt, got, failures)
			}
		}
	})
}

func TestRun_DelaysFirstCheck(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		first, runs := make(chan struct{}), 0
		job := Job{Name: "tidy", Every: 3 * time.Second, Run: func(context.Context) error {
			if runs++; runs == 1 {
				close(first)
			}
			return nil
		}}
		began := time.Now()
		start(t, d, job)
		wait(t, "the first run", first)
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("first poll after %s, want at least 200ms", took)
		}
	})
}

// TestRun_HungJobRunsOnceOnANode: however long a run goes on after its timeout.
func TestRun_HungJobRunsOnceOnANode(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		begun, wake := make(chan struct{}, 10), make(chan struct{})
		s := start(t, d, Job{Name: "tidy", Every: 300 * time.Millisecond, Run: func(context.Context) error {
			begun <- struct{}{}
			<-wake
			return nil
		}})
		wait(t, "the job to begin", begun)
		time.Sleep(5 * lookPause / 2)
		if more := len(begun); more > 0 {
			t.Errorf("%d other runs began", more)
		}
		close(wake)
		wait(t, "the next run", begun)
		s.stop(t)
	})
}

// TestRun_StopsOnShutdown stops a runner while its job runs: Run waits for the job, and the lease
// is released.
func TestRun_StopsOnShutdown(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		begun, ended := make(chan struct{}), false
		s := start(t, d, Job{Name: "tidy", Every: 5 * time.Second, Run: func(ctx context.Context) error {
			close(begun)
			<-ctx.Done()
			ended = true
			return ctx.Err()
		}})
		wait(t, "the job to begin", begun)
		s.stop(t)
		if !ended {
			t.Error("Run did not wait for the job")
		}
		if got := s.runner.Stats()[0]; got.Failures != 0 || !got.LastSuccess.Equal(s.runner.startedAt) {
			t.Errorf("an interrupted run: %+v", got)
		}
		l := leaseOf(t, d, "tidy")
		if l.LeaseHolder != nil || !l.DueAt.Equal(db.Instant(l.BeganAt.Add(5*time.Second*2/3))) {
			t.Errorf("after the shutdown the lease is %+v", l)
		}
		if log := s.log.String(); strings.Count(log, "\n") != 1 ||
			!strings.Contains(log, `msg="job interrupted" name=tidy`) {
			t.Errorf("got log %s, want a single \"job interrupted\"", log)
		}
	})
}

func TestRun_StopsBeforeStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &Runner{DB: dbtest.SQLite(t), Log: quiet(), Now: time.Now, Jobs: []Job{quarterly(func(context.Context) error {
		t.Error("the job ran")
		return nil
	})}}
	for range 2 {
		must.NoError(t, r.Run(ctx))
	}
}

// TestLook_PrefersCancellation checks that a node that shuts down starts no job, even if one is due.
func TestLook_PrefersCancellation(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		for _, isStopping := range []bool{true, false} {
			r, _ := setup(d)
			var jobs sync.WaitGroup
			var runs atomic.Int64
			r.Jobs = []Job{quarterly(func(context.Context) error { runs.Add(1); return nil })}
			r.startedAt = noon.Add(-time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			if isStopping {
				cancel()
			}
			_ = r.look(ctx, &jobs)
			jobs.Wait()
			cancel()
			if ran := runs.Load() == 1; ran == isStopping || r.Stats()[0].Failures != 0 {
				t.Errorf("stopping %t: ran %t, %+v", isStopping, ran, r.Stats())
			}
		}
	})
}

// TestRun_LooksOnceForAllJobs has a node with many jobs that are not due: it reads their leases when
// it starts, and then only with news.
func TestRun_LooksOnceForAllJobs(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		r, c := setup(d)
		for n := range 20 {
			r.Jobs = append(r.Jobs, Job{Name: strconv.Itoa(n), Every: time.Hour, Run: noop})
			tryAt(t, d, 0, r.Jobs[n], true)
		}
		c.set(30 * time.Minute)
		r.startedAt = noon
		var jobs sync.WaitGroup
		queries := &countingHook{}
		d.AddQueryHook(queries)
		must.NoError(t, r.look(t.Context(), &jobs))
		jobs.Wait()
		if n := queries.n.Load(); n != 1 || r.hasNews.Load() {
			t.Errorf("%d queries, looks again %t", n, r.hasNews.Load())
		}
	})
}

// countingHook counts queries.
type countingHook struct{ n atomic.Int64 }

func (h *countingHook) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	h.n.Add(1)
	return ctx
}

func (h *countingHook) AfterQuery(context.Context, *bun.QueryEvent) {}
