package linklist

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// plans are how the database goes about each statement of a list of my links.
func (b *bundle) plans(t *testing.T, limit int, f *Filter, r page.Request) []string {
	t.Helper()
	return b.plansOf(t, limit, f, func(ctx context.Context, q *query) { must.Value(q.list(ctx, r))(t) })
}

func (b *bundle) plansOf(t *testing.T, limit int, f *Filter, read func(context.Context, *query)) []string {
	t.Helper()
	defer func(d *db.DB) { b.DB = d }(b.DB)
	return dbtest.Plans(t, b.DB, func(watched *db.DB) {
		b.DB = watched
		ctx := db.InWorkspace(t.Context(), b.Mine.ID(), "")
		read(ctx, must.Value(b.prepare(ctx, b.Mine, f, limit))(t))
	})
}

// TestList_UsesIndexes looks at how lists are found where they are long: from an index, without a
// look at every link, and without sorting them.
func TestList_UsesIndexes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many links")
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		// What SQLite plans does not depend on how many there are.
		many := map[db.Kind]int{db.SQLite: 3000, db.Postgres: suitetest.Size(10_000, 20_000)}[d.Kind]
		b := setup(t, d)
		var samples []sample
		folders := []string{id.New(id.Folder), id.New(id.Folder), id.New(id.Folder), id.New(id.Folder)}
		for i := range many {
			for _, m := range []workspace.Membership{b.Mine, b.Foreign} {
				s := plain(m, i)
				s.Title, s.clicks, s.tags = new(fmt.Sprintf("Title %d", i*7919%many)), int64(
					i%100)-1, []string{"common"}
				s.pairs = map[string]string{"k": fmt.Sprint(i)}
				if m.ID() == b.Mine.ID() {
					s.FolderID = &folders[i%len(folders)]
				}
				if i%1000 == 7 {
					s.Note, s.tags = new("a zebrafish"), []string{"common", "rare"}
					s.CanonicalURL, s.ExternalID = "https://www.rare.example/", new(fmt.Sprint("id", i))
					s.ExpiresAt, s.UpdatedAt = new(noon.Add(time.Hour)), noon.Add(time.Minute)
					s.CreatedBy, s.Routing = new(b.Mine.AccountID()), &routing.Routing{
						EndedURL: new("https://ended.example/")}
					s.pairs = map[string]string{"k": "v"}
				}
				samples = append(samples, s)
			}
		}
		put(t, d, samples)
		must.NoError(t, b.IndexAll(t.Context()))
		deep := samples[len(samples)/2]
		byUpdate, byLastClick := (&Order{Field: ByUpdate}).pageOrder(), (&Order{Field: ByLastClick}).pageOrder()
		rare, common := &Filter{Search: new("zebrafish")}, &Filter{Search: new("http")}
		byID, byClicks, byTitle := page.Order{}, (&Order{Field: ByClicks}).pageOrder(), (&Order{Field: ByTitle}).
			pageOrder()
		// Nothing analyzes SQLite in production. PostgreSQL does it by itself, when it likes.
		for _, analyzed := range map[db.Kind][]bool{db.SQLite: {false, true}, db.Postgres: {true}}[d.Kind] {
			if analyzed {
				// VACUUM because a gin index that has not been tidied since many rows came costs
				// much to ask. Not of all tables: those without rows would be scanned.
				statement := map[db.Kind]string{db.SQLite: "ANALYZE",
					db.Postgres: "VACUUM ANALYZE links, link_tags, link_texts, link_text_queue, link_metadata, " +
						"click_totals"}[d.Kind]
				must.Value(d.ExecContext(db.AsOwner(t.Context()), statement))(t)
			}
			for name, c := range map[string]struct {
				filter *Filter
				order  page.Order
				value  any  // of the place to begin at, if not at the beginning
				sorts  bool // a few links, which is no matter
				walks  int  // of folders in the order of ids
			}{
				"by creation":             {},
				"by creation, deep":       {value: deep.ID},
				"the oldest":              {order: page.Order{Ascending: true}},
				"not put away":            {filter: &Filter{Archived: new(false)}},
				"by clicks":               {order: byClicks},
				"by clicks, deep":         {order: byClicks, value: int64(50)},
				"the least clicked":       {order: page.Order{Name: byClicks.Name, Numbers: true, Ascending: true}},
				"by title":                {order: byTitle},
				"by title, deep":          {order: byTitle, value: "title 5"},
				"a rare word":             {filter: rare, sorts: true},
				"a rare word by clicks":   {filter: rare, order: byClicks, sorts: true},
				"a common word":           {filter: common},
				"a common word by clicks": {filter: common, order: byClicks},
				"a rare tag":              {filter: &Filter{Tags: []string{"rare"}}, sorts: true},
				"a rare tag by clicks":    {filter: &Filter{Tags: []string{"rare"}}, order: byClicks, sorts: true},
				"a common tag":            {filter: &Filter{Tags: []string{"common"}}},
				"a common tag, deep":      {filter: &Filter{Tags: []string{"common"}}, value: deep.ID},
				"a common tag by clicks":  {filter: &Filter{Tags: []string{"common"}}, order: byClicks},
				"two tags": {filter: &Filter{Tags: []string{"common", "rare"}, TagMatch: AllTags},
					sorts: true},
				"by update":           {order: byUpdate},
				"by update, deep":     {order: byUpdate, value: noon.UnixMicro()},
				"by last click":       {order: byLastClick},
				"by last click, deep": {order: byLastClick, value: noon.UnixMicro()},
				"external ids":        {filter: &Filter{ExternalIDs: []string{"id7", "id1007"}}, sorts: true},
				"metadata": {filter: &Filter{Metadata: &linkfield.Pair{Key: "k", Value: "v"}},
					sorts: true},
				"a host": {filter: &Filter{Host: new("rare.example")}},
				"a host by last click": {filter: &Filter{Host: new("rare.example")}, order: byLastClick,
					sorts: true},
				"a creator":     {filter: &Filter{CreatedByID: new(b.Mine.AccountID())}},
				"expires":       {filter: &Filter{Expires: Range{From: new(noon)}}, sorts: true},
				"updated":       {filter: &Filter{Updated: Range{From: new(noon.Add(time.Second))}}, sorts: true},
				"routing":       {filter: &Filter{HasRouting: new(true)}, sorts: true},
				"plain":         {filter: &Filter{HasRouting: new(false)}},
				"without a tag": {filter: &Filter{WithoutTags: []string{"rare"}}, sorts: true},
				"not clicked":   {filter: &Filter{LastClicked: Range{To: new(noon)}}},
				"unchecked": {filter: &Filter{
					Destination: []link.DestinationState{link.DestinationUnchecked},
				}},
				"a folder": {filter: &Filter{FolderIDs: folders[1:][:1]}},
				"folders":  {filter: &Filter{FolderIDs: folders[1:]}, walks: 3, sorts: true},
				"folders, deep": {filter: &Filter{FolderIDs: folders[1:]}, value: deep.ID, walks: 3,
					sorts: true},
				"folders by title": {filter: &Filter{FolderIDs: folders[1:]}, order: byTitle},
				"folders and a rare tag": {filter: &Filter{FolderIDs: folders[1:], Tags: []string{"rare"}},
					sorts: true},
				"folders and a common tag": {filter: &Filter{FolderIDs: folders[1:], Tags: []string{"common"}},
					walks: 3, sorts: true},
				"a common tag and a status": {filter: &Filter{Tags: []string{"common"},
					Status: []routing.Status{routing.Active}}},
			} {
				t.Run(name, func(t *testing.T) {
					r := page.Request{Order: c.order, Size: 20}
					if c.value != nil {
						r.After, r.AfterValue = deep.ID, c.value
					}
					if c.order == byID {
						r.AfterValue = nil
					}
					plans := b.plans(t, many/10, c.filter, r)
					// the never clicked are not on that page
					if len(plans) == 0 || name == "by clicks" && len(plans) > 1 {
						t.Errorf("%s: %d queries", name, len(plans))
					}
					if all := strings.Join(plans, "\n"); d.Kind == db.SQLite && walks(all) < c.walks {
						t.Errorf("%s, analyzed %t: the folders are not walked\n%s", name, analyzed, all)
					}
					for _, plan := range plans {
						if scans(d.Kind, plan) || !c.sorts && sorts(d.Kind, plan) {
							t.Errorf("%s, analyzed %t:\n%s", name, analyzed, plan)
						}
					}
					// PostgreSQL rightly scans the totals of half of all links.
					for _, plan := range b.plansOf(t, many/10, c.filter, func(ctx context.Context, q *query) {
						must.Value(q.countClicks(ctx))(t)
					}) {
						if (d.Kind == db.SQLite || strings.Contains(name, "rare")) && scans(d.Kind, plan) {
							t.Errorf("the clicks of %s, analyzed %t:\n%s", name, analyzed, plan)
						}
					}
				})
			}
		}
	})
}

