package clicksql_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestStore_LooksUpClicksByKey checks that the database reads whole keys of the primary key, also
// for a caller with many workspaces.
func TestStore_LooksUpClicksByKey(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		ctx := db.AsSystem(t.Context())
		must.NoError(t, w.Retain(ctx)) // creates the month's partition
		clicked := func(n int) time.Time { return clicktest.Noon.Add(-time.Duration(n) * time.Millisecond) }
		for batch := range 20 {
			var rows []*click.Row
			for n := 1000*batch + 1; n <= 1000*batch+1000; n++ {
				space := w.Members[0].ID()
				if n%10 != 0 {
					space = fmt.Sprint("ws_", n%10)
				}
				rows = append(rows, &click.Row{ID: int64(n), WorkspaceID: space, LinkID: fmt.Sprint("lnk_", n),
					ClickedAt: clicked(n), Status: 302})
			}
			must.Value(w.DB.NewInsert().Model(&rows).Returning("NULL").Exec(ctx))(t)
		}
		dbtest.Analyze(t, w.DB)
		var ids []string
		for n := range 10 {
			ids = append(ids, id.Join(id.Click, clicked(50*n+50).UnixMicro(), int64(50*n+50)))
		}
		spaces := []string{w.Members[0].ID(), w.Members[1].ID(), "ws_1", "ws_2", "ws_3"}
		plans := dbtest.Plans(t, w.DB, func(watched *db.DB) {
			s := &clicksql.Store{DB: watched, Now: w.Now}
			found, err := s.WorkspacesOf(t.Context(), spaces, ids...)
			if err != nil || len(found) != len(ids) {
				t.Errorf("found the workspaces of %d clicks: %v", len(found), err)
			}
			if clicks, err := (&stats.Store{Clicks: s}).ByID(t.Context(), w.Members[0], ids...); err != nil ||
				len(clicks) != len(ids) {
				t.Errorf("found %d clicks: %v", len(clicks), err)
			}
		})
		key := regexp.MustCompile(`(Index Cond: |PRIMARY KEY ).*workspace_id *=.* AND \(?clicked_at *=.* AND \(?id *=`)
		for _, plan := range plans {
			if !key.MatchString(plan) || strings.Contains(plan, "SCAN") || strings.Contains(plan, "Seq Scan") {
				t.Errorf("clicks are not looked up by key:\n%.2000s", plan)
			}
		}
	})
}
