package graph

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// screens are the documents of a front end, one for each screen. screenCosts is what they cost.
const (
	screens     = "../testdata/screens/*.graphql"
	screenCosts = "../testdata/screens/costs.txt"
	// maxScreenCost bounds the points of a screen.
	maxScreenCost = 2000
)

var updateScreens = flag.Bool("update", false, "write "+screenCosts)

// screenRoles are the roles of members, from the highest.
var screenRoles = []string{
	string(workspace.Owner), string(workspace.Admin), string(workspace.Editor), string(workspace.Viewer),
}

// forbidden are the parts of screens that editors and viewers may not see.
var forbidden = map[string][]string{
	"members": {"workspace.invitations"}, "settings": {"workspace.apiKeys", "workspace.webhooks"},
}

// screenCost is a row of the table of costs.
type screenCost struct {
	screen, role  string
	points, bytes int
}

// TestScreens_CostLittle requests the screens of a front end in a large workspace, as each role: each is
// one query of fewer than 2,000 points, which has all that the role may see.
func TestScreens_CostLittle(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newScreenWorld(t, d)
		roles := w.roles(t)
		files := must.Value(filepath.Glob(screens))(t)
		if len(files) != 9 {
			t.Fatalf("%d screens: %v", len(files), files)
		}
		var costs []screenCost
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".graphql")
			text := string(must.Value(os.ReadFile(file))(t))
			variables := w.screenVariables(t, name, text)
			var owner any
			for _, role := range screenRoles {
				points, r := w.askBill(t, roles[role], text, variables)
				costs = append(costs, screenCost{name, role, points, len(r.Text)})
				if points >= maxScreenCost {
					t.Errorf("%s of %s costs %d points", name, role, points)
				}
				data := w.checkParts(t, name, role, r)
				if role == screenRoles[0] {
					owner = data
				}
				if name != "login" { // which has the caller's own workspaces
					for _, path := range missing(owner, data, "") {
						if !slices.Contains(forbidden[name], path) {
							t.Errorf("%s of %s lacks %s", name, role, path)
						}
					}
				}
			}
		}
		compareCosts(t, costs)
	})
}

// newScreenWorld returns an estate of 100 objects of each kind, with what the screens show of them.
func newScreenWorld(t *testing.T, d *db.DB) *estate {
	t.Helper()
	e := newEstate(t, setup(t, d), 100)
	var links []any
	for i, l := range e.links[75:] { // the first page
		links = append(links, map[string]any{"id": l.ID, "title": fmt.Sprint("Spring campaign, newsletter ", i),
			"note": "For the newsletter.", "tags": []string{"newsletter", "spring", fmt.Sprint("week ", i)},
			"metadata": []any{map[string]any{"key": "campaign", "value": fmt.Sprint(i)}},
			"routing":  map[string]any{"rules": rules(i%4, 1, 3, "country"), "gate": map[string]any{"notice": "Ads."}}})
	}
	var got struct{ UpdateLinks struct{ Errors []any } }
	e.ask(t, e.ada.token, `mutation ($w: ID!, $links: [UpdateLinkInput!]!) { updateLinks(input: {workspaceId: $w,
		links: $links, onError: ALL_OR_NOTHING}) { errors { message } } }`, "w", e.ada.workspace.ID(), "links", links).
		Into(t, &got)
	if len(got.UpdateLinks.Errors) > 0 {
		t.Fatal(got)
	}
	e.exec(t, "UPDATE domains SET verified_at = created_at")
	e.exec(t, "INSERT INTO webhook_types (webhook_id, workspace_id, type) "+
		"SELECT id, workspace_id, 'LINK_CREATED' FROM webhooks")
	e.exec(t, "UPDATE import_rows SET losses = NULL WHERE number % 4 = 0")
	e.exec(t, "UPDATE import_rows SET source_url = 'https://old.example.com/' || number, code = 'code' || number")
	e.exec(t, "UPDATE import_rows SET outcome = 'FAILED', errors = ? WHERE number > 97",
		`[{"code": "CODE_TAKEN", "message": "The code is in use for another URL.", "field": ["code"]}]`)
	var keys []string
	must.NoError(t, e.db.NewSelect().Table("api_keys").Column("id").Order("id").Scan(db.AsSystem(t.Context()), &keys))
	for i, keyID := range keys {
		n := i % 4
		if i == 99 {
			n = 40
		}
		var folders []string
		for _, l := range e.links[:n] {
			folders = append(folders, *l.FolderID)
		}
		e.exec(t, "UPDATE api_keys SET folders = ?, destination_hosts = '[\"example.com\"]' WHERE id = ?",
			string(must.Value(json.Marshal(folders))(t)), keyID)
	}
	return e
}

