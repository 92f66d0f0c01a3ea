package clicktest

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

var Noon = dbtest.Noon

func AtNoon() time.Time { return Noon }

// bundle is a store, a recorder that runs, and a member of a workspace.
type bundle struct {
	*clicksql.Store
	*ingest.Recorder
	Stats  *stats.Store
	Ledger *clickstore.Ledger
	Member workspace.Membership
	stop   func() error
}

func Setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{
		Store: &clicksql.Store{DB: d, Now: AtNoon}, Recorder: NewRecorder(t, d, t.TempDir()),
		Ledger: &clickstore.Ledger{DB: d},
	}
	b.Stats = &stats.Store{Clicks: b.Store, Ledger: b.Ledger, Now: AtNoon}
	b.stop = Start(t, b.Recorder)
	b.Member = workspacetest.New(t, d, "ada")
	return b
}

// NewRecorder makes a recorder that does not run, with a log of its own in the folder.
func NewRecorder(t *testing.T, d *db.DB, dir string) *ingest.Recorder {
	t.Helper()
	return NewLeaseRecorder(t, d, dir, nil)
}

// NewLeaseRecorder is newRecorder with an owner of the leases.
func NewLeaseRecorder(t *testing.T, d *db.DB, dir string, leases ingest.Leases) *ingest.Recorder {
	t.Helper()
	l, err := ingest.OpenLog(ingest.LogConfig{Dir: dir, Logger: slog.New(slog.DiscardHandler), Now: AtNoon})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return ingest.NewRecorder(RecorderOf(d, l, leases))
}

// RecoverFunc is an owner of leases that retains nothing of this process's log.
type RecoverFunc func(ctx context.Context, logID string, leases []hitquota.Lease) error

func (RecoverFunc) Pin() int64 { return math.MaxInt64 }

func (f RecoverFunc) Recover(ctx context.Context, logID string, leases []hitquota.Lease) error {
	return f(ctx, logID, leases)
}

// NoLogs counts the clicks in logs of dead processes where there are none.
func NoLogs(click.Month) (map[string]click.MonthCount, error) { return nil, nil }

// Carry has nothing to count.
func (RecoverFunc) Carry(context.Context, func(click.Month) (map[string]click.MonthCount, error)) error {
	return nil
}

// Pinned retains a log from a position on.
type Pinned struct {
	ingest.Leases
	Oldest atomic.Int64
}

func (p *Pinned) Pin() int64 { return p.Oldest.Load() }

// Start runs a recorder; the function it returns stops it and gives Run's error.
func Start(t *testing.T, r *ingest.Recorder) func() error {
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

// RecordClicks records one click of a link for each latency in milliseconds.
func (b *bundle) RecordClicks(linkID string, at time.Time, latencies ...float64) {
	for _, ms := range latencies {
		b.Record(&click.Click{WorkspaceID: b.Member.ID(), LinkID: linkID, ClickedAt: at, LatencyMs: ms})
	}
}

func (b *bundle) FlushClicks(t *testing.T) {
	t.Helper()
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// ClickOf returns a click of a link without an owner.
func ClickOf(linkID string) click.Click {
	return click.Click{WorkspaceID: id.PublicWorkspace, LinkID: linkID, ClickedAt: Noon, LatencyMs: 1}
}

// Write writes a batch as a process of its own would.
func Write(t *testing.T, d *db.DB, logID string, position int64, batch []click.Click) error {
	t.Helper()
	s := clicksql.Store{DB: d, Now: AtNoon}
	return s.Write(t.Context(), clickstore.Batch{Log: logID, To: position, Clicks: batch})
}

// ClicksOf is how many clicks of a link the database has.
func ClicksOf(t *testing.T, d *db.DB, linkID string) int64 {
	t.Helper()
	counts, err := clickstore.LinkCounts(db.AsSystem(t.Context()), d, linkID)
	if err != nil {
		t.Fatal(err)
	}
	return counts[linkID]
}

// RefuseOne makes the database refuse clicks of a link, whose id it returns.
func RefuseOne(t *testing.T, d *db.DB) string {
	t.Helper()
	linkID := id.New(id.Link)
	statement := map[db.Kind]string{
		db.Postgres: "ALTER TABLE clicks ADD CHECK (link_id <> '" + linkID + "')",
		db.SQLite: "CREATE TRIGGER refused BEFORE INSERT ON clicks WHEN NEW.link_id = '" + linkID +
			"' BEGIN SELECT RAISE(ABORT, 'refused'); END",
	}[d.Kind]
	if _, err := d.ExecContext(db.AsOwner(t.Context()), statement); err != nil {
		t.Fatal(err)
	}
	return linkID
}

// About compares floating-point sums whose parts were added in another order.
var About = cmpopts.EquateApprox(1e-9, 1e-9)

func Rename(t *testing.T, d *db.DB, from, to string) {
	t.Helper()
	if _, err := d.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE "+from+" RENAME TO "+to); err != nil {
		t.Fatal(err)
	}
}

// CrowdOf is a click each of n visitors of a link, and one more of each.
func CrowdOf(link click.Click, at time.Time, n int) (clicks []click.Click) {
	for range 2 {
		for i := range n {
			c := link
			c.ClickedAt, c.Status, c.Visitor = at, 302, Person(&link, i)
			clicks = append(clicks, c)
		}
	}
	return clicks
}
