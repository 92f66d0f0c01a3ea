package click

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
	"github.com/linkforge/linkforge/internal/workspace/workspacetest"
)

var noon = dbtest.Noon

func atNoon() time.Time { return noon }

// bundle is a store, a recorder that runs, and a member of a workspace.
type bundle struct {
	*Store
	*Recorder
	member workspace.Membership
	stop   func() error
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{Store: &Store{DB: d, Now: atNoon}, Recorder: newRecorder(t, d, t.TempDir())}
	b.stop = start(t, b.Recorder)
	b.member = workspacetest.New(t, d, "ada")
	return b
}

// newRecorder makes a recorder that does not run, with a log of its own in the folder.
func newRecorder(t *testing.T, d *db.DB, dir string) *Recorder {
	t.Helper()
	return newLeaseRecorder(t, d, dir, nil)
}

// newLeaseRecorder is newRecorder with an owner of the leases.
func newLeaseRecorder(t *testing.T, d *db.DB, dir string, leases Leases) *Recorder {
	t.Helper()
	l, err := OpenLog(LogConfig{Dir: dir, Logger: slog.New(slog.DiscardHandler), Now: atNoon})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return NewRecorder(RecorderConfig{DB: d, Log: l, Leases: leases})
}

// recoverFunc is an owner of leases that retains nothing of this process's log.
type recoverFunc func(ctx context.Context, logID string, leases []hitquota.Lease) error

func (recoverFunc) Pin() int64 { return math.MaxInt64 }

func (f recoverFunc) Recover(ctx context.Context, logID string, leases []hitquota.Lease) error {
	return f(ctx, logID, leases)
}

// pinned retains a log from a position on.
type pinned struct {
	Leases
	oldest atomic.Int64
}

func (p *pinned) Pin() int64 { return p.oldest.Load() }

// start runs a recorder; the function it returns stops it and gives Run's error.
func start(t *testing.T, r *Recorder) func() error {
	t.Helper()
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

// record takes clicks of a link at an instant, each of which took so many milliseconds.
func (b *bundle) record(linkID string, at time.Time, latencies ...float64) {
	for _, ms := range latencies {
		b.Record(&Click{WorkspaceID: b.member.ID(), LinkID: linkID, ClickedAt: at, LatencyMs: ms})
	}
}

// statsOf prepares to read stats as the member.
func statsOf(t *testing.T, b *bundle, of Subject, r *Range, zone string, f Filter) *Stats {
	t.Helper()
	stats, err := b.Store.Stats(t.Context(), b.member, of, r, zone, f)
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func (b *bundle) flush(t *testing.T) {
	t.Helper()
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// clickOf is a click of a link of nobody's.
func clickOf(linkID string) Click {
	return Click{WorkspaceID: "ws_nobody", LinkID: linkID, ClickedAt: noon, LatencyMs: 1}
}

// write writes a batch as a process of its own would.
func write(t *testing.T, d *db.DB, logID string, position int64, batch []Click) error {
	t.Helper()
	w := writer{db: d, now: atNoon}
	return w.write(t.Context(), logID, position, batch)
}

// clicksOf is how many clicks of a link the database has.
func clicksOf(t *testing.T, d *db.DB, linkID string) int64 {
	t.Helper()
	counts, err := (&Store{}).Counts(db.AsSystem(t.Context()), d, linkID)
	if err != nil {
		t.Fatal(err)
	}
	return counts[linkID]
}

// refuseOne makes the database refuse clicks of a link, whose id it returns.
func refuseOne(t *testing.T, d *db.DB) string {
	t.Helper()
	linkID := id.New(id.Link)
	statement := map[db.Kind]string{
		db.Postgres: "ALTER TABLE clicks ADD CHECK (link_id <> '" + linkID + "')",
		db.SQLite:   "CREATE TRIGGER refused BEFORE INSERT ON clicks WHEN NEW.link_id = '" + linkID + "' BEGIN SELECT RAISE(ABORT, 'refused'); END",
	}[d.Kind]
	if _, err := d.ExecContext(db.AsOwner(t.Context()), statement); err != nil {
		t.Fatal(err)
	}
	return linkID
}

// about compares floating-point sums whose parts were added in another order.
var about = cmpopts.EquateApprox(1e-9, 1e-9)

func TestWhatIsFlushedIsInTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, linkID := setup(t, d), id.New(id.Link)
		b.record(linkID, noon, 1, 2, 3)
		b.flush(t)
		totals, err := b.Totals(t.Context(), b.member, linkID, id.New(id.Link))
		if diff := cmp.Diff(map[string]Tally{linkID: {Clicks: 3, LatencyMean: 2, LatencyM2: 2}}, totals, about); diff != "" || err != nil {
			t.Errorf("totals (-want +got):\n%s%v", diff, err)
		}
		rows, err := d.NewSelect().Model((*row)(nil)).Count(db.AsSystem(t.Context()))
		if err != nil || rows != 3 {
			t.Errorf("%d clicks, want 3: %v", rows, err)
		}
	})
}

func TestABatchThatComesTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		linkID, log := id.New(id.Link), id.New(id.Log)
		for range 3 {
			if err := write(t, d, log, 2, []Click{clickOf(linkID), clickOf(linkID)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := clicksOf(t, d, linkID); got != 2 {
			t.Errorf("%d clicks, want 2", got)
		}
	})
}

func TestABatchThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		linkID, log := id.New(id.Link), id.New(id.Log)
		clicks := []Click{clickOf(linkID), clickOf(refuseOne(t, d))}
		if err := write(t, d, log, 2, clicks); !db.IsRefused(err) {
			t.Fatalf("a batch with a click that the database refuses: %v", err)
		}
		if err := write(t, d, log, 1, clicks[:1]); err != nil {
			t.Errorf("the log's position moved with the failed batch: %v", err)
		}
		if got := clicksOf(t, d, linkID); got != 1 {
			t.Errorf("%d clicks, want 1", got)
		}
	})
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
						c := Click{WorkspaceID: b.member.ID(), LinkID: links[random.IntN(len(links))],
							ClickedAt: noon.Add(time.Duration(random.IntN(100)) * time.Minute), LatencyMs: random.ExpFloat64()}
						batch = append(batch, c)
						mu.Lock()
						want.Add(c.LatencyMs)
						mu.Unlock()
					}
					if err := write(t, d, log, position+100, batch); err != nil {
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
			err = statsOf(t, b, Subject{LinkID: linkID}, &Range{From: noon.Add(-time.Hour), To: noon.Add(3 * time.Hour)}, "", Filter{}).
				eachSum(db.AsSystem(t.Context()), nil, func(sum *bucket) error { fromBuckets.Merge(sum.Tally); return nil })
			if err != nil {
				t.Fatal(err)
			}
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
