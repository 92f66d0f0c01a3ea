package click

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

func rename(t *testing.T, d *db.DB, from, to string) {
	t.Helper()
	if _, err := d.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE "+from+" RENAME TO "+to); err != nil {
		t.Fatal(err)
	}
}

// crowdOf is a click each of n visitors of a link, and one more of each.
func crowdOf(link Click, at time.Time, n int) (clicks []Click) {
	for range 2 {
		for i := range n {
			c := link
			c.ClickedAt, c.Status, c.Visitor = at, 302, person(&link, i)
			clicks = append(clicks, c)
		}
	}
	return clicks
}
