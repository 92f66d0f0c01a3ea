package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// stateOf returns the state of the job as the operator sees it.
func stateOf(t *testing.T, r *Runner, job Job) State {
	t.Helper()
	r.Jobs = []Job{job}
	states, err := r.States(t.Context())
	if err != nil || len(states) != 1 || states[0].Name != job.Name {
		t.Fatalf("%+v: %v", states, err)
	}
	return states[0]
}

func TestState_RecordsOutcome(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		r, c := setup(d)
		r.Node = "box/7"
		job := quarterly(noop)
		if s := stateOf(t, r, job); s.Node != nil || s.BeganAt != nil || s.DueAt != nil || s.Running(noon) {
			t.Errorf("a job that never ran: %+v", s)
		}
		job.Run = func(context.Context) error {
			s := stateOf(t, r, job)
			if *s.Node != "box/7" || !s.BeganAt.Equal(noon) || s.EndedAt != nil || !s.Running(noon) ||
				s.Running(noon.Add(lease.Life)) {
				t.Errorf("while the job runs: %+v", s)
			}
			c.set(time.Minute)
			return errors.New("broken\nby a test\x00" + strings.Repeat("é", 2*maxErrorLength))
		}
		if _, err := r.Try(t.Context(), job); err == nil {
			t.Error("the job did not fail")
		}
		s := stateOf(t, r, job)
		if !s.EndedAt.Equal(noon.Add(time.Minute)) || s.Running(noon) ||
			!s.DueAt.Equal(noon.Add(15*time.Minute)) ||
			!strings.HasPrefix(*s.Error, "broken by a testé") ||
			len([]rune(*s.Error)) > maxErrorLength {
			t.Errorf("after a failed run: %+v", s)
		}
		job.Run = noop
		c.set(15 * time.Minute)
		must.Value(r.Try(t.Context(), job))(t)
		if s := stateOf(t, r, job); s.Error != nil || !s.BeganAt.Equal(noon.Add(15*time.Minute)) {
			t.Errorf("after a successful run: %+v", s)
		}
	})
}

// TestRunNow_RunsAJob runs a job that is not due, but not while another node runs it.
func TestRunNow_RunsAJob(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		r, c := setup(d)
		runs := 0
		job := quarterly(func(context.Context) error { runs++; return nil })
		for round := range 3 { // the first time there is no lease
			if ran, err := r.RunNow(t.Context(), job); !ran || err != nil || runs != round+1 {
				t.Errorf("round %d: ran %t, %d runs: %v", round, ran, runs, err)
			}
		}
		tryAt(t, d, time.Minute, job, false) // it is not due yet
		c.set(20 * time.Minute)
		job.Run = func(context.Context) error {
			other, _ := setup(d)
			other.Now = r.Now
			if ran, err := other.RunNow(t.Context(), job); ran || err != nil {
				t.Errorf("concurrently with itself: ran %t: %v", ran, err)
			}
			return nil
		}
		if ran, err := r.RunNow(t.Context(), job); !ran || err != nil {
			t.Errorf("ran %t: %v", ran, err)
		}
		abandon(t, d, job, 40*time.Minute)
		c.set(40*time.Minute + lease.Life - time.Millisecond)
		if ran, err := r.RunNow(t.Context(), quarterly(noop)); ran || err != nil {
			t.Errorf("while the node may be alive: ran %t: %v", ran, err)
		}
		c.set(40*time.Minute + lease.Life)
		if ran, err := r.RunNow(t.Context(), quarterly(noop)); !ran || err != nil {
			t.Errorf("after that: ran %t: %v", ran, err)
		}
	})
}
