package clicksql_test

import (
	"encoding/json"
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
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// The rules and targets of these tests.
const (
	ruleA, ruleB     = "rul_01k0000000000000000000000a", "rul_01k0000000000000000000000b"
	targetA, targetB = "tgt_01k0000000000000000000000a", "tgt_01k0000000000000000000000b"
)

// writeRouted writes two clicks of a link without a rule and four with one on a day, three of them
// scans of QR codes, and two without a rule of another link.
func writeRouted(t *testing.T, w *clicktest.World, at time.Time) (routed, plain string) {
	t.Helper()
	c, other := w.Links[0], w.Links[1]
	c.ClickedAt, c.Status, other.ClickedAt, other.Status = at, 302, at, 302
	first, second, bot := c, c, c
	first.RuleID, first.TargetID = ruleA, targetA
	second.RuleID, second.TargetID = ruleA, targetB
	bot.RuleID, bot.TargetID, bot.Bot = ruleB, "", true
	first.QRSource, bot.QRSource = "flyer", "poster"
	w.Write(t, c, first, second, other, c, first, bot, other)
	return c.LinkID, other.LinkID
}

// TestRouting_AddsUpByRuleAndTarget by the quarter of an hour, by the day and by column.
func TestRouting_AddsUpByRuleAndTarget(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		day := clicktest.Noon.Add(-2 * click.Day)
		routed, plain := writeRouted(t, w, day)
		check := func(stage string) {
			t.Helper()
			for linkID, clicks := range map[string]int64{routed: 6, plain: 2, "": 8} {
				q := w.All(w.Members[0], day.Truncate(click.Day), day.Truncate(click.Day).Add(click.Day))
				if linkID != "" {
					q.Of.LinkID, q.Links = linkID, []string{linkID}
				}
				for _, by := range []click.Dimension{click.Rule, click.Target, click.QRSource} {
					w.CheckBreakdown(t, q, by, 10, w.Meant(q))
					parts, err := w.QueryStats(t, q).Breakdown(t.Context(), by, 10)
					var sum int64
					for _, p := range parts {
						sum += p.Clicks
					}
					if sum != clicks || err != nil {
						t.Errorf("%s, %q by %s: %d clicks in all, want %d: %v", stage, linkID, by, sum, clicks, err)
					}
				}
				for _, values := range []map[click.Dimension]string{
					{click.Rule: ruleA}, {click.Rule: ""}, {click.Target: targetA}, {click.Target: ""},
					{click.Rule: ruleA, click.Target: targetB}, {click.Rule: ruleB, click.Target: ""},
					{click.Rule: ruleA, click.Country: ""}, {click.QRSource: "flyer"}, {click.QRSource: ""},
					{click.Rule: ruleB, click.QRSource: "poster"}, {click.Target: targetB, click.QRSource: "flyer"},
				} {
					q.F.Values = values
					got, err := w.QueryStats(t, q).Total(t.Context())
					if want := clicktest.CountAll(w.Meant(q)); got != want || err != nil {
						t.Errorf("%s, %q with %v: %+v, want %+v: %v", stage, linkID, values, got, want, err)
					}
					w.CheckBreakdown(t, q, click.Target, 10, w.Meant(q))
				}
			}
			w.VerifyRollups(t)
		}
		check("by the quarter of an hour")
		w.SealDays(t)
		if n, clicks := detailed(t, w.DB, routed); n != 1 || clicks != 6 {
			t.Errorf("%d days with %d clicks by column, want 1 with 6", n, clicks)
		}
		check("by the day")
		ctx := db.AsSystem(t.Context())
		must.Value(w.DB.NewDelete().Table("clicks").Where("TRUE").Exec(ctx))(t)
		q := w.All(w.Members[0], day.Add(-click.Day), clicktest.Noon)
		q.F.Values = map[click.Dimension]string{click.Rule: ruleA, click.Target: targetA}
		got, err := w.QueryStats(t, q).Total(t.Context())
		if want := (click.Count{Clicks: 2}); got != want || err != nil {
			t.Errorf("by column: %+v, want %+v: %v", got, want, err)
		}
	})
}

