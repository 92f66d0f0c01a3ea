package clicksql_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// detailed returns the number of days of a subject that are stored by column, and of their clicks.
func detailed(t *testing.T, d *db.DB, subject string) (n, clicks int64) {
	t.Helper()
	must.NoError(t,
		d.NewSelect().Table(clicksql.Details).ColumnExpr("COUNT(*), CAST(COALESCE(SUM(clicks), 0) AS BIGINT)").
			Where("subject_id = ?", subject).
			Scan(db.AsSystem(t.Context()), &n, &clicks))
	return n, clicks
}

// TestDetails_SplitBusyDaysByColumn, of a workspace and of its busy links, and again when clicks
// come late.
func TestDetails_SplitBusyDaysByColumn(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		busy, quiet, foreign := w.Links[0], w.Links[1], w.Links[len(w.Links)-1]
		at := func(c click.Click, n int, start time.Time) (clicks []click.Click) {
			for i := range n {
				c.ClickedAt = start.Add(time.Duration(i) * time.Minute)
				clicks = append(clicks, c)
			}
			return clicks
		}
		monday, tuesday := clicktest.Noon.Add(-2*click.Day).Truncate(click.Day), clicktest.Noon.Add(-click.Day).
			Truncate(click.Day)
		w.Write(t, at(busy, clicksql.BusyDay, monday)...)
		w.Write(t, at(quiet, clicksql.BusyDay-1, monday)...)
		w.Write(t, at(foreign, clicksql.BusyDay, monday)...)
		w.Write(t, at(busy, clicksql.BusyDay, tuesday)...)
		w.Write(t, at(busy, clicksql.BusyDay, clicktest.Noon.Truncate(click.Day))...) // today is not over
		w.SealDays(t)
		want := func(what string, subject string, days, clicks int) {
			t.Helper()
			if n, m := detailed(t, w.DB, subject); n != int64(days) || m != int64(clicks) {
				t.Errorf("%s: %d days with %d clicks, want %d with %d", what, n, m, days, clicks)
			}
		}
		want("a busy link", busy.LinkID, 2, 2*clicksql.BusyDay)
		want("a quiet link", quiet.LinkID, 0, 0)
		want("an anonymous link", foreign.LinkID, 0, 0)
		want("the workspace", busy.WorkspaceID, 2, 3*clicksql.BusyDay-1)

		late := at(busy, 1, monday.Add(23*time.Hour))
		w.Write(t, late...)
		q := w.All(w.Members[0], monday, clicktest.Noon)
		q.F.Values = map[click.Dimension]string{click.Country: "", click.Device: ""}
		w.CheckTotal(t, q)
		w.SealDays(t)
		want("a busy link, with a late click", busy.LinkID, 2, 2*clicksql.BusyDay+1)
		want("the workspace, with a late click", busy.WorkspaceID, 2, 3*clicksql.BusyDay)
	})
}

// TestDetails_LeaveLargeDays: their clicks are read one by one.
func TestDetails_LeaveLargeDays(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		c := w.Links[0]
		c.Country, c.ClickedAt = "NP", clicktest.Noon.Add(-2*click.Day)
		for i, want := range []int64{1, 0} {
			w.Write(t, slices.Repeat([]click.Click{c}, []int{clicksql.LargeDay, 1}[i])...)
			must.Value(w.DB.NewDelete().Table(clicksql.Details).Where("TRUE").Exec(db.AsSystem(t.Context())))(t)
			w.SealDays(t)
			if n, _ := detailed(t, w.DB, c.WorkspaceID); n != want {
				t.Errorf("%d days are stored by column, want %d", n, want)
			}
			q := w.All(w.Members[0], clicktest.Noon.Add(-3*click.Day), clicktest.Noon)
			q.F.Values = map[click.Dimension]string{click.Country: "NP", click.Browser: c.Browser}
			w.CheckTotal(t, q)
		}
	})
}

// TestDetails_CombinedFiltersReadColumns: clicks that are stored by column are not read one by one.
// Columns of a day with a different number of clicks are ignored.
func TestDetails_CombinedFiltersReadColumns(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		c := w.Links[0]
		c.Country, c.Browser, c.ClickedAt = "NP", "Firefox", clicktest.Noon.Add(-2*click.Day)
		w.Write(t, c, c, c, c)
		w.SealDays(t)
		must.Value(w.DB.NewDelete().Table("clicks").Where("TRUE").Exec(db.AsSystem(t.Context())))(t)
		for _, q := range []clicktest.Question{w.All(w.Members[0], clicktest.Noon.Add(-3*click.Day), clicktest.Noon),
			{Member: w.Members[0], Of: clickstore.Subject{LinkID: c.LinkID},
				R: clickstore.Range{From: clicktest.Noon.Add(-3 * click.Day), To: clicktest.Noon}}} {
			q.F.Values = map[click.Dimension]string{click.Country: "NP", click.Browser: "Firefox"}
			ask := func(what string, want click.Count) {
				t.Helper()
				if got, err := w.QueryStats(t, q).Total(t.Context()); err != nil || got != want {
					t.Errorf("%s, %v: %+v, want %+v: %v", what, q, got, want, err)
				}
			}
			ask("by columns", click.Count{Clicks: 4})
			found, err := w.QueryStats(t, q).Breakdown(t.Context(), click.ByLink, 3)
			if diff := cmp.Diff([]stats.Slice{{Value: c.LinkID, Count: click.Count{Clicks: 4}}}, found); diff != "" ||
				err != nil {
				t.Errorf("by link (-want +got):\n%s%v", diff, err)
			}
			q.F.Values[click.Browser] = "Chrome"
			ask("another browser", click.Count{})
		}
		must.Value(w.DB.NewUpdate().Table(clicksql.Days).Set("clicks = clicks + 1").Where("TRUE").
			Exec(db.AsSystem(t.Context())))(t)
		q := w.All(w.Members[0], clicktest.Noon.Add(-3*click.Day), clicktest.Noon)
		q.F.Values = map[click.Dimension]string{click.Country: "NP", click.Browser: "Firefox"}
		if got, err := w.QueryStats(t, q).Total(t.Context()); err != nil || got != (click.Count{}) {
			t.Errorf("outdated columns: got %+v: %v", got, err)
		}
	})
}

// TestRouting_CostsPlainLinksNothing: rollups of clicks without a rule do not store its absence.
func TestRouting_CostsPlainLinksNothing(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		own, plain := w.Links[0], w.Links[1]
		own.ClickedAt, plain.ClickedAt = clicktest.Noon.Add(-2*click.Day), clicktest.Noon.Add(-2*click.Day)
		routed := own
		routed.RuleID, routed.TargetID, routed.QRSource = "rul_1", "tgt_1", "flyer"
		w.Write(t, own, routed, plain)
		w.SealDays(t)
		for linkID, want := range map[string]int{plain.LinkID: 0, routed.LinkID: 3} {
			var encoded []byte
			must.NoError(t, w.DB.NewSelect().Table(clicksql.Days).Column("counts").Where("subject_id = ?", linkID).
				Scan(db.AsSystem(t.Context()), &encoded))
			counts, got := click.Counts{}, 0
			must.NoError(t, counts.AddEncoded(encoded))
			for _, d := range []click.Dimension{click.Rule, click.Target, click.QRSource} {
				got += len(counts.Of(d.Definition().Number))
			}
			if got != want {
				t.Errorf("a day of %s has %d rules, targets and sources, want %d", linkID, got, want)
			}
		}
	})
}
