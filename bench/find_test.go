package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/page"
)

// findable is how many links there are to find some of.
const findable = 100_000

// fill makes the links. All have a common word and one in two a common tag; one in 1000 has a rare tag and one in
// 10,000 a rare word; the first 6,000 have the tag of an old campaign. Two in three have been clicked.
func fill(b *testing.B, w *bundle) {
	b.Helper()
	for n := 0; n < findable; {
		in := make([]*link.New, link.MaxBatch)
		for i := range in {
			title, note, tags := fmt.Sprintf("Report %d of the campaign", n*7919%findable), "Sent to everybody on the list", []string{}
			if n%10_000 == 77 {
				note = "About the zebrafish"
			}
			if n%1000 == 5 {
				tags = append(tags, "rare")
			}
			if n%2 == 0 {
				tags = append(tags, "common")
			}
			if n < 6000 {
				tags = append(tags, "old")
			}
			in[i] = &link.New{URL: fmt.Sprintf("https://www.example.com/topic-%d/item-%d?utm_source=newsletter", n%97, n), Title: &title, Note: &note, Tags: tags}
			n++
		}
		if _, err := w.links.CreateMany(b.Context(), w.member, link.Batch{Links: in}); err != nil {
			b.Fatal(err)
		}
	}
	// As whoever may do what.
	ctx := map[bool]context.Context{true: db.AsOwner(b.Context()), false: db.AsSystem(b.Context())}
	statements := []string{`INSERT INTO click_totals (subject_id, workspace_id, clicks, latency_mean, latency_m2)
		SELECT id, workspace_id, n % 1000 + 1, 1, 0 FROM (SELECT id, workspace_id, row_number() OVER (ORDER BY code) AS n FROM links) AS numbered WHERE n % 3 > 0`}
	if w.db.Kind == db.Postgres { // which does so by itself in time; SQLite never does
		statements = append(statements, "VACUUM ANALYZE")
	}
	for _, statement := range statements {
		if _, err := w.db.ExecContext(ctx[strings.HasPrefix(statement, "VACUUM")], statement); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFind finds links among 100,000 of a workspace, beside the plain statement for the newest.
func BenchmarkFind(b *testing.B) {
	each(b, func(b *testing.B, w *bundle) {
		fill(b, w)
		var deep []*link.Link
		if err := w.db.NewSelect().Model(&deep).Order("id DESC").Offset(499 * page.Default).Limit(1).Scan(db.AsSystem(b.Context())); err != nil {
			b.Fatal(err)
		}
		byClicks, byTitle := &link.Order{Field: link.ByClicks}, &link.Order{Field: link.ByTitle}
		clicks, title := page.Order{Name: "CLICKS", Numbers: true}, page.Order{Name: "TITLE", Ascending: true}
		b.Run("baseline=select", func(b *testing.B) {
			for b.Loop() {
				var links []*link.Link
				err := w.db.NewSelect().Model(&links).Where("workspace_id = ?", w.member.ID()).Where("purged_at IS NULL AND deleted_at IS NULL").
					Order("id DESC").Limit(page.Default + 1).Scan(db.AsSystem(b.Context()))
				if err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, c := range []struct {
			name   string
			filter *link.Filter
			order  *link.Order
			after  string
		}{
			{name: "first"},
			{name: "page=500", after: page.Cursor(deep[0].ID)},
			{name: "word=rare", filter: &link.Filter{Search: new("zebrafish")}},
			{name: "word=rare,by=clicks", filter: &link.Filter{Search: new("zebrafish")}, order: byClicks},
			{name: "word=common", filter: &link.Filter{Search: new("http")}},
			{name: "word=common,by=clicks", filter: &link.Filter{Search: new("http")}, order: byClicks},
			{name: "word=short", filter: &link.Filter{Search: new("77")}},
			{name: "word=none,short", filter: &link.Filter{Search: new("~~")}},
			{name: "tag=rare", filter: &link.Filter{Tags: []string{"rare"}}},
			{name: "tag=common", filter: &link.Filter{Tags: []string{"common"}}},
			{name: "tag=common,by=title", filter: &link.Filter{Tags: []string{"common"}}, order: byTitle},
			{name: "tag=old", filter: &link.Filter{Tags: []string{"old"}}},
			{name: "tag=old,by=clicks", filter: &link.Filter{Tags: []string{"old"}}, order: byClicks},
			{name: "tag=rare,old", filter: &link.Filter{Tags: []string{"common", "old", "rare"}, TagMatch: link.AllTags}},
			{name: "archived=none", filter: &link.Filter{Archived: new(true)}},
			{name: "status=none", filter: &link.Filter{Status: []link.Status{link.Exhausted}}},
			{name: "by=clicks", order: byClicks},
			{name: "by=clicks,deep", order: byClicks, after: clicks.Cursor(int64(500), deep[0].ID)},
			{name: "by=clicks,none", order: byClicks, after: clicks.Cursor(int64(0), deep[0].ID)},
			{name: "by=title", order: byTitle},
			{name: "by=title,deep", order: byTitle, after: title.Cursor("report 5", deep[0].ID)},
		} {
			after := &c.after
			if c.after == "" {
				after = nil
			}
			r, err := c.order.Page(nil, after, nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			list := func(b *testing.B) {
				if _, err := w.links.List(b.Context(), w.member, c.filter, r); err != nil {
					b.Fatal(err)
				}
			}
			b.Run(c.name, func(b *testing.B) {
				b.Log(w.explain(b, list))
				for b.Loop() {
					list(b)
				}
			})
		}
		for name, f := range map[string]*link.Filter{"all": nil, "common": {Search: new("http")}, "tagged": {Tags: []string{"common"}}} {
			count := func(b *testing.B) {
				if _, err := w.links.Count(b.Context(), w.member, f); err != nil {
					b.Fatal(err)
				}
			}
			b.Run("count="+name, func(b *testing.B) {
				b.Log(w.explain(b, count))
				for b.Loop() {
					count(b)
				}
			})
		}
	})
}

// explain tells how the database goes about what is done.
func (w *bundle) explain(b *testing.B, do func(b *testing.B)) string {
	b.Helper()
	defer func() { w.links.DB = w.db }()
	plans := dbtest.Plans(b, w.db, func(watched *db.DB) {
		w.links.DB = watched
		do(b)
	})
	return "\n" + strings.Join(plans, "\n--\n")
}
