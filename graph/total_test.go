package graph

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
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
