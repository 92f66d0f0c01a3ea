package clicksql_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestClaim_LosesNoConcurrentClick: concurrent clicks are counted without a workspace or with
// the new one, and after the claim with the new one.
func TestClaim_LosesNoConcurrentClick(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := clicktest.NewWorld(t, d)
		anonymous := w.Links[len(w.Links)-1]
		var running sync.WaitGroup
		var mu sync.Mutex
		begun := make(chan struct{}, 12)
		for range 2 {
			running.Go(func() {
				own, log := clicksql.Store{DB: d, Now: clicktest.AtNoon}, id.New(id.Log)
				for position := range int64(6) {
					batch := slices.Concat(clicktest.CrowdOf(anonymous, clicktest.Noon.Add(-click.Day), 10),
						clicktest.CrowdOf(w.Links[0], clicktest.Noon, 10))
					if err := own.Write(t.Context(),
						clickstore.Batch{Log: log, To: position + 1, Clicks: batch}); err != nil {
						t.Error(err)
					}
					mu.Lock()
					w.Remember(batch)
					mu.Unlock()
					begun <- struct{}{}
				}
			})
		}
		<-begun
		err := d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			return w.Move(ctx, tx, anonymous.LinkID, w.Members[0].ID())
		})
		running.Wait()
		w.Moved(anonymous.LinkID)
		must.NoError(t, err)
		w.VerifyRollups(t)
		w.CheckTotals(t)
		q := w.All(w.Members[0], clicktest.Noon.Add(-2*click.Day), clicktest.Noon.Add(click.Day))
		for _, by := range []click.Dimension{click.ByLink, click.Status} {
			w.CheckBreakdown(t, q, by, 10, w.Meant(q))
		}
	})
}

// TestPurge_RemovesEveryRow of the workspace from every table with an owner column, and no
// other rows.
func TestPurge_RemovesEveryRow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(6, 6))
		w.WriteAll(t, random, w.DrawAll(random, 200, clicktest.Noon.Add(-20*click.Day), clicktest.Noon))
		w.MoveLink(t, w.Links[len(w.Links)-1].LinkID)
		must.NoError(t, w.Seal(t.Context()))
		gone := w.Members[0].ID()
		own := []string{gone}
		for _, l := range w.Links {
			if l.WorkspaceID == gone {
				own = append(own, l.LinkID)
			}
		}
		for range 2 {
			must.NoError(t, w.PurgeWorkspace(t.Context(), gone))
		}
		for table, columns := range map[string][]string{
			"clicks": {"workspace_id", "link_id"}, clicksql.Days: {"workspace_id", "subject_id"},
			"click_totals": {"workspace_id", "subject_id"}, "unmatched": {"workspace_id"},
		} {
			for _, column := range columns {
				n, err := d.NewSelect().Table(table).Where("? IN (?)", bun.Ident(column), bun.In(own)).
					Count(db.AsSystem(t.Context()))
				if err != nil || n > 0 {
					t.Errorf("%d rows of %s have such a %s: %v", n, table, strings.ReplaceAll(column, "_", " "), err)
				}
			}
		}
		w.Clicks = slices.DeleteFunc(w.Clicks, func(c click.Click) bool { return c.WorkspaceID == gone })
		w.CheckTotals(t)
		w.VerifyRollups(t)
	})
}
