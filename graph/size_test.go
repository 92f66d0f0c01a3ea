package graph

import (
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
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// manyLinks creates links in p's workspace.
func (b *bundle) manyLinks(t *testing.T, p person, n int) {
	t.Helper()
	links := make([]*creation.Input, n)
	for i := range links {
		links[i] = &creation.Input{URL: fmt.Sprintf("https://example.com/many/%d", i)}
	}
	results := must.Value(b.Creation.CreateMany(t.Context(), p.workspace, creation.Batch{Links: links}))(t)
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// TestCost_GrowsWithTheWorkspace searches and counts 600 links: a point for 100 links, for each. A key
// with folders is charged for the 100 links in these, so that the charge does not tell it of others.
func TestCost_GrowsWithTheWorkspace(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada, eve := b.person(t, "ada"), b.person(t, "eve")
		b.manyLinks(t, ada, 500)
		inside := must.Value(b.Folders.Create(t.Context(), ada.workspace, "inside"))(t)
		must.Value(b.Folders.Create(t.Context(), eve.workspace, "inside"))(t)
		links := make([]*creation.Input, 100)
		for i := range links {
			links[i] = &creation.Input{URL: fmt.Sprintf("https://example.com/inside/%d", i),
				Fields: linkfield.Change{FolderID: optional.Set(&inside.ID)}}
		}
		must.Value(b.Creation.CreateMany(t.Context(), ada.workspace, creation.Batch{Links: links}))(t)
		_, fenced, err := b.APIKeys.Create(t.Context(), ada.workspace, apikey.NewKey{Name: "fenced",
			FolderIDs: []string{inside.ID}, Scopes: []workspace.Permission{workspace.ReadLinks}})
		must.NoError(t, err)
		for fields, work := range map[string]int{
			`links(first: 1) { edges { node { id } } }`:                                0,
			`links(first: 1) { totalCount }`:                                           1,
			`links(first: 1, filter: {search: "many"}) { edges { node { id } } }`:      1,
			`links(first: 1, filter: {search: "many"}) { totalCount }`:                 2,
			`a: links(first: 1) { totalCount } b: links(first: 1) { totalCount }`:      2,
			`links(first: 1, filter: {status: [ACTIVE]}) { edges { node { title } } }`: 0,
			`tags(first: 1) { nodes { name } }`:                                        1,
			`folders(first: 1) { nodes { linkCount } }`:                                1,
		} {
			query := `query ($w: ID!) { workspace(by: {id: $w}) { ` + fields + ` } }`
			costOf := func(token string, p person) int {
				got, r := b.askBill(t, token, query, map[string]any{"w": p.workspace.ID()})
				if len(r.Errors) > 0 {
					t.Fatal(r.Text)
				}
				return got
			}
			small := costOf(eve.token, eve)
			got := []int{costOf(ada.token, ada) - small, costOf(fenced, ada) - small}
			if want := []int{6 * work, work}; !slices.Equal(got, want) {
				t.Errorf("%s: %d points more than in an empty workspace, want %d", fields, got, want)
			}
		}
	})
}

// TestCost_OfWorkIsTakenFromTheBudget counts until no point remains: the count is refused, and not executed.
func TestCost_OfWorkIsTakenFromTheBudget(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	ada := setup(t, d).person(t, "ada")
	setup(t, d).manyLinks(t, ada, 500)
	b := setup(t, d, func(c *Config) { c.CostRate = 60 })
	const query = `query ($w: ID!) { workspace(by: {id: $w}) { links(first: 1) { totalCount } } }`
	var r reply
	for range 3 {
		if r = b.ask(t, ada.token, query, "w", ada.workspace.ID()); len(r.Errors) > 0 {
			break
		}
	}
	if r.Codes() != "RATE_LIMITED" || !strings.Contains(r.Text, "budget of 60 points") ||
		!strings.Contains(r.Text, `"retryAfter"`) || strings.Contains(r.Text, "totalCount\":500") {
		t.Error(r.Text)
	}
}

// TestCreateLinks_LargestBatch creates 1,000 links with the longest texts, which fill
// the largest body. How long that takes under the race detector on a busy machine proves nothing,
// so the deadline of operations is out of the way.
func TestCreateLinks_LargestBatch(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ada := withAda(t, d, func(c *Config) { c.Bounds.Deadline = time.Hour })
		var links []any
		text := func(i, length int) string { return fmt.Sprintf("%0*d", length, i) }
		for i := range link.MaxBatch {
			url := "https://example.com/"
			links = append(links, map[string]any{"url": url + text(i, 8192-len(url)), "title": text(i, 200),
				"note": text(i, 2000)})
		}
		const create = `mutation ($w: ID!, $links: [NewLinkInput!]!) { createLinks(input: {workspaceId: $w,
			links: $links, onError: ALL_OR_NOTHING}) { results { created errors { message } } } }`
		got, r := b.askBill(t, ada.token, create, map[string]any{"w": ada.workspace.ID(), "links": links})
		if created := strings.Count(r.Text, `"created":true`); created != link.MaxBatch {
			t.Fatalf("%d of %d links created: %.300s", created, link.MaxBatch, r.Text)
		}
		if texts := link.MaxBatch * (8192 + 200 + 2000) / bytesPerPoint; got < link.MaxBatch+texts ||
			got > b.Bounds.Cost {
			t.Errorf("the batch costs %d points, %d for its texts", got, texts)
		}
	})
}
