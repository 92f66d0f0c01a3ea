package clickstore_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func TestMonth_CountsFromItsStart(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, linkID, other := clicktest.Setup(t, d), id.New(id.Link), id.New(id.Link)
		m := click.MonthOf(clicktest.Noon)
		b.RecordClicks(linkID, m.Start().Add(-time.Nanosecond), 1)
		b.RecordClicks(linkID, m.Start(), 1, 1)
		b.RecordClicks(other, clicktest.Noon, 1)
		b.FlushClicks(t)
		counts := must.Value(b.Ledger.MonthClicks(must.Value(b.Member.Enter(t.Context(), workspace.ReadLinks))(t),
			[]string{linkID, other, id.New(id.Link)}, m))(t)
		if diff := cmp.Diff(map[string]int64{linkID: 2, other: 1}, counts); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

// TestMonth_IsExactAcrossItsEnd writes clicks around the end of a month in any order: both months
// are counted exactly, and an earlier one never too low.
func TestMonth_IsExactAcrossItsEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(53, 1))
		linkID, next := w.Links[0].LinkID, click.MonthOf(clicktest.Noon)+1
		wait := func(from, to time.Time, n int) {
			for range n {
				var batch []click.Click
				for range 1 + random.IntN(3) {
					c := w.Links[0]
					c.Status, c.LatencyMs, c.HitLease = 302, 1, random.Int64N(3)-1
					c.ClickedAt = from.Add(time.Duration(random.Int64N(int64(to.Sub(from))))).Truncate(time.Microsecond)
					batch = append(batch, c)
				}
				w.Write(t, batch...)
				for m := next - 3; m <= next+1; m++ {
					want, later := click.MonthCount{}, 0
					for _, c := range w.Clicks {
						if c.ClickedAt.Before(m.Start()) {
							continue
						}
						if want.Clicks++; click.MonthOf(c.ClickedAt) > m {
							later++
						} else if c.HitLease < 0 {
							want.Outage++
						}
					}
					if later > 0 { // only the latest month has them
						want.Outage = 0
					}
					counts, _, err := w.Ledger.Since(db.AsSystem(t.Context()), "", []string{linkID}, m)
					must.NoError(t, err)
					got := counts[linkID]
					if got.Clicks < want.Clicks || got != want && m >= next-1 {
						t.Fatalf("%d clicks since %s, want %d", got, m, want)
					}
				}
			}
		}
		wait((next - 3).Start(), (next - 1).Start(), 5)
		wait((next - 1).Start(), next.Start(), 5)
		wait(next.Start().Add(-click.Day), next.Start().Add(click.Day), 20)
	})
}

// TestIDs_AreNewAfterRestore: clicks that were written after the backup have other ids.
func TestIDs_AreNewAfterRestore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const since = 1_000_000_000 // clicks since the backup
		before := must.Value(new(clickstore.ClickIDs).Take(t.Context(), d, 1))(t)
		must.NoError(t, clickstore.AfterRestore(t.Context(), d))
		if after := must.Value(new(clickstore.ClickIDs).Take(t.Context(), d, 1))(t); after <= before+since {
			t.Errorf("the ids after a restore begin at %d, before it at %d", after, before)
		}
	})
}

// TestReport_CountsLivingNodes: neither those that are silent or have left, nor those of a clock that is
// ahead. A process reports while a batch of its log is being written.
func TestReport_CountsLivingNodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		l, now := &clickstore.Ledger{DB: d}, clicktest.Noon
		for _, other := range []struct {
			logID    string
			hasRedis bool
			age      time.Duration
			leaves   bool
		}{
			{"log_redis", true, time.Second, false}, {"log_earlier", true, 10 * time.Second, false},
			{"log_none", false, 0, false}, {"log_silent", true, time.Minute, false},
			{"log_ahead", true, -time.Hour, false}, {"log_left", true, 0, true},
		} {
			_, _, err := l.Report(t.Context(), other.logID, other.hasRedis, now.Add(-other.age), now)
			must.NoError(t, err)
			if other.leaves {
				must.NoError(t, l.Leave(t.Context(), other.logID))
			}
		}
		report := func(ctx context.Context) {
			others, withRedis, err := l.Report(ctx, "log_1", true, now, now.Add(-5*time.Second))
			if others != 3 || withRedis != 1 || err != nil {
				t.Errorf("%d others, %d with Redis: %v, want 3 and 1", others, withRedis, err)
			}
		}
		report(t.Context())
		must.NoError(t, l.ForgetNodes(t.Context(), now))
		if n := must.Value(d.NewSelect().Table("click_logs").Count(db.AsSystem(t.Context())))(t); n != 5 {
			t.Errorf("%d reports are kept, want 5: all but that of a silent node", n)
		}
		report(t.Context())
		if d.Kind == db.SQLite { // has one writer at a time
			report(t.Context())
			return
		}
		must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(locking context.Context, tx bun.Tx) error {
			_, err := clickstore.AdvancePosition(locking, tx, "log_1", 1) // a batch is being written
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			report(ctx)
			return err
		}))
	})
}
