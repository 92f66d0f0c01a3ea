package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

var noon = dbtest.Noon

func leaseOf(t *testing.T, d *db.DB, name string) State {
	t.Helper()
	s := State{Name: name}
	must.NoError(t, d.NewSelect().Model(&s).WherePK().Scan(db.AsSystem(t.Context())))
	return s
}

// wantReleased checks that the lease is free, and the job due at the given time after noon.
func (s State) wantReleased(t *testing.T, due time.Duration) {
	t.Helper()
	got := []any{s.LeaseHolder == nil, s.LeaseUntil == nil, s.DueAt.Sub(noon)}
	wanttest.Equal(t, []any{true, true, due}, got, "no holder, no end, due")
}

// wantHeld checks that the lease has a holder, and its end and the next try after noon.
func (s State) wantHeld(t *testing.T, until, due time.Duration) {
	t.Helper()
	if s.LeaseHolder == nil {
		t.Fatalf("the lease %+v has no holder", s)
	}
	wanttest.Equal(t, []any{until, due}, []any{s.LeaseUntil.Sub(noon), s.DueAt.Sub(noon)}, "until, due")
}

// clock is a manual clock of a Runner: it changes only by set.
type clock struct{ now time.Time }

func (c *clock) set(afterNoon time.Duration) { c.now = noon.Add(afterNoon) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// setup returns a runner and its clock, which is set to noon.
func setup(d *db.DB) (*Runner, *clock) {
	c := &clock{now: noon}
	return &Runner{DB: d, Log: quiet(), Now: func() time.Time { return c.now }}, c
}

// quarterly returns a job that is due every 15 minutes.
func quarterly(run func(ctx context.Context) error) Job {
	return Job{Name: "tidy", Every: 15 * time.Minute, Run: run}
}

func noop(context.Context) error { return nil }

// Try runs the job once if it is due and its lease is free, and reports whether it ran.
func (r *Runner) Try(ctx context.Context, job Job) (ran bool, err error) {
	s, err := r.stateOf(ctx, job)
	if err != nil || !s.isDue(job, r.Now()) {
		return false, err
	}
	return r.attempt(ctx, job, s, false)
}

// tryAt calls Try at a time after noon, and checks whether the job ran.
func tryAt(t *testing.T, d *db.DB, afterNoon time.Duration, job Job, want bool) {
	t.Helper()
	r, c := setup(d)
	c.set(afterNoon)
	if ran, err := r.Try(t.Context(), job); ran != want || err != nil {
		t.Errorf("%s after noon: ran %t, want %t: %v", afterNoon, ran, want, err)
	}
}

func TestJob_IsDueEveryFifteenMinutes(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		runs := 0
		job := quarterly(func(context.Context) error { runs++; return nil })
		for _, at := range []struct {
			minute time.Duration
			due    bool
		}{{0, true}, {1, false}, {10, false}, {14, false}, {15, true}, {16, false}, {29, false}, {30, true}, {100,
			true},
			{114, false}} {
			tryAt(t, d, at.minute*time.Minute, job, at.due)
		}
		tryAt(t, d, 115*time.Minute-time.Millisecond, job, false)
		tryAt(t, d, 115*time.Minute, job, true)
		if runs != 5 {
			t.Errorf("%d runs, want 5", runs)
		}
	})
}

func TestLease_IsPerJob(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		tryAt(t, d, 0, quarterly(noop), true)
		tryAt(t, d, 0, Job{Name: "other", Every: time.Hour, Run: noop}, true)
		leaseOf(t, d, "tidy").wantReleased(t, 15*time.Minute)
		leaseOf(t, d, "other").wantReleased(t, time.Hour)
	})
}

// TestLease_IsTakenOnce has many goroutines of two runners call Try concurrently: for a new lease,
// for a lease that is due, and for a lease whose holder has died.
func TestLease_IsTakenOnce(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		const callers = 25
		var runs, ran atomic.Int64
		job := quarterly(func(context.Context) error { runs.Add(1); return nil })
		for round, afterNoon := range []time.Duration{0, 15 * time.Minute, 45 * time.Minute} {
			if round == 2 {
				abandon(t, d, job, 30*time.Minute)
			}
			var ready, all sync.WaitGroup
			ready.Add(2 * callers)
			for range 2 {
				r, c := setup(d)
				c.set(afterNoon)
				for range callers {
					all.Go(func() {
						ready.Done()
						ready.Wait()
						took, err := r.Try(t.Context(), job)
						if err != nil {
							t.Error(err)
						}
						if took {
							ran.Add(1)
						}
					})
				}
			}
			all.Wait()
			if want := int64(round + 1); runs.Load() != want || ran.Load() != want {
				t.Errorf("round %d: %d runs, %d reported by Try, want %d", round, runs.Load(), ran.Load(), want)
			}
		}
	})
}

