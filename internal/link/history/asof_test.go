package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestStore_AsOfReturnsIntervals: versions end where their successors begin, also before these are
// written.
func TestStore_AsOfReturnsIntervals(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := creationtest.New(t, d)
		l := b.Make(t, creation.Input{URL: "https://example.com/1", Strategy: new(link.Random)})
		starts := []time.Time{b.Now, b.Now.Add(time.Hour), b.Now.Add(2 * time.Hour), b.Now.Add(3 * time.Hour)}
		for i, at := range starts[1:] {
			b.Plan(t, l, at.Sub(b.Now), link.Change{URL: to(fmt.Sprint("https://example.com/", i+2))})
		}
		b.Now = b.Now.Add(4 * time.Hour)
		for _, isWritten := range []bool{false, true} {
			for i, at := range starts {
				v := must.Value(b.History.AsOf(t.Context(), b.Reload(t, l), at.Add(time.Minute)))(t)
				var end *time.Time
				if i+1 < len(starts) {
					end = &starts[i+1]
				}
				if v.Number != i+1 || !v.From.Equal(at) || !link.SameInstant(v.To, end) {
					t.Errorf("written: %t: version %d from %s to %v, want %d from %s to %v", isWritten, v.Number,
						v.From, v.To,
						i+1, at, end)
				}
			}
			b.ApplyDue(t)
		}
	})
}

// TestStore_AsOfIgnoresDueChangesWithoutEffect: they write no version.
func TestStore_AsOfIgnoresDueChangesWithoutEffect(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := creationtest.New(t, d)
		l := b.Make(t, creation.Input{URL: "https://example.com/1", Strategy: new(link.Random), Tags: []string{"a"}})
		same := link.Change{URL: to("https://example.com/1"), Tags: to([]string{"a"})}
		b.Plan(t, l, time.Hour, same)
		b.Plan(t, l, 2*time.Hour, link.Change{Title: to(new("changed"))})
		b.Plan(t, l, 3*time.Hour, same)
		b.Now = b.Now.Add(4 * time.Hour)
		begins := b.Now.Add(-2 * time.Hour)
		for _, isWritten := range []bool{false, true} {
			for hour, want := range []int{1, 1, 2, 2, 2} {
				v := must.Value(b.History.AsOf(t.Context(), b.Reload(t, l), noon.Add(time.Duration(hour)*time.Hour)))(t)
				isRight := v.Number == want
				if want == 1 {
					isRight = isRight && link.SameInstant(v.To, &begins)
				} else {
					isRight = isRight && v.From.Equal(begins) && v.To == nil
				}
				if !isRight {
					t.Errorf("written: %t, after %d hours: version %d from %s to %v", isWritten, hour, v.Number, v.From,
						v.To)
				}
			}
			b.ApplyDue(t)
		}
	})
}
