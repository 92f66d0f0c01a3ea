package graph

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// TestTotalCount_IsOfWhatTheCallerSees compares the number of each list with its items, for callers with
// every role and scope.
func TestTotalCount_IsOfWhatTheCallerSees(t *testing.T) {
	t.Parallel()
	dbtest.EachIfExhaustive(t, func(t *testing.T, d *db.DB) {
		w := newNodeWorld(t, d)
		counted := 0
		for _, f := range contract(t).Types["Workspace"].Fields {
			of := contract(t).Types[f.Type.Name()]
			if of.Fields.ForName("totalCount") == nil {
				continue
			}
			for caller, token := range w.callers {
				var got struct {
					Workspace *struct {
						List *struct {
							TotalCount int
							Nodes      []struct{ Typename string }
						}
					}
				}
				r := w.ask(t, token, fmt.Sprintf(`query ($w: ID!) { workspace(by: {id: $w}) {
					list: %s(first: 100) { totalCount nodes { typename: __typename } } } }`, f.Name),
					"w", w.ada.workspace.ID())
				must.NoError(t, json.Unmarshal(r.Data, &got))
				if got.Workspace == nil || got.Workspace.List == nil {
					if caller == "OWNER" {
						t.Errorf("%s: %s", f.Name, r.Text)
					}
					continue
				}
				list := got.Workspace.List
				if list.TotalCount != len(list.Nodes) {
					t.Errorf("%s: %d %s, %d listed", caller, list.TotalCount, f.Name, len(list.Nodes))
				}
				if caller == "OWNER" && len(list.Nodes) > 0 {
					counted++
				}
			}
		}
		if counted < 8 {
			t.Errorf("%d lists with items are counted", counted)
		}
		r := w.ask(t, w.ada.token, `query ($w: ID!) { workspace(by: {id: $w}) {
			tags(first: 1, prefix: "t") { totalCount } none: tags(prefix: "none") { totalCount } } }`,
			"w", w.ada.workspace.ID())
		if !strings.Contains(r.Text, `"none":{"totalCount":0}`) {
			t.Errorf("%s", r.Text)
		}
	})
}

// TestClickCount_IsTheSumOfTheLinks that the filter selects and the caller sees.
func TestClickCount_IsTheSumOfTheLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		e := newEstate(t, setup(t, d), 4)
		folder, tag := *e.links[0].FolderID, "tag1"
		must.Value(e.Edit.Delete(t.Context(), e.ada.workspace, e.links[3].ID))(t)
		_, fenced, err := e.APIKeys.Create(t.Context(), e.ada.workspace, apikey.NewKey{Name: "fenced",
			FolderIDs: []string{folder, *e.links[1].FolderID}, Scopes: []workspace.Permission{workspace.ReadLinks}})
		must.NoError(t, err)
		for name, filter := range map[string]map[string]any{
			"all": nil, "deleted": {"status": []string{"DELETED"}}, "a folder": {"folderIds": []string{folder}},
			"a tag": {"tags": []string{tag}}, "a word": {"search": "example.com/2"}, "none": {"tags": []string{"none"}},
		} {
			counts := map[string]int64{}
			for caller, token := range map[string]string{"owner": e.ada.token, "fenced": fenced} {
				type counted struct{ ClickCount int64 }
				var got struct {
					Workspace struct {
						Links struct {
							counted
							Nodes []counted
						}
					}
				}
				e.ask(t, token, `query ($w: ID!, $f: LinkFilter) { workspace(by: {id: $w}) {
					links(first: 100, filter: $f) { clickCount nodes { clickCount } } } }`,
					"w", e.ada.workspace.ID(), "f", filter).Into(t, &got)
				sum := int64(0)
				for _, l := range got.Workspace.Links.Nodes {
					sum += l.ClickCount
				}
				if counts[caller] = got.Workspace.Links.ClickCount; counts[caller] != sum {
					t.Errorf("%s of %s: %d clicks, want %d", name, caller, counts[caller], sum)
				}
			}
			if name == "all" && (counts["owner"] == 0 || counts["fenced"] == 0 || counts["owner"] <= counts["fenced"]) {
				t.Errorf("%s: %v clicks", name, counts)
			}
		}
	})
}

// TestClickCount_FailsAlone: the page is there when the budget does not suffice for the sum.
func TestClickCount_FailsAlone(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	ada := setup(t, d).person(t, "ada")
	setup(t, d).manyLinks(t, ada, 500)
	b := setup(t, d, func(c *Config) { c.CostRate = 26 })
	r := b.ask(t, ada.token,
		`query ($w: ID!) { workspace(by: {id: $w}) { links(first: 1) { clickCount nodes { id } } } }`,
		"w", ada.workspace.ID())
	if r.Codes() != "RATE_LIMITED" || !strings.Contains(string(r.Data), `{"clickCount":null,"nodes":[{"id":"lnk_`) {
		t.Errorf("%s", r.Text)
	}
}
