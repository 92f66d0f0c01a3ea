package clickstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

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
