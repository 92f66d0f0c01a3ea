package feed_test

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// node reads the news of a node.
type node struct {
	*feed.Feed
	now  time.Time
	news feed.News
}

func newNode(t *testing.T, d *db.DB) *node {
	n := &node{now: dbtest.Noon}
	n.Feed = feed.New(d, slog.New(slog.DiscardHandler), func() time.Time { return n.now })
	n.Subscribe(func(_ context.Context, found feed.News) { n.news = found })
	n.read(t)
	return n
}

// read returns the news.
func (n *node) read(t *testing.T) feed.News {
	t.Helper()
	must.NoError(t, n.CatchUp(t.Context()))
	n.news.At = time.Time{}
	return n.news
}

// TestFeed_TellsChangesAndStates to each node.
func TestFeed_TellsChangesAndStates(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		m := workspacetest.New(t, d, "acme")
		nodes := []*node{newNode(t, d), newNode(t, d)}
		exec := func(statement string, args ...any) {
			t.Helper()
			must.Value(d.NewRaw(statement, args...).Exec(db.AsSystem(t.Context())))(t)
		}
		exec("INSERT INTO sessions (id, account_id, agent, created_at, used_at, expires_at) VALUES ('ses_1', ?, '', "+
			"?1, ?1, ?1)", m.AccountID(), dbtest.Noon)
		exec(`INSERT INTO webhooks (id, workspace_id, name, url, host, status, secret, xid, seq, created_at, created_by)
			VALUES ('wh_1', ?, '', '', '', 'ACTIVE', ?2, 0, 0, ?1, '')`, m.ID(), dbtest.Noon, []byte{})
		for _, c := range []struct {
			statement, subject string
			isDue, isStopped   bool
		}{
			{statement: "UPDATE sessions SET used_at = ?0"},
			{statement: "UPDATE sessions SET revoked_at = ?0", subject: "ses_1"},
			{statement: "UPDATE workspaces SET hit_quota = 7 WHERE id = ?1", subject: m.ID()},
			{statement: "UPDATE webhooks SET due_at = ?0", isDue: true},
			{statement: "UPDATE webhooks SET status = 'PAUSED'"},
			{statement: "INSERT INTO webhook_stops (id, stopped_at) VALUES ('all', ?0)", isStopped: true},
			{statement: "DELETE FROM webhook_stops"},
		} {
			exec(c.statement, dbtest.Noon, m.ID())
			for _, n := range nodes {
				got := n.read(t)
				if c.subject != "" && !slices.Contains(got.Subjects, c.subject) { // earlier ones may be there again
					t.Errorf("after %s changes are of %q", c.statement, got.Subjects)
				}
				if got.HasDeliveries != c.isDue || got.IsStopped != c.isStopped || n.read(t).HasDeliveries != c.isDue {
					t.Errorf("after %s: %+v", c.statement, got)
				}
			}
		}
	})
}

// TestFeed_TellsFinalRows: events and batches of clicks of an open transaction, and of later ones,
// are news when it has ended.
func TestFeed_TellsFinalRows(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		m := workspacetest.New(t, d, "acme")
		for name, c := range map[string]struct {
			write func(ctx context.Context, tx bun.Tx) error
			has   func(feed.News) bool
		}{
			"events": {func(ctx context.Context, tx bun.Tx) error {
				return audit.Write(ctx, tx, audit.New(m.ID(), "", audit.LinkCreated, "lnk_1", nil, dbtest.Noon))
			}, func(n feed.News) bool { return n.HasEvents }},
			"clicks": {func(ctx context.Context, tx bun.Tx) error {
				_, err := tx.NewRaw("INSERT INTO click_batches (first_id, last_id, first_at, last_at, written_at) "+
					"VALUES (1, 2, ?0, ?0, ?0)", dbtest.Noon).Exec(ctx)
				return err
			}, func(n feed.News) bool { return n.HasClicks }},
		} {
			n := newNode(t, d)
			polltest.Until(t, "what was written before is news no more", func() bool {
				return hasOnlyFinalRows(t, d) && !c.has(n.read(t))
			})
			must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				err := c.write(ctx, tx)
				if c.has(n.read(t)) {
					t.Errorf("%s of an open transaction are news", name)
				}
				return err
			}))
			// Transactions of other tests may be open, too.
			polltest.Until(t, name+" are news", func() bool { return c.has(n.read(t)) })
			if c.has(n.read(t)) {
				t.Errorf("%s are news twice", name)
			}
		}
	})
}

