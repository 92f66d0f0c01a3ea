package click

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// bundle is a store, a recorder that runs, and a member of a workspace.
type bundle struct {
	*Store
	*Recorder
	member workspace.Membership
	stop   func() error
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{Store: &Store{DB: d, Now: func() time.Time { return noon }}, Recorder: NewRecorder(d, quiet())}
	b.stop = start(t, b.Recorder)
	a := account.Account{ID: id.New(id.Account), Email: "ada@example.com", Name: "Ada", CreatedAt: noon, UpdatedAt: noon}
	if _, err := d.NewInsert().Model(&a).Exec(db.AsSystem(t.Context())); err != nil {
		t.Fatal(err)
	}
	workspaces := workspace.Store{DB: d, Now: func() time.Time { return noon }}
	var err error
	if b.member, err = workspaces.Create(t.Context(), account.Actor{AccountID: a.ID}, "Ada", "ada"); err != nil {
		t.Fatal(err)
	}
	return b
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// start runs a recorder; the function it returns stops it and gives Run's error.
func start(t *testing.T, r *Recorder) func() error {
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	var running sync.WaitGroup
	running.Go(func() { err = r.Run(ctx) })
	stop := func() error {
		cancel()
		running.Wait()
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// record takes n clicks of a link at an instant, each of which took so many milliseconds.
func (b *bundle) record(t *testing.T, linkID string, at time.Time, latencies ...float64) {
	t.Helper()
	for _, ms := range latencies {
		if err := b.Record(Click{WorkspaceID: b.member.ID(), LinkID: linkID, ClickedAt: at, LatencyMs: ms}); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bundle) flush(t *testing.T) {
	t.Helper()
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// about compares floating-point sums whose parts were added in another order.
var about = cmpopts.EquateApprox(1e-9, 1e-9)

func TestWhatIsFlushedIsInTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, linkID := setup(t, d), id.New(id.Link)
		b.record(t, linkID, noon, 1, 2, 3)
		b.flush(t)
		totals, err := b.Totals(t.Context(), b.member, linkID, id.New(id.Link))
		if diff := cmp.Diff(map[string]Tally{linkID: {Clicks: 3, LatencyMean: 2, LatencyM2: 2}}, totals, about); diff != "" || err != nil {
			t.Errorf("totals (-want +got):\n%s%v", diff, err)
		}
		rows, err := d.NewSelect().Model((*Click)(nil)).Count(db.AsSystem(t.Context()))
		if err != nil || rows != 3 {
			t.Errorf("%d clicks, want 3: %v", rows, err)
		}
	})
}

func TestEveryClickIsCountedOnceWhenTheServerStops(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, links := setup(t, d), []string{id.New(id.Link), id.New(id.Link), id.New(id.Link)}
		taken := make([]int64, len(links))
		var mu sync.Mutex
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for i := range 500 {
					n := (worker + i) % len(links)
					if err := b.Record(Click{WorkspaceID: b.member.ID(), LinkID: links[n], ClickedAt: noon}); err != nil {
						continue // refused while stopping: then the redirect is not answered
					}
					mu.Lock()
					taken[n]++
					mu.Unlock()
				}
			})
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		totals, err := b.Totals(t.Context(), b.member, links...)
		if err != nil {
			t.Fatal(err)
		}
		for i, linkID := range links {
			if totals[linkID].Clicks != taken[i] {
				t.Errorf("link %d: %d clicks counted, %d taken", i, totals[linkID].Clicks, taken[i])
			}
		}
		if err := b.Record(Click{LinkID: links[0]}); !errs.Is(err, errs.Unavailable) {
			t.Errorf("recording after the end: %v", err)
		}
	})
}

func TestABatchThatComesTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, linkID, log := setup(t, d), id.New(id.Link), id.New(id.Log)
		batch := []Click{
			{ID: id.New(id.Click), WorkspaceID: b.member.ID(), LinkID: linkID, ClickedAt: noon, LatencyMs: 1},
			{ID: id.New(id.Click), WorkspaceID: b.member.ID(), LinkID: linkID, ClickedAt: noon, LatencyMs: 3},
		}
		for range 3 {
			if err := ingest(t.Context(), d, log, 2, batch); err != nil {
				t.Fatal(err)
			}
		}
		totals, err := b.Totals(t.Context(), b.member, linkID)
		if err != nil || totals[linkID].Clicks != 2 {
			t.Errorf("%d clicks, want 2: %v", totals[linkID].Clicks, err)
		}
	})
}

func TestABatchThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, linkID, log := setup(t, d), id.New(id.Link), id.New(id.Log)
		twice := Click{ID: id.New(id.Click), WorkspaceID: b.member.ID(), LinkID: linkID, ClickedAt: noon}
		if err := ingest(t.Context(), d, log, 2, []Click{twice, twice}); err == nil {
			t.Fatal("a batch with the same click twice went in")
		}
		if err := ingest(t.Context(), d, log, 1, []Click{twice}); err != nil {
			t.Errorf("the log's position moved with the failed batch: %v", err)
		}
		totals, err := b.Totals(t.Context(), b.member, linkID)
		if err != nil || totals[linkID].Clicks != 1 {
			t.Errorf("%d clicks, want 1: %v", totals[linkID].Clicks, err)
		}
	})
}

func TestClicksWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, linkID := setup(t, d), id.New(id.Link)
		rename(t, d, "click_totals", "elsewhere")
		b.record(t, linkID, noon, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := b.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flushed without a database: %v", err)
		}
		rename(t, d, "elsewhere", "click_totals")
		b.flush(t)
		totals, err := b.Totals(t.Context(), b.member, linkID)
		if err != nil || totals[linkID].Clicks != 2 {
			t.Errorf("%d clicks, want 2: %v", totals[linkID].Clicks, err)
		}
	})
}

func rename(t *testing.T, d *db.DB, from, to string) {
	t.Helper()
	if _, err := d.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE "+from+" RENAME TO "+to); err != nil {
		t.Fatal(err)
	}
}

func TestNoMoreThanFitsIsTaken(t *testing.T) {
	t.Parallel()
	r := NewRecorder(nil, quiet()) // does not run
	for range maxWaiting {
		if err := r.Record(Click{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Record(Click{}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("one click too many: %v", err)
	}
}

// TestTwoNodesMergeIntoTheSameRows lets several recorders write the same links at once: the sums stay exact, and
// nobody deadlocks.
func TestTwoNodesMergeIntoTheSameRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		var links []string
		for range 20 {
			links = append(links, id.New(id.Link))
		}
		var want Tally
		var mu sync.Mutex
		var all sync.WaitGroup
		for node := range 4 {
			all.Go(func() {
				random, log := rand.New(rand.NewPCG(1, uint64(node))), id.New(id.Log)
				for position := int64(0); position < 500; position += 100 {
					var batch []Click
					for range 100 {
						c := Click{ID: id.New(id.Click), WorkspaceID: b.member.ID(), LinkID: links[random.IntN(len(links))],
							ClickedAt: noon.Add(time.Duration(random.IntN(100)) * time.Minute), LatencyMs: random.ExpFloat64()}
						batch = append(batch, c)
						mu.Lock()
						want.Add(c.LatencyMs)
						mu.Unlock()
					}
					if err := ingest(t.Context(), d, log, position+100, batch); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		totals, err := b.Totals(t.Context(), b.member, links...)
		if err != nil {
			t.Fatal(err)
		}
		var fromTotals, fromBuckets Tally
		for _, linkID := range links {
			fromTotals.Merge(totals[linkID])
			stats, err := b.Link(t.Context(), b.member, linkID, &Range{From: noon.Add(-time.Hour), To: noon.Add(3 * time.Hour)}, "")
			if err != nil {
				t.Fatal(err)
			}
			fromBuckets.Merge(stats.Tally)
		}
		if diff := cmp.Diff([]Tally{want, want}, []Tally{fromTotals, fromBuckets}, cmpopts.EquateApprox(1e-9, 1e-6)); diff != "" {
			t.Errorf("totals, buckets (-want +got):\n%s", diff)
		}
		platform, err := b.Platform(t.Context())
		if err != nil || platform.Clicks != want.Clicks || math.Abs(platform.LatencyMean-want.LatencyMean) > 1e-9 {
			t.Errorf("platform %+v, want %+v: %v", platform, want, err)
		}
	})
}

func TestPlatformWithoutClicks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		platform, err := b.Platform(t.Context())
		if err != nil || platform.Mean() != nil {
			t.Errorf("%+v: %v", platform, err)
		}
	})
}

func TestTallyMatchesTheTextbook(t *testing.T) {
	t.Parallel()
	values := []float64{1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16} // variance 22.5: naive sums of squares lose it
	var one, left, right Tally
	for i, v := range values {
		one.Add(v)
		if i < 1 {
			left.Add(v)
		} else {
			right.Add(v)
		}
	}
	left.Merge(right)
	left.Merge(Tally{})
	want := Tally{Clicks: 4, LatencyMean: 1e9 + 10, LatencyM2: 90}
	if diff := cmp.Diff([]Tally{want, want}, []Tally{one, left}, about); diff != "" {
		t.Errorf("one by one, merged (-want +got):\n%s", diff)
	}
}

func TestCountsSinceTheMonthBegan(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, linkID, other := setup(t, d), id.New(id.Link), id.New(id.Link)
		month := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		b.record(t, linkID, month.Add(-time.Nanosecond), 1)
		b.record(t, linkID, month, 1, 1)
		b.record(t, other, noon, 1)
		b.flush(t)
		counts, err := b.CountsSince(t.Context(), b.member, []string{linkID, other, id.New(id.Link)}, month)
		if diff := cmp.Diff(map[string]int64{linkID: 2, other: 1}, counts); diff != "" || err != nil {
			t.Errorf("counts (-want +got):\n%s%v", diff, err)
		}
	})
}

func TestSeriesHaveNoGapsAndAddUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, linkID := setup(t, d), id.New(id.Link)
		from, to := noon.AddDate(0, 0, -30), noon.AddDate(0, 0, 1)
		random := rand.New(rand.NewPCG(7, 7))
		for range 300 {
			b.record(t, linkID, from.Add(time.Duration(random.Int64N(int64(to.Sub(from))))), 1)
		}
		b.record(t, linkID, from.Add(-time.Nanosecond), 1) // outside
		b.record(t, linkID, to, 1)                         // outside
		b.flush(t)
		for _, zone := range []string{"", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns", "Africa/Cairo"} {
			stats, err := b.Link(t.Context(), b.member, linkID, &Range{From: from, To: to}, zone)
			if err != nil {
				t.Fatal(err)
			}
			for _, interval := range []Interval{Hour, Day, Week, Month} {
				points, err := stats.Series(interval)
				if err != nil {
					t.Fatal(err)
				}
				var sum int64
				for i, p := range points {
					sum += p.Clicks
					if i > 0 && !points[i-1].Start.Before(p.Start) {
						t.Fatalf("%s %s: %s does not follow %s", zone, interval, p.Start, points[i-1].Start)
					}
				}
				if sum != 300 || stats.Clicks != 300 || points[0].Start.After(from) {
					t.Errorf("%s %s: %d in the series, %d in all, from %s", zone, interval, sum, stats.Clicks, points[0].Start)
				}
			}
		}
	})
}

func TestDaysOfTheZone(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	for _, c := range []struct {
		zone     string
		interval Interval
		long     time.Duration
		from     string
		want     []string // starts, in the zone's own time
	}{
		{"Europe/Berlin", Day, month, "2026-03-28T12:00:00Z", []string{"28 00:00", "29 00:00", "30 00:00"}},  // 29: 23 hours
		{"Europe/Berlin", Hour, month, "2026-10-25T00:00:00Z", []string{"25 02:00", "25 02:00", "25 03:00"}}, // comes twice
		{"Africa/Cairo", Day, month, "2026-04-23T12:00:00Z", []string{"23 00:00", "24 01:00", "25 00:00"}},   // no midnight
		{"Asia/Kathmandu", Day, month, "2026-11-20T12:00:00Z", []string{"20 00:00", "21 00:00", "22 00:00"}},
		{"Pacific/Apia", Day, month, "2011-12-29T20:00:00Z", []string{"29 00:00", "31 00:00", "01 00:00"}}, // no 30
		{"Asia/Manila", Day, month, "1844-12-30T00:00:00Z", []string{"29 00:00", "30 00:00", "01 00:00"}},  // no 31
		{"UTC", Week, month, "2026-11-22T12:00:00Z", []string{"16 00:00", "23 00:00", "30 00:00"}},         // a Sunday's week
		{"UTC", Month, 4 * month, "2026-11-20T12:00:00Z", []string{"01 00:00", "01 00:00", "01 00:00"}},
	} {
		location, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, err := time.Parse(time.RFC3339, c.from)
		if err != nil {
			t.Fatal(err)
		}
		s := Stats{Range: Range{From: from, To: from.Add(c.long)}, zone: location}
		var got []string
		points, err := s.Series(c.interval)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range points[:3] {
			got = append(got, p.Start.In(location).Format("02 15:04"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s from %s: %v, want %v", c.zone, c.interval, c.from, got, c.want)
		}
	}
}

func TestHoursOfALongRange(t *testing.T) {
	t.Parallel()
	s := Stats{Range: Range{From: noon, To: noon.AddDate(0, 0, 32)}, zone: time.UTC}
	if _, err := s.Series(Hour); !errs.Is(err, errs.InvalidInput) {
		t.Errorf("32 days in hours: %v", err)
	}
}

func TestBadRanges(t *testing.T) {
	t.Parallel()
	s := Store{Now: func() time.Time { return noon }}
	for name, c := range map[string]struct {
		r    *Range
		zone string
	}{
		"backwards":   {&Range{From: noon, To: noon}, ""},
		"too long":    {&Range{From: noon, To: noon.AddDate(2, 0, 0)}, ""},
		"too early":   {&Range{From: time.Date(1844, 12, 29, 0, 0, 0, 0, time.UTC), To: time.Date(1845, 1, 5, 0, 0, 0, 0, time.UTC)}, ""},
		"no zone":     {nil, "Mars/Olympus"},
		"the server":  {nil, "Local"},
		"out of tree": {nil, "../../etc/passwd"},
	} {
		if _, err := s.empty(c.r, c.zone); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