func (b *bundle) exec(t *testing.T, statement string, arguments ...any) {
	t.Helper()
	must.Value(b.db.NewRaw(statement, arguments...).Exec(db.AsSystem(t.Context())))(t)
}

// screenVariables returns those of a document, which must be one query of the schema.
func (e *estate) screenVariables(t *testing.T, name, text string) map[string]any {
	t.Helper()
	doc, err := gqlparser.LoadQuery(e.schema, text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(doc.Operations) != 1 || doc.Operations[0].Operation != ast.Query {
		t.Fatalf("%s is not one query", name)
	}
	var taskID string
	must.NoError(t, e.db.NewSelect().Table("import_rows").ColumnExpr("max(task_id)").
		Scan(db.AsSystem(t.Context()), &taskID))
	all := map[string]any{"by": map[string]any{"id": e.ada.workspace.ID()}, "timezone": "Europe/Berlin",
		"id": e.links[99].ID, "filter": nil}
	switch name {
	case "import":
		all["id"] = taskID
	case "links", "sparklines":
		all["filter"] = map[string]any{"search": "newsletter", "status": []string{"ACTIVE"}, "tags": []string{"spring"}}
	}
	variables := map[string]any{}
	for _, v := range doc.Operations[0].VariableDefinitions {
		if value, ok := all[v.Variable]; ok {
			variables[v.Variable] = value
		}
	}
	return variables
}

// checkParts reports errors but for parts that the role may not see, and returns the data.
func (e *estate) checkParts(t *testing.T, name, role string, r reply) (data any) {
	t.Helper()
	var got struct {
		Data   any
		Errors []struct {
			Path       []any
			Extensions struct{ Code string }
		}
	}
	must.NoError(t, json.Unmarshal([]byte(r.Text), &got))
	var refused, want []string
	for _, one := range got.Errors {
		path := strings.ReplaceAll(strings.Trim(fmt.Sprint(one.Path), "[]"), " ", ".")
		if one.Extensions.Code != "FORBIDDEN" {
			t.Errorf("%s of %s: %s at %s", name, role, one.Extensions.Code, path)
		}
		refused = append(refused, path)
	}
	if role == string(workspace.Editor) || role == string(workspace.Viewer) {
		want = forbidden[name]
	}
	slices.Sort(refused)
	if diff := cmp.Diff(want, refused); diff != "" {
		t.Errorf("%s of %s is refused (-want +got):\n%s", name, role, diff)
	}
	return got.Data
}

// missing returns the paths of what is null or empty in some data, but not in the owner's.
func missing(owner, got any, path string) (paths []string) {
	switch owner := owner.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return []string{path}
		}
		for name, value := range owner {
			paths = append(paths, missing(value, object[name], strings.TrimPrefix(path+"."+name, "."))...)
		}
	case []any:
		items, ok := got.([]any)
		if !ok || len(items) != len(owner) && !strings.HasSuffix(path, "permissions") {
			return []string{path}
		}
		for i := range min(len(owner), len(items)) {
			paths = append(paths, missing(owner[i], items[i], fmt.Sprintf("%s.%d", path, i))...)
		}
	default:
		if owner != nil && got == nil {
			return []string{path}
		}
	}
	return paths
}

// compareCosts compares the costs of screens with the golden table: the points, and the bytes within a
// tenth, since times have different lengths.
func compareCosts(t *testing.T, costs []screenCost) {
	t.Helper()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "screen\trole\tpoints\tbytes")
	for _, c := range costs {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", c.screen, c.role, c.points, c.bytes)
	}
	must.NoError(t, w.Flush())
	t.Log("\n" + table.String())
	if *updateScreens {
		must.NoError(t, os.WriteFile(screenCosts, []byte(table.String()), 0o644))
		return
	}
	lines := strings.Split(strings.TrimSpace(string(must.Value(os.ReadFile(screenCosts))(t))), "\n")[1:]
	if len(lines) != len(costs) {
		t.Fatalf("%d rows in %s, want %d: write it with -update", len(lines), screenCosts, len(costs))
	}
	for i, c := range costs {
		var want screenCost
		must.Value(fmt.Sscan(lines[i], &want.screen, &want.role, &want.points, &want.bytes))(t)
		more := c.bytes - want.bytes
		if c.screen != want.screen || c.role != want.role || c.points != want.points ||
			max(more, -more) > want.bytes/10 {
			t.Errorf("%+v, want %+v: change the query, or write %s with -update", c, want, screenCosts)
		}
	}
}