// abandon acquires the lease and does not release it, like a node that dies.
func abandon(t *testing.T, d *db.DB, job Job, afterNoon time.Duration) {
	t.Helper()
	r, c := setup(d)
	c.set(afterNoon)
	s := must.Value(r.stateOf(t.Context(), job))(t)
	if took, err := r.newHold(job).acquire(db.AsSystem(t.Context()), s); !took || err != nil {
		t.Fatalf("acquired the lease: got %t, want true: %v", took, err)
	}
}

// TestLease_OfAClockThatWasAheadIsNotBelieved has a node run the job, or die in it, whose clock is
// ahead: the others run it on time, and the log says why.
func TestLease_OfAClockThatWasAheadIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ahead    time.Duration
		dies     bool
		ran, now bool // by Try and by RunNow at noon
	}{
		"a day":                  {24 * time.Hour, false, true, true},
		"a day, and it died":     {24 * time.Hour, true, true, true},
		"a year":                 {365 * 24 * time.Hour, true, true, true},
		"three minutes":          {3 * time.Minute, true, true, true},
		"no more than clocks do": {db.MaxSkew, true, false, false},
		"nothing":                {0, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				for _, atOnce := range []bool{false, true} {
					job := quarterly(noop)
					job.Name += fmt.Sprint(atOnce)
					if c.dies {
						abandon(t, d, job, c.ahead)
					} else {
						tryAt(t, d, c.ahead, job, true)
					}
					r, _ := setup(d)
					var log strings.Builder
					r.Log = slog.New(slog.NewTextHandler(&log, nil))
					try := r.Try
					if atOnce {
						try = r.RunNow
					}
					ran, err := try(t.Context(), job)
					want := c.ran && !atOnce || c.now && atOnce
					if ran != want || err != nil {
						t.Errorf("at once %t: ran %t, want %t: %v", atOnce, ran, want, err)
					}
					isDoubted := c.ran && want && (c.dies || !atOnce)
					if logged := strings.Contains(log.String(), "clock"); logged != isDoubted {
						t.Errorf("at once %t: logged %q", atOnce, &log)
					}
				}
			})
		})
	}
}

// TestEndLeases_LetsJobsOfADeadNodeRun again, and leaves those that have ended.
func TestEndLeases_LetsJobsOfADeadNodeRun(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		ended := Job{Name: "ended", Every: 15 * time.Minute, Run: noop}
		tryAt(t, d, 0, ended, true)
		abandon(t, d, quarterly(noop), 0)
		must.NoError(t, EndLeases(t.Context(), d, noon.Add(time.Second)))
		tryAt(t, d, time.Second, quarterly(noop), true)
		tryAt(t, d, time.Second, ended, false)
	})
}

// TestLease_OfTheSameNodeIsDoubtedAtOnce: its own clock was ahead, and it has looked at that time.
func TestLease_OfTheSameNodeIsDoubtedAtOnce(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		r, c := setup(d)
		for _, at := range []struct {
			afterNoon time.Duration
			ran       bool
		}{{24 * time.Hour, true}, {24*time.Hour + time.Second, false}, {0, true}, {time.Second, false}} {
			c.set(at.afterNoon)
			if ran, err := r.Try(t.Context(), quarterly(noop)); ran != at.ran || err != nil {
				t.Errorf("%s after noon: ran %t: %v", at.afterNoon, ran, err)
			}
		}
	})
}