// TestRouting_CostsPlainLinksNothing: rollups of clicks without a rule do not store its absence.
func TestRouting_CostsPlainLinksNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := clicktest.NewWorld(t, d)
		routed, plain := writeRouted(t, w, clicktest.Noon.Add(-2*click.Day))
		w.SealDays(t)
		for linkID, want := range map[string]int{plain: 0, routed: 6} { // two rules, two targets, two sources
			var encoded []byte
			must.NoError(t, d.NewSelect().Table(clicksql.Days).Column("counts").Where("subject_id = ?", linkID).
				Scan(db.AsSystem(t.Context()), &encoded))
			counts := click.Counts{}
			must.NoError(t, counts.AddEncoded(encoded))
			got := 0
			for _, d := range []click.Dimension{click.Rule, click.Target, click.QRSource} {
				got += len(counts.Of(d.Definition().Number))
			}
			if got != want {
				t.Errorf("a day of %s has %d rules, targets and sources, want %d", linkID, got, want)
			}
		}
	})
}

// TestRouting_IsRebuilt: rollups and columns that lack the rule are found and written again.
func TestRouting_IsRebuilt(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		routed, _ := writeRouted(t, w, clicktest.Noon.Add(-2*click.Day))
		w.SealDays(t)
		noColumn := []byte{1, 0} // one value, which is empty
		for name, damage := range map[string]func() error{
			"rollups": func() error {
				_, err := w.DB.NewUpdate().Table(clicksql.Days).Set("counts = ?", []byte{}).
					Where("subject_id = ?", routed).
					Exec(db.AsSystem(t.Context()))
				return err
			},
			"columns": func() error {
				_, err := w.DB.NewUpdate().Table(clicksql.Details).Set("rule_id = ?", noColumn).
					Where("subject_id = ?", routed).
					Exec(db.AsSystem(t.Context()))
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				must.NoError(t, damage())
				var found []string
				must.Value(w.Verify(t.Context(), func(f clickstore.Difference) {
					found = append(found, f.SubjectID)
				}))(t)
				if diff := cmp.Diff([]string{routed}, found); diff != "" {
					t.Errorf("differences (-want +got):\n%s", diff)
				}
				must.Value(w.Rebuild(t.Context()))(t)
				w.SealDays(t)
				w.VerifyRollups(t)
				q := w.All(w.Members[0], clicktest.Noon.Add(-3*click.Day).Truncate(click.Day), clicktest.Noon)
				q.Of.LinkID, q.Links = routed, []string{routed}
				w.CheckBreakdown(t, q, click.Rule, 10, w.Meant(q))
				q.F.Values = map[click.Dimension]string{click.Rule: ruleA, click.Target: targetA}
				w.CheckBreakdown(t, q, click.Rule, 10, w.Meant(q))
			})
		}
	})
}

// TestRouting_IsListedAndExported: the list and both formats of an export have the ids.
func TestRouting_IsListedAndExported(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		routed, _ := writeRouted(t, w, clicktest.Noon)
		of := clickstore.Subject{LinkID: routed}
		listed := must.Value(w.Stats.List(t.Context(), w.Members[0], of, nil, clickstore.Filter{},
			page.Request{Size: 10}))(t)
		var exported []*click.Click
		q := w.All(w.Members[0], clicktest.Noon.Add(-click.Day), clicktest.Noon.Add(click.Day))
		q.Of = of
		must.NoError(t, w.QueryStats(t, q).Export(t.Context(), func(clicks []*click.Click) error {
			exported = append(exported, clicks...)
			return nil
		}))
		want := [][]string{
			{"", "", ""}, {ruleA, targetA, "flyer"}, {ruleA, targetB, ""}, {"", "", ""}, {ruleA, targetA, "flyer"},
			{ruleB, "", "poster"},
		}
		var cells, lines, nodes [][]string
		for _, c := range exported {
			row := stats.ExportRow(c)
			cells = append(cells, row[len(row)-3:])
			encoded := must.Value(json.Marshal((*stats.ExportLine)(c)))(t)
			var line map[string]any
			must.NoError(t, json.Unmarshal(encoded, &line))
			rule, _ := line["ruleId"].(string)
			target, _ := line["targetId"].(string)
			source, _ := line["qrSource"].(string)
			lines = append(lines, []string{rule, target, source})
			if len(line) != 7+
				len(slices.DeleteFunc(slices.Clone(row[len(row)-3:]), func(s string) bool { return s == "" })) {
				t.Errorf("the line has fields of empty texts: %s", encoded)
			}
		}
		for _, c := range slices.Backward(listed.Items) {
			nodes = append(nodes, []string{c.RuleID, c.TargetID, c.QRSource})
		}
		head := stats.ExportHead()
		if diff := cmp.Diff([]string{"ruleId", "targetId", "qrSource"}, head[len(head)-3:]); diff != "" {
			t.Errorf("last columns (-want +got):\n%s", diff)
		}
		for name, got := range map[string][][]string{"CSV": cells, "JSON lines": lines, "the list": nodes} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}
