package graph

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// TestCost_ChargesLongerLists: lists cost their usual size, and further items when they are returned.
func TestCost_ChargesLongerLists(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	b, ada := withAda(t, d)
	var folders []string
	for i := range 20 {
		folders = append(folders, must.Value(b.Folders.Create(t.Context(), ada.workspace, fmt.Sprint(i)))(t).ID)
	}
	withKeys := func(name string, sizes ...int) {
		for _, n := range sizes {
			_, _, err := b.APIKeys.Create(t.Context(), ada.workspace, apikey.NewKey{Name: name, FolderIDs: folders[:n],
				Scopes: []workspace.Permission{workspace.ReadLinks}})
			must.NoError(t, err)
		}
	}
	withKeys("narrow", 1, 5)
	const page, usual = `query ($w: ID!) { workspace(by: {id: $w}) { apiKeys(first: 2) { nodes { name `, 1 + 1 + 2*(1+1)
	w := map[string]any{"w": ada.workspace.ID()}
	got, r := b.askBill(t, ada.token, page+`folders { id name } } } } }`, w)
	if got != usual+2*(1+3*2) || len(r.Errors) > 0 {
		t.Errorf("a short list does not pay for a long one: %d points: %s", got, r.Text)
	}
	link := b.create(t, ada.workspace, creation.Input{URL: "https://example.com/"})
	withKeys("wide", 20, 20)
	var rules []any
	for i := range 10 {
		targets := []any{map[string]any{"url": "https://example.com/a"}, map[string]any{"url": "https://example.com/b"}}
		rules = append(rules, map[string]any{"name": fmt.Sprint(i), "targets": targets,
			"when": []any{map[string]any{"country": []string{"DE"}}}})
	}
	r = b.ask(t, ada.token, `mutation ($id: ID!, $rules: [RoutingRuleInput!]!) { updateLink(input: {id: $id,
		routing: {rules: $rules}}) { errors { code message field } } }`, "id", link.ID, "rules", rules)
	if strings.Contains(r.Text, `"code"`) {
		t.Fatal(r.Text)
	}
	for _, c := range []struct {
		name, query string
		variables   map[string]any
		want        int
	}{
		{"long lists", page + `folders { id name } } } } }`, w, usual + 2*(1+3*2) + (40-6)*2},
		{"aliases", page + `a: folders { id } b: folders { id } } } } }`, w, usual + 2*2*(1+3) + 2*(40-6)},
		{"a field twice", page + `folders { id } folders { name } } } } }`, w, usual + 2*2*(1+3) + (40-6)*2},
		{"a fragment", page + `...F } } } } fragment F on ApiKey { folders { id name } }`, w,
			usual + 2*(1+3*2) + (40-6)*2},
		{"lists in lists", `query ($id: ID!) { link(by: {id: $id}) { routing { rules { name targets { name url }
			} } } }`, map[string]any{"id": link.ID}, 4 + (1 + 3*(1+1+3*6) - 9) + 7*(1+1+3*6)},
	} {
		if got, r := b.askBill(t, ada.token, c.query, c.variables); got != c.want || len(r.Errors) > 0 {
			t.Errorf("%s: %d points, want %d: %s", c.name, got, c.want, r.Text)
		}
	}

	poor := setup(t, d, func(c *Config) { c.CostRate = 40 })
	r = poor.ask(t, ada.token, page+`folders { id name } } } } }`, "w", ada.workspace.ID())
	if r.Status != http.StatusOK || r.Codes() != "RATE_LIMITED RATE_LIMITED" ||
		strings.Count(r.Text, `{"name":"wide","folders":null}`) != 2 ||
		!strings.Contains(r.Text, `"path":["workspace","apiKeys","nodes",0,"folders"]`) {
		t.Errorf("without a budget: %d %s", r.Status, r.Text)
	}
}
