package graph

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/console"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// screenCosts is the table of what the queries of the console cost.
	screenCosts = "../testdata/screens.txt"
	// maxScreenCost bounds the points of a screen.
	maxScreenCost = 2000
)

var updateScreens = flag.Bool("update", false, "write "+screenCosts)

// screenRoles are the roles of members, from the highest.
var screenRoles = []string{
	string(workspace.Owner), string(workspace.Admin), string(workspace.Editor), string(workspace.Viewer),
}

// screen is a query of the console, or a part of a screen that it requests by itself.
type screen struct {
	name      string // of the operation, and what is shown of it after a hyphen
	roles     int    // how many roles see it, from the highest
	isOwn     bool   // what it shows is the caller's own
	variables map[string]any
}

// screenCost is a row of the table of costs.
type screenCost struct {
	screen, role  string
	points, bytes int
}

// TestScreens_CostLittle requests the screens of the console in a large workspace, as each role: each is
// one query of fewer than 2,000 points, which has all that the role may see.
func TestScreens_CostLittle(t *testing.T) {
	t.Parallel()
	documents := map[string]string{}
	for name, text := range console.Documents() {
		if operation, isQuery := strings.CutPrefix(text, "query "); isQuery {
			operation = operation[:strings.IndexAny(operation, "( ")]
			documents[operation] = text
			if name != "console/"+operation {
				t.Errorf("%s has the operation %s", name, operation)
			}
		}
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newScreenWorld(t, d)
		roles, seen := w.roles(t), map[string]bool{}
		var costs []screenCost
		for _, s := range w.screens(t) {
			operation, _, _ := strings.Cut(s.name, "-")
			seen[operation] = true
			var owner any
			for _, role := range screenRoles[:s.roles] {
				points, r := w.askBill(t, roles[role], documents[operation], s.variables)
				costs = append(costs, screenCost{s.name, role, points, len(r.Text)})
				if points >= maxScreenCost {
					t.Errorf("%s of %s costs %d points", s.name, role, points)
				}
				var got struct{ Data, Errors any }
				must.NoError(t, json.Unmarshal([]byte(r.Text), &got))
				if got.Errors != nil {
					t.Errorf("%s of %s: %v", s.name, role, got.Errors)
				}
				if owner == nil {
					owner = got.Data
				}
				if lacking := missing(owner, got.Data, ""); !s.isOwn && len(lacking) > 0 {
					t.Errorf("%s of %s lacks %v", s.name, role, lacking)
				}
			}
		}
		for operation := range documents {
			if !seen[operation] {
				t.Errorf("the query %s is not tried", operation)
			}
		}
		compareCosts(t, costs)
	})
}

// screens are all queries of the console, as it sends them.
func (e *estate) screens(t *testing.T) []screen {
	t.Helper()
	last := func(table, column string) (id string) {
		must.NoError(t, e.db.NewSelect().Table(table).ColumnExpr("max(?)", bun.Ident(column)).
			Scan(db.AsSystem(t.Context()), &id))
		return id
	}
	with := func(more map[string]any) map[string]any {
		variables := map[string]any{"by": map[string]any{"id": e.ada.workspace.ID()}, "timezone": "Europe/Berlin"}
		maps.Copy(variables, more)
		return variables
	}
	of := func(id string) map[string]any { return map[string]any{"id": id} }
	inPlace, linkID := with(nil), e.links[99].ID
	tab := func(name string) map[string]any {
		variables := map[string]any{"id": linkID, "timezone": "Europe/Berlin", "interval": "DAY", "versions": 10,
			"withClicks": false, "withDetails": false, "withRules": false, "withHistory": false}
		variables[name] = true
		return variables
	}
	link := map[string]any{"linkId": linkID, "by": inPlace["by"]}
	return []screen{
		{"LoginOptions", 4, false, nil}, {"Me", 4, true, nil}, {"Account", 4, true, nil},
		{"Links", 4, false, with(map[string]any{"first": 25, "filter": map[string]any{"search": "newsletter",
			"status": []string{"ACTIVE"}, "tags": []string{"spring"}}})},
		{"Link-clicks", 4, false, tab("withClicks")}, {"Link-details", 4, false, tab("withDetails")},
		{"Link-rules", 4, false, tab("withRules")}, {"Link-history", 4, false, tab("withHistory")},
		{"LinkQr", 4, false, of(linkID)},
		{"LinkAsOf", 4, false, map[string]any{"id": linkID, "at": "2026-11-20T12:00:00Z"}},
		{"ExplainRedirect", 4, false, of(linkID)},
		{"SimulateRouting", 4, false, map[string]any{"id": linkID, "routing": map[string]any{}}},
		{"PreviewCode", 3, false,
			map[string]any{"workspaceId": e.ada.workspace.ID(), "url": "https://example.com/new"}},
		{"Dashboard", 4, false, with(map[string]any{"interval": "DAY"})}, {"Tags", 4, false, inPlace},
		{"MoreFolders", 4, false, inPlace}, {"Domains", 4, false, inPlace},
		{"DomainFiles", 4, false, of(last("domains", "id"))},
		{"People", 4, false, with(map[string]any{"isManager": false})},
		{"People-manager", 2, false, with(map[string]any{"isManager": true})},
		{"Keys", 2, false, inPlace}, {"Webhooks", 2, false, inPlace},
		{"Deliveries", 2, false, of(last("webhooks", "id"))},
		{"Move", 4, false, inPlace}, {"ExportLinks", 4, false, inPlace},
		{"Task", 4, false, of(last("import_rows", "task_id"))},
		{"AuditLog", 2, false, inPlace}, {"Events", 4, false, link}, {"Settings", 2, false, inPlace},
	}
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

// TestMember_HasSecondFactor tells those who manage members who has an authenticator app.
func TestMember_HasSecondFactor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		e := newEstate(t, setup(t, d), 1)
		roles := e.roles(t)
		e.exec(t, "INSERT INTO totp (account_id, secret, created_at, enrolled_at) "+
			"SELECT account_id, ?, created_at, created_at FROM members WHERE role = 'EDITOR'", []byte("secret"))
		e.exec(t, "INSERT INTO totp (account_id, secret, created_at) "+
			"SELECT account_id, ?, created_at FROM members WHERE role = 'VIEWER'", []byte("begun"))
		for role, mayKnow := range map[string]bool{"OWNER": true, "ADMIN": true, "EDITOR": false, "VIEWER": false} {
			var got struct {
				Workspace struct {
					Members struct {
						Nodes []struct {
							Role            string
							HasSecondFactor *bool
						}
					}
				}
			}
			e.ask(t, roles[role], `query ($w: ID!) { workspace(by: {id: $w}) { members(first: 100) {
				nodes { role hasSecondFactor } } } }`, "w", e.ada.workspace.ID()).Into(t, &got)
			for _, member := range got.Workspace.Members.Nodes {
				known := member.HasSecondFactor
				if (known != nil) != mayKnow || mayKnow && *known != (member.Role == "EDITOR") {
					t.Errorf("%s sees of the %s: %v", role, member.Role, known)
				}
			}
		}
	})
}