// TestLease_LateHolderReleasesNothing runs a job longer than its lease, which another runner holds
// by then.
func TestLease_LateHolderReleasesNothing(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		r, c := setup(d)
		ran, err := r.Try(t.Context(), quarterly(func(context.Context) error {
			c.set(14 * time.Minute)
			abandon(t, d, quarterly(noop), 14*time.Minute)
			return nil
		}))
		if !ran || err != nil {
			t.Errorf("ran %t: %v", ran, err)
		}
		leaseOf(t, d, "tidy").wantHeld(t, 14*time.Minute+lease.Life, 28*time.Minute) // by the second holder
	})
}

func TestLease_IsReleasedAfterALongRun(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		r, c := setup(d)
		must.Value(r.Try(t.Context(), quarterly(func(context.Context) error {
			leaseOf(t, d, "tidy").wantHeld(t, lease.Life, 14*time.Minute)
			c.set(12 * time.Minute)
			return nil
		})))(t)
		leaseOf(t, d, "tidy").wantReleased(t, 15*time.Minute)
	})
}

func TestLease_IsReleasedAfterAFailure(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		broken := errors.New("broken")
		for name, run := range map[string]func(context.Context) error{
			"fails":            func(context.Context) error { return broken },
			"panics":           func(context.Context) error { panic(broken) },
			"panics with text": func(context.Context) error { panic("broken") },
		} {
			r, _ := setup(d)
			job := Job{Name: name, Every: 15 * time.Minute, Run: run}
			ran, err := r.Try(t.Context(), job)
			if p, ok := errors.AsType[*errs.PanicError](err); !ran || err == nil || ok != (name != "fails") ||
				ok && len(p.Stack) == 0 {
				t.Errorf("%s: ran %t: %v", name, ran, err)
			}
			leaseOf(t, d, name).wantReleased(t, 15*time.Minute)
			job.Run = noop
			tryAt(t, d, 14*time.Minute, job, false)
			tryAt(t, d, 15*time.Minute, job, true)
		}
	})
}

// TestJob_ContinuesElsewhereAfterInterruption cancels the context of the node, not that of the
// lease.
func TestJob_ContinuesElsewhereAfterInterruption(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		r, c := setup(d)
		ctx, shutDown := context.WithCancel(t.Context())
		ran, err := r.Try(ctx, quarterly(func(ctx context.Context) error {
			c.set(2 * time.Minute)
			shutDown()
			<-ctx.Done()
			return ctx.Err()
		}))
		if !ran || !errors.Is(err, context.Canceled) {
			t.Errorf("ran %t: %v", ran, err)
		}
		leaseOf(t, d, "tidy").wantReleased(t, 10*time.Minute)
		tryAt(t, d, 10*time.Minute-time.Millisecond, quarterly(noop), false)
		tryAt(t, d, 10*time.Minute, quarterly(noop), true)
	})
}

func TestJob_CompletedAtShutdownIsNotRepeated(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		r, _ := setup(d)
		ctx, shutDown := context.WithCancel(t.Context())
		must.Value(r.Try(ctx, quarterly(func(context.Context) error { shutDown(); return nil })))(t)
		leaseOf(t, d, "tidy").wantReleased(t, 15*time.Minute)
	})
}

func TestJob_ContextEndsWithTheLease(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		r, _ := setup(d)
		began := time.Now()
		ran, err := r.Try(t.Context(), quarterly(func(ctx context.Context) error {
			ends, ok := ctx.Deadline()
			if lasts := ends.Sub(began); !ok || lasts < 14*time.Minute || ends.After(time.Now().Add(14*time.Minute)) {
				t.Errorf("the job's context ends after %s, want 14m0s", lasts)
			}
			return nil
		}))
		if !ran || err != nil {
			t.Errorf("ran %t: %v", ran, err)
		}
		brief := Job{
			Name:  "brief",
			Every: 450 * time.Millisecond,
			Run:   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}
		ran, err = r.Try(t.Context(), brief)
		if !ran || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a job that exceeds its lease: ran %t: %v", ran, err)
		}
		leaseOf(t, d, "brief").wantReleased(t, 450*time.Millisecond)
	})
}

func TestLease_FailureIsAnError(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		must.Value(d.ExecContext(db.AsOwner(t.Context()), "DROP TABLE leases"))(t)
		r, _ := setup(d)
		ran, err := r.Try(t.Context(), quarterly(func(context.Context) error {
			t.Error("the job ran")
			return nil
		}))
		if ran || err == nil {
			t.Errorf("ran %t: %v", ran, err)
		}
	})
}
