package edit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// modelState is the state of a link in the model.
type modelState struct {
	url, title string
	status     int
	deleted    bool
}

// modelChange is a change that sets the fields that are not zero.
type modelChange struct {
	id  string
	at  time.Time
	set modelState
}

func (s modelState) with(c modelState) modelState {
	if c.url != "" {
		s.url = c.url
	}
	if c.title != "" {
		s.title = c.title
	}
	if c.status != 0 {
		s.status = c.status
	}
	return s
}

// scheduleModel is a link with its pending changes, as the specification describes them.
type scheduleModel struct {
	*creationtest.World
	link    *link.Link
	state   modelState
	pending []modelChange
	// past has the state from an instant on.
	past []modelChange
}

// advance moves the clock, and lets changes take effect.
func (m *scheduleModel) advance(by time.Duration) {
	m.Now = m.Now.Add(by)
	for len(m.pending) > 0 && !m.pending[0].at.After(m.Now) {
		m.state = m.state.with(m.pending[0].set)
		m.remember(m.pending[0].at)
		m.pending = m.pending[1:]
	}
}

func (m *scheduleModel) remember(at time.Time) {
	m.past = append(m.past, modelChange{at: at, set: m.state})
}

func randomModelChange(random *rand.Rand) (c modelState) {
	for c == (modelState{}) {
		if random.IntN(2) == 0 {
			c.url = fmt.Sprint("https://example.com/", random.IntN(4))
		}
		if random.IntN(3) == 0 {
			c.title = fmt.Sprint("title ", random.IntN(3))
		}
		if random.IntN(4) == 0 {
			c.status = []int{301, 302, 307}[random.IntN(3)]
		}
	}
	return c
}

func (c modelState) change() (in linkfield.Change) {
	if c.url != "" {
		in.URL = to(c.url)
	}
	if c.title != "" {
		in.Title = to(&c.title)
	}
	if c.status != 0 {
		in.RedirectStatus = to(c.status)
	}
	return in
}

// step does something at random, in the model and in the store.
func (m *scheduleModel) step(t *testing.T, random *rand.Rand) {
	t.Helper()
	var err error
	switch set := randomModelChange(random); random.IntN(7) {
	case 0, 1:
		at := m.Now.Add(time.Duration(5+random.IntN(4)*30) * time.Second)
		var c *link.ScheduledChange
		if c, err = m.Schedule.Add(t.Context(), m.Mine, m.link.ID, at, set.change()); err == nil {
			m.pending = append(m.pending, modelChange{c.ID, at, set})
			slices.SortStableFunc(m.pending, func(a, b modelChange) int { return a.at.Compare(b.at) })
		} else if errs.Is(err, errs.QuotaExceeded) && len(m.pending) == maxPending {
			err = nil
		}
	case 2:
		in := set.change()
		in.ID = m.link.ID
		_, err = m.Edit.Update(t.Context(), m.Mine, in)
		m.state = m.state.with(set)
	case 3:
		if len(m.pending) == 0 {
			return
		}
		i := random.IntN(len(m.pending))
		_, err = m.Schedule.Cancel(t.Context(), m.Mine, m.pending[i].id)
		m.pending = slices.Delete(m.pending, i, i+1)
	case 4:
		err = m.Schedule.ApplyDue(t.Context())
	case 5:
		if m.state.deleted = !m.state.deleted; m.state.deleted {
			_, err = m.Edit.Delete(t.Context(), m.Mine, m.link.ID)
		} else {
			_, err = m.Edit.Restore(t.Context(), m.Mine, m.link.ID)
		}
	case 6:
		m.advance(time.Duration(random.IntN(60)) * time.Second)
	}
	must.NoError(t, err)
	m.remember(m.Now)
}

// TestSchedule_AgreesWithModel schedules, cancels, edits, deletes and waits at random: reads,
// redirects and the history agree with the model at every instant.
func TestSchedule_AgreesWithModel(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for seed := range suitetest.Size[uint64](1, 3) {
			random := rand.New(rand.NewPCG(28, seed))
			l := b.Make(t,
				creation.Input{URL: "https://example.com/0", Strategy: new(link.Random),
					Fields: linkfield.Change{RedirectStatus: optional.Set(302)}})
			m := &scheduleModel{World: b.World, link: l, state: modelState{url: "https://example.com/0", status: 302}}
			m.remember(m.Now)
			for range 80 {
				m.advance(time.Second)
				m.step(t, random)
				got := m.Reload(t, l)
				is := modelState{got.OriginalURL, optional.Value(got.Title), got.RedirectStatus, got.DeletedAt != nil}
				if is != m.state {
					t.Fatalf("seed %d: %+v, want %+v", seed, is, m.state)
				}
				want := m.state.url
				if m.state.deleted {
					want = ""
				}
				must.NoError(t, m.Feed.CatchUp(t.Context()))
				if got := m.Location(t, l); got != want {
					t.Fatalf("seed %d: redirects to %q, want %q", seed, got, want)
				}
			}
			m.checkPast(t, seed)
		}
	})
}

// checkPast compares the versions of all instants, before and after due changes are written.
func (m *scheduleModel) checkPast(t *testing.T, seed uint64) {
	t.Helper()
	for range 2 {
		for i, then := range m.past {
			if i+1 < len(m.past) && m.past[i+1].at.Sub(then.at) < time.Millisecond {
				continue // several changes at one instant begin a microsecond after each other
			}
			v, err := m.History.AsOf(t.Context(), m.Reload(t, m.link), then.at.Add(100*time.Microsecond))
			if i+1 == len(m.past) {
				v, err = m.History.AsOf(t.Context(), m.Reload(t, m.link), m.Now)
			}
			must.NoError(t, err)
			is := modelState{v.OriginalURL, optional.Value(v.Title), v.RedirectStatus, v.Deleted}
			if is != then.set {
				t.Errorf("seed %d: at %s: %+v, want %+v", seed, then.at.Sub(noon), is, then.set)
			}
		}
		m.ApplyDue(t)
	}
	if got := m.Differences(t); len(got) > 0 {
		t.Errorf("seed %d: %v", seed, got)
	}
}