// scans reports whether a plan looks at every row of a table that has one for each link.
func scans(kind db.Kind, plan string) bool {
	if kind == db.Postgres {
		plan = strings.ReplaceAll(plan, "Seq Scan on link_text_queue", "") // which is nearly empty
		return strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "Index")
	}
	return slices.ContainsFunc(strings.Split(plan, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "SCAN") && line != "SCAN page" &&
			!strings.HasPrefix(line, "SCAN link_search VIRTUAL TABLE INDEX 0:M")
	})
}

// walks returns the number of walks in the order of ids that end after a page.
func walks(plan string) int {
	return strings.Count(plan, "USING INDEX links_by_folder (folder_id=?")
}

func sorts(kind db.Kind, plan string) bool {
	if kind == db.Postgres {
		return strings.Contains(plan, "Sort")
	}
	return strings.Contains(plan, "USE TEMP B-TREE FOR")
}

// found returns the number of links of the workspace that a search finds.
func (b *bundle) found(t *testing.T, search string) int {
	t.Helper()
	got := must.Value(b.List(t.Context(), b.Mine, &Filter{Search: &search}, page.Request{Size: 100}))(t)
	return len(got.Items)
}

// TestIndex_FindsTextsInEachState: a search finds a text before and after it was indexed and
// changed, and only its present words.
func TestIndex_FindsTextsInEachState(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/a",
			Fields: linkfield.Change{Note: optional.Set(new("a zebrafish"))}})
		for range 2 * indexBatch / 100 { // more than one batch
			var some []*creation.Input
			for i := range 100 {
				some = append(some,
					&creation.Input{URL: fmt.Sprint("https://example.com/other/", i), Strategy: new(link.Random)})
			}
			must.Value(b.CreateMany(t.Context(), b.Mine, creation.Batch{Links: some}))(t)
		}
		expect := func(state string, zebrafish, antelope int) {
			t.Helper()
			if got := b.found(t, "zebrafish"); got != zebrafish {
				t.Errorf("%s: %d links with the first word, want %d", state, got, zebrafish)
			}
			if got := b.found(t, "antelope"); got != antelope {
				t.Errorf("%s: %d links with the second word, want %d", state, got, antelope)
			}
		}
		index := func() {
			t.Helper()
			must.NoError(t, b.IndexAll(t.Context()))
		}
		expect("created", 1, 0)
		index()
		expect("indexed", 1, 0)
		must.Value(b.Edit.Update(t.Context(), b.Mine, linkfield.Change{
			ID: l.ID, Note: optional.Edit[*string]{Set: true, To: new("an antelope")},
		}))(t)
		expect("changed", 0, 1)
		index()
		expect("changed and indexed", 0, 1)
	})
}