// hasOnlyFinalRows reports whether no transaction can add events and clicks before those of the
// database. Those of other tests count.
func hasOnlyFinalRows(t *testing.T, d *db.DB) bool {
	t.Helper()
	if d.Kind == db.SQLite {
		return true
	}
	const open = "SELECT EXISTS (SELECT FROM audit_events WHERE xid >= ?0) OR EXISTS (SELECT FROM click_batches " +
		"WHERE xid >= ?0)"
	var found bool
	must.NoError(t, d.NewRaw(open, bun.Safe(db.OldestTransaction)).Scan(db.AsSystem(t.Context()), &found))
	return !found
}

// TestFeed_NoticesGaps: changes may have been deleted while a node could not read them.
func TestFeed_NoticesGaps(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		n := newNode(t, d)
		for _, c := range []struct {
			pause time.Duration
			want  bool
		}{{7 * time.Minute, false}, {8 * time.Minute, true}, {time.Second, false}} {
			n.now = n.now.Add(c.pause)
			if got := n.read(t).IsGap; got != c.want {
				t.Errorf("after %s a gap is %t, want %t", c.pause, got, c.want)
			}
		}
	})
}

// TestFeed_ReadsIndexes, not whole logs.
func TestFeed_ReadsIndexes(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		m := workspacetest.New(t, d, "acme")
		var events []*audit.Event
		for range 3000 {
			events = append(events, audit.New(m.ID(), "", audit.LinkCreated, "lnk_1", nil, dbtest.Noon))
		}
		must.NoError(t,
			d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				return audit.Write(ctx, tx, events...)
			}))
		if d.Kind == db.Postgres { // nothing analyzes SQLite in production
			must.Value(d.ExecContext(db.AsOwner(t.Context()), "VACUUM ANALYZE audit_events"))(t)
		}
		plans := dbtest.Plans(t, d, func(watched *db.DB) {
			f := feed.New(watched, slog.New(slog.DiscardHandler), time.Now)
			must.NoError(t, errors.Join(f.CatchUp(t.Context()), f.CatchUp(t.Context())))
			must.Value(audit.Horizon(t.Context(), watched))(t)
		})
		whole := regexp.MustCompile(
			`(?m)Seq Scan on audit_events|` +
				`SCAN (audit_events|changes|change|click_batches|webhooks|tasks)( |$)(?:USING)?`)
		for _, plan := range plans[1:] { // all rows follow the first position
			for _, found := range whole.FindAllString(plan, -1) {
				if !strings.HasSuffix(found, "USING") {
					t.Errorf("%q reads a whole table:\n%s", found, plan)
				}
			}
		}
	})
}

// TestHorizon_IsThatOfARow: a transaction that has left no row does not move it.
func TestHorizon_IsThatOfARow(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		m := workspacetest.New(t, d, "acme")
		horizon := func() feed.Position {
			t.Helper()
			return must.Value(audit.Horizon(t.Context(), d))(t)
		}
		for range 2 {
			written := writeEvent(t, d, m.ID(), nil)
			// transactions of other tests may be open
			polltest.Until(t, "the row is final", func() bool { return horizon() == written })
			writeEvent(t, d, m.ID(), errors.New("rolled back"))
			if got := horizon(); got != written {
				t.Errorf("after a rollback it is %+v, want %+v", got, written)
			}
		}
	})
}

// writeEvent returns the position of the event. It rolls it back if there is an error.
func writeEvent(t *testing.T, d *db.DB, workspaceID string, failure error) (at feed.Position) {
	t.Helper()
	err := d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		e := audit.New(workspaceID, "", audit.LinkCreated, "lnk_1", nil, dbtest.Noon)
		err := audit.Write(ctx, tx, e)
		if err == nil {
			err = tx.NewSelect().Table("audit_events").Column("xid", "seq").Where("id = ?", e.ID).Scan(ctx, &at)
		}
		return errors.Join(err, failure)
	})
	if !errors.Is(err, failure) {
		t.Fatal(err)
	}
	return at
}

// TestFault_FailoverKeepsNews: a promoted standby gives numbers of transactions again that the node
// has read past.
func TestFault_FailoverKeepsNews(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	pair := dbtest.NewPair(t)
	d := must.Value(db.OpenPostgres(pair.BothURL, 2))(t)
	defer d.Close()
	m := workspacetest.New(t, dbtest.Migrated(t, d), "acme")
	pair.Synchronize(t)
	n := newNode(t, d)
	pair.CutOff(t, 100)
	n.read(t)
	pair.Promote(t)
	polltest.Until(t, "the standby takes changes", func() bool {
		_, err := d.NewRaw("UPDATE workspaces SET hit_quota = 7").Exec(db.AsSystem(t.Context()))
		return err == nil
	})
	writeEvent(t, d, m.ID(), nil)
	if got := n.read(t); !slices.Contains(got.Subjects, m.ID()) || !got.HasEvents {
		t.Errorf("the news are %+v", got)
	}
}
