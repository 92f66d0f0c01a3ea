package graph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// numberQueries returns a query for each way from a workspace to an object with numbers, which
// selects these. A way does not lead through a type twice.
func numberQueries(schema *ast.Schema) (queries []string) {
	isNumber := func(f *ast.FieldDefinition) bool {
		return slices.Contains([]string{"Int", "Int64", "Float"}, f.Type.Name())
	}
	var walk func(typeName, before, after string, above []string)
	walk = func(typeName, before, after string, above []string) {
		def := schema.Types[typeName]
		if slices.Contains(above, typeName) || strings.HasSuffix(typeName, "Edge") {
			return
		}
		above = append(slices.Clip(above), typeName)
		for _, one := range schema.GetPossibleTypes(def) {
			if one.Name != typeName {
				walk(one.Name, before+"... on "+one.Name+" { ", after+" }", above)
			}
		}
		var leaves []string
		for _, f := range def.Fields {
			// fields of one name may differ in their types, and their numbers need a name
			selected := def.Name + "_" + f.Name + ": " + f.Name + numberArguments(schema, def, f)
			switch {
			case strings.HasPrefix(f.Name, "__"):
			case isNumber(f):
				leaves = append(leaves, selected)
			case !schema.Types[f.Type.Name()].IsLeafType():
				walk(f.Type.Name(), before+selected+" { ", after+" }", above)
			}
		}
		if len(leaves) > 0 {
			queries = append(queries, before+strings.Join(leaves, " ")+after)
		}
	}
	walk("Workspace", "query ($w: ID!) { workspace(by: {id: $w}) { ", " } }", nil)
	return queries
}

// numberArguments are the arguments that a field needs, with a small page.
func numberArguments(schema *ast.Schema, def *ast.Definition, f *ast.FieldDefinition) string {
	if given := edgeArguments[def.Name+"."+f.Name]; given != "" {
		return given
	}
	var all []string
	for _, a := range f.Arguments {
		switch {
		case a.Name == "first":
			all = append(all, "first: 4")
		case !a.Type.NonNull || a.DefaultValue != nil:
		case a.Type.Name() == "Time":
			all = append(all, a.Name+`: "2026-01-01T00:00:00Z"`)
		case schema.Types[a.Type.Name()].Kind == ast.Enum:
			all = append(all, a.Name+": "+schema.Types[a.Type.Name()].EnumValues[0].Name)
		default:
			all = append(all, a.Name+`: "x"`)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "(" + strings.Join(all, ", ") + ")"
}

// readNumbers reads all numbers of the workspace, and returns the answers by the queries, with the
// codes of their errors, and the fields whose numbers they have.
func (w *nodeWorld) readNumbers(t *testing.T, token string) (answers map[string]string, fields map[string]bool) {
	t.Helper()
	answers, fields = map[string]string{}, map[string]bool{}
	for _, query := range numberQueries(contract(t)) {
		r := w.ask(t, token, query, "w", w.ada.workspace.ID())
		answers[query] = r.Codes() + " " + string(must.Value(json.Marshal(r.Data))(t))
		visit(t, r.Data, func(object map[string]any) {
			for name, value := range object {
				if _, ok := value.(float64); ok {
					fields[strings.Replace(name, "_", ".", 1)] = true
				}
			}
		})
	}
	return answers, fields
}

// TestFence_ReadsNoNumberOfOthers: whatever happens to links outside of the folders of a key, no
// number that it can read changes. One without folders reads it.
func TestFence_ReadsNoNumberOfOthers(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, dbtest.MigratedSQLite(t))
	inside := w.ids(t, w.ada.token, "Folder")[0]
	key := func(folders ...string) string {
		_, secret, err := w.APIKeys.Create(t.Context(), w.ada.workspace, apikey.NewKey{
			Name: "walk", FolderIDs: folders,
			Scopes: []workspace.Permission{workspace.ReadLinks, workspace.WriteLinks, workspace.ReadStats,
				workspace.ReadDomains},
		})
		must.NoError(t, err)
		return secret
	}
	fenced, open := key(inside), key()
	before, _ := w.readNumbers(t, fenced)

	clicks := clicktest.New(t, w.db, time.Now)
	clicktest.Run(t, clicks.Recorder)
	for i := range 3 {
		l := w.create(t, w.ada.workspace, creation.Input{URL: fmt.Sprintf("https://example.com/outside/%d", i),
			Fields: linkfield.Change{Tags: optional.Set([]string{"tag", "other"}),
				MaxClicks: optional.Set(new(int64(9)))}})
		must.Value(w.Edit.Update(t.Context(), w.ada.workspace,
			linkfield.Change{ID: l.ID, Title: optional.Set(new("changed"))}))(t)
		must.Value(w.Schedule.Add(t.Context(), w.ada.workspace, l.ID, db.Instant(time.Now()).Add(time.Hour),
			linkfield.Change{Title: optional.Set(new("again"))}))(t)
		clicks.Record(&click.Click{WorkspaceID: w.ada.workspace.ID(), LinkID: l.ID, ClickedAt: time.Now(), Status: 302})
	}
	must.NoError(t, clicks.Flush(t.Context()))

	after, _ := w.readNumbers(t, fenced)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a key with folders reads numbers of other links (-before +after):\n%s", diff)
	}
	all, read := w.readNumbers(t, open)
	for _, field := range []string{
		"Quota.used", "LinkConnection.totalCount", "Tag.linkCount", "Folder.linkCount", "Stats.clicks",
		"Link.clickCount", "StatsSlice.clicks", "LinkVersion.number", "Task.done", "ImportCount.rows",
		"UnmatchedRequest.requests", "Click.status", "Event.version",
	} {
		if !read[field] {
			t.Errorf("the walk does not read %s", field)
		}
	}
	must.Value(w.db.ExecContext(db.AsSystem(t.Context()), "UPDATE workspaces SET link_quota = 3"))(t)
	refused := w.ask(t, fenced, `mutation ($w: ID!) { createLink(input: {workspaceId: $w,
		url: "https://example.com/beyond"}) { errors { code message } } }`, "w", w.ada.workspace.ID())
	if !strings.Contains(refused.Text, "QUOTA_EXCEEDED") || strings.Contains(refused.Text, "made the 3 links") {
		t.Errorf("the quota of new links of a key with folders: %s", refused.Text)
	}
	for query := range all {
		if strings.Contains(query, "Workspace_linkQuota") && !strings.HasPrefix(after[query], "FORBIDDEN ") {
			t.Errorf("linkQuota of a key with folders: %s", after[query])
		}
	}
}