// TestIndex_SkipsLockedLinks: links that a change has locked stay in the queue, and the others are
// indexed meanwhile.
func TestIndex_SkipsLockedLinks(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b := setup(t, d)
	changed := b.Make(t, creation.Input{URL: "https://example.com/changed"})
	b.Make(t, creation.Input{URL: "https://example.com/other"})
	removed := b.Make(t, creation.Input{URL: "https://example.com/removed"})
	waiting := func(ctx context.Context) int64 {
		t.Helper()
		must.NoError(t, b.IndexAll(ctx))
		n := must.Value(d.NewSelect().Table("link_text_queue").Count(db.AsSystem(ctx)))(t)
		return n
	}
	// A queued link that does not exist, as after the deletion of a link that was
	// moved to another workspace.
	const rename = "UPDATE link_text_queue SET link_id = 'none' WHERE link_id = ?"
	must.Value(d.ExecContext(db.AsSystem(t.Context()), rename, removed.ID))(t)
	dbtest.WhileLocked(t, d, "links", "id = '"+changed.ID+"'", func(ctx context.Context) {
		if n := waiting(ctx); n != 1 {
			t.Errorf("%d texts wait while one link is locked, want 1", n)
		}
	})
	if n := waiting(t.Context()); n != 0 {
		t.Errorf("%d texts wait after the change, want 0", n)
	}
}
