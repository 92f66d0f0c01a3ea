package graph

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// listedNodes maps each type that implements Node to the list that shows it. A caller may fetch the
// objects that they can list.
var listedNodes = map[string]string{
	"ApiKey":          ofWorkspace(`apiKeys(first: $n) { edges { node { id __typename } } }`),
	"Event":           ofWorkspace(`auditLog(first: $n) { nodes { id __typename } }`),
	"Click":           ofWorkspace(`clicks(first: $n) { edges { node { id __typename } } }`),
	"Domain":          ofWorkspace(`domains(first: $n) { edges { node { id __typename } } }`),
	"Folder":          ofWorkspace(`folders(first: $n) { edges { node { id __typename } } }`),
	"Invitation":      ofWorkspace(`invitations(first: $n) { edges { node { id __typename } } }`),
	"Link":            ofWorkspace(`links(first: $n) { edges { node { id __typename } } }`),
	"Member":          ofWorkspace(`members(first: $n) { edges { node { id __typename } } }`),
	"ScheduledChange": ofWorkspace(`links(first: $n) { edges { node { scheduledChanges { id __typename } } } }`),
	"Session":         `{ me { sessions(first: 100) { edges { node { id __typename } } } } }`,
	"Task":            ofWorkspace(`tasks(first: $n) { edges { node { id __typename } } }`),
	"User":            `{ me { id __typename } }`,
	"UtmTemplate":     ofWorkspace(`utmTemplates(first: $n) { edges { node { id __typename } } }`),
	"Webhook":         ofWorkspace(`webhooks(first: $n) { edges { node { id __typename } } }`),
	"WebhookDelivery": ofWorkspace(`webhooks(first: 1) { edges { node { deliveries(first: $n) { edges { node {
		id __typename } } ` +
		`} } } }`),
	"Workspace": `query ($w: ID!) { workspace(by: {id: $w}) { id __typename } }`,
}

var eventLog = ofWorkspace(`events(first: $n) { nodes { id __typename } }`)

// nodeWorld is a workspace with one object of each type, and callers with every role and every scope.
type nodeWorld struct {
	*estate
	callers map[string]string // tokens by name
}

func newNodeWorld(t *testing.T, d *db.DB) *nodeWorld {
	t.Helper()
	w := &nodeWorld{newEstate(t, setup(t, d), 1), map[string]string{"anonymous": ""}}
	maps.Copy(w.callers, w.roles(t))
	w.callers["stranger"] = w.person(t, "eve").token
	for _, rule := range workspace.Rules {
		if rule.Keys && rule.Permission != workspace.CreateLinks {
			w.callers["a key with "+string(rule.Permission)] = w.key(t, rule.Permission)
		}
	}
	w.fill(t)
	return w
}

// roles returns the tokens of the owner, and of a new member with each other role, by role.
func (e *estate) roles(t *testing.T) map[string]string {
	t.Helper()
	tokens := map[string]string{string(workspace.Owner): e.ada.token}
	for _, role := range []workspace.Role{workspace.Admin, workspace.Editor, workspace.Viewer} {
		p := e.person(t, "our-"+strings.ToLower(string(role)))
		e.insert(t, &workspace.Member{WorkspaceID: e.ada.workspace.ID(), AccountID: p.accountID, Role: role,
			CreatedAt: db.Instant(time.Now())})
		tokens[string(role)] = p.token
	}
	return tokens
}

func (w *nodeWorld) key(t *testing.T, scopes ...workspace.Permission) (secret string) {
	t.Helper()
	in := apikey.NewKey{Name: "key", Scopes: scopes}
	if slices.Contains(scopes, workspace.CreateLinks) { // a publishable key
		in.DestinationHosts = []string{"example.com"}
	}
	_, secret, err := w.APIKeys.Create(t.Context(), w.ada.workspace, in)
	must.NoError(t, err)
	return secret
}

// fill adds what an estate does not have.
func (w *nodeWorld) fill(t *testing.T) {
	t.Helper()
	now, title := db.Instant(time.Now()), "title of the link"
	folderID := w.ids(t, w.ada.token, "Folder")[0]
	l := w.create(t, w.ada.workspace, creation.Input{URL: "https://example.com/destination",
		Fields: linkfield.Change{Title: optional.Set(&title), Tags: optional.Set([]string{"tag"}),
			FolderID: optional.Set(&folderID), Routing: optional.Set(&routing.Change{
				Rules: optional.Set([]*routing.Rule{{Targets: []*routing.Target{{}}}})})}})
	w.insert(t, &domain.Domain{ID: id.New(id.Domain), WorkspaceID: w.ada.workspace.ID(), Host: "links.example.com",
		CodeSpace: domain.Shared, Token: "token", CreatedAt: now})
	w.insert(t, &account.Identity{Issuer: "https://id.example", Subject: "1", AccountID: w.ada.accountID,
		CreatedAt: now, UsedAt: now})
	_, _, err := w.APIKeys.Create(t.Context(), w.ada.workspace, apikey.NewKey{
		Name: "key", Scopes: []workspace.Permission{workspace.ReadLinks}, FolderIDs: []string{folderID},
	})
	must.NoError(t, err)
	change := linkfield.Change{Title: optional.Set(&title)}
	must.Value(w.Schedule.Add(t.Context(), w.ada.workspace, l.ID, now.Add(time.Hour), change))(t)
	w.finished(t, task.WorkspaceExport, 1, `{"Sections": ["LINKS"]}`,
		`{"sections": [{"name": "links", "records": 1, "sha256": "00"}], "sha256": "00"}`)
}

// eventOf returns the id of the first event about an object.
func (w *nodeWorld) eventOf(t *testing.T, targetID string) (eventID string) {
	t.Helper()
	must.NoError(t, w.db.NewSelect().Model((*audit.Event)(nil)).Column("id").Where("target_id = ?",
		targetID).Order("id").Limit(1).
		Scan(db.AsSystem(t.Context()), &eventID))
	return eventID
}

// ids are the ids that a caller finds in the list of a type; none if the caller may not list it.
func (w *nodeWorld) ids(t *testing.T, token, typeName string) []string {
	t.Helper()
	r := w.ask(t, token, listedNodes[typeName], "w", w.ada.workspace.ID(), "n", 100)
	if typeName == "Event" && r.Codes() != "" { // a caller without AUDIT_READ lists the event log
		r = w.ask(t, token, eventLog, "w", w.ada.workspace.ID(), "n", 100)
	}
	var ids []string
	visit(t, r.Data, func(object map[string]any) {
		if object["__typename"] == typeName {
			ids = append(ids, object["id"].(string))
		}
	})
	return ids
}

// visit calls see with each object in an answer's data.
func visit(t *testing.T, data json.RawMessage, see func(object map[string]any)) {
	t.Helper()
	var root any
	if len(data) > 0 {
		must.NoError(t, json.Unmarshal(data, &root))
	}
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			see(value)
			for _, child := range value {
				walk(child)
			}
		case []any:
			for _, child := range value {
				walk(child)
			}
		}
	}
	walk(root)
}

// TestNode_FetchesWhatTheCallerCanList compares node and nodes with the lists, for each type and each caller.
func TestNode_FetchesWhatTheCallerCanList(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newNodeWorld(t, d)
		polltest.Until(t, "the transactions that began before the events have ended", func() bool {
			r := w.ask(t, w.ada.token, eventLog, "w", w.ada.workspace.ID(), "n", 100)
			return strings.Contains(r.Text, "evt_")
		})
		for typeName := range listedNodes {
			all := w.ids(t, w.ada.token, typeName)
			if len(all) == 0 {
				t.Fatalf("the owner lists no %s", typeName)
			}
			for name, token := range w.callers {
				listed := w.ids(t, token, typeName)
				t.Run(typeName+" as "+name, func(t *testing.T) { w.compare(t, token, typeName, all, listed) })
			}
		}
	})
}

// compare fetches the ids one by one and together, and expects the listed ones and nothing else.
func (w *nodeWorld) compare(t *testing.T, token, typeName string, all, listed []string) {
	t.Helper()
	r := w.ask(t, token, `query ($ids: [ID!]!) { nodes(ids: $ids) { id __typename } }`, "ids", all)
	if token == "" {
		if r.Codes() != "UNAUTHENTICATED" {
			t.Errorf("nodes: %s", r.Text)
		}
		return
	}
	var want []string
	for _, nodeID := range all {
		one := "null"
		if slices.Contains(listed, nodeID) {
			one = fmt.Sprintf(`{"id":%q,"__typename":%q}`, nodeID, typeName)
		}
		want = append(want, one)
		got := w.ask(t, token, `query ($id: ID!) { node(id: $id) { id __typename } }`, "id", nodeID)
		if got.Text != `{"data":{"node":`+one+`}}` {
			t.Errorf("node(%s): %s, want %s", nodeID, got.Text, one)
		}
	}
	if text := `{"data":{"nodes":[` + strings.Join(want, ",") + `]}}`; r.Text != text {
		t.Errorf("nodes: %s, want %s", r.Text, text)
	}
}

// TestNode_CoversEveryTypeWithAnID fails for a type of the schema with an id that is not tested
// above: clients store objects by their ids.
func TestNode_CoversEveryTypeWithAnID(t *testing.T) {
	t.Parallel()
	schema := contract(t)
	var nodes []string
	for _, def := range schema.Types {
		f := def.Fields.ForName("id")
		if f == nil || !def.IsCompositeType() || def.IsAbstractType() {
			continue
		}
		if !slices.Contains(def.Interfaces, "Node") {
			t.Errorf("%s has an id and does not implement Node", def.Name)
		}
		nodes = append(nodes, def.Name)
	}
	slices.Sort(nodes)
	if known := slices.Sorted(maps.Keys(listedNodes)); !slices.Equal(nodes, known) {
		t.Errorf("the schema's nodes are %v, the tested ones %v", nodes, known)
	}
}

// TestNode_DescribesEveryPrefix compares the description of node with the prefixes that it finds.
func TestNode_DescribesEveryPrefix(t *testing.T) {
	t.Parallel()
	var named []string
	for _, match := range regexp.MustCompile(`\b([a-z]{2,3}_) for\s`).FindAllStringSubmatch(
		contract(t).Query.Fields.ForName("node").Description, -1) {
		named = append(named, match[1])
	}
	found := []string{string(id.Account), string(id.Session)}
	for prefix := range setup(t, dbtest.SQLite(t)).nodeLoaders() {
		found = append(found, string(prefix))
	}
	slices.Sort(found)
	if diff := cmp.Diff(found, named); diff != "" {
		t.Errorf("the description of node names other prefixes (-want +got):\n%s", diff)
	}
}

// TestNode_OmitsWhatNoListShows fetches objects that have ended as the owner.
func TestNode_OmitsWhatNoListShows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newNodeWorld(t, d)
		past := db.Instant(time.Now().Add(-time.Hour))
		for _, c := range []struct{ name, typeName, table, column string }{
			{"revoked key", "ApiKey", "api_keys", "revoked_at"},
			{"accepted invitation", "Invitation", "invitations", "accepted_at"},
			{"expired invitation", "Invitation", "invitations", "expires_at"},
			{"revoked session", "Session", "sessions", "revoked_at"},
			{"expired session", "Session", "sessions", "expires_at"},
			{"purged link", "Link", "links", "purged_at"},
			{"deleted workspace", "Workspace", "workspaces", "deleted_at"},
		} {
			t.Run(c.name, func(t *testing.T) {
				nodeID := w.ids(t, w.ada.token, c.typeName)[0]
				fetch := func() string {
					return w.ask(t, w.ada.token, `query ($id: ID!) { node(id: $id) { id } }`, "id", nodeID).Text
				}
				if got := fetch(); !strings.Contains(got, nodeID) {
					t.Fatalf("before: %s", got)
				}
				var was *time.Time
				set := "UPDATE " + c.table + " SET " + c.column + " = ? WHERE id = ?"
				read := "SELECT " + c.column + " FROM " + c.table + " WHERE id = ?"
				must.NoError(t, d.NewRaw(read, nodeID).Scan(db.AsSystem(t.Context()), &was))
				change := func(to any) {
					must.Value(d.NewRaw(set, to, nodeID).Exec(db.AsSystem(t.Context())))(t)
				}
				change(past)
				if got := fetch(); got != `{"data":{"node":null}}` {
					t.Errorf("after: %s", got)
				}
				change(was)
			})
		}
	})
}

// TestNode_RefusesMalformedIDs sends ids that no server has made: they are null, and the database
// sees no value it cannot store.
func TestNode_RefusesMalformedIDs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newNodeWorld(t, d)
		var ids []string
		for prefix := range w.nodeLoaders() {
			for _, digits := range []string{"", "x", strings.Repeat("0", 26), strings.Repeat("7", 26),
				"7" + strings.Repeat("z", 25),
				"3" + strings.Repeat("z", 25), strings.Repeat("0", 52), "7" + strings.Repeat("z", 51), "\x00", "'"} {
				ids = append(ids, string(prefix)+digits)
			}
		}
		ids = append(ids, "", "_", "none_", string(id.Session), string(id.Session)+strings.Repeat("0", 26),
			string(id.Account))
		for part := range slices.Chunk(ids, page.Max) {
			r := w.ask(t, w.ada.token, `query ($ids: [ID!]!) { nodes(ids: $ids) { id } }`, "ids", part)
			if want := `{"data":{"nodes":[` + strings.TrimSuffix(strings.Repeat("null,", len(part)), ",") +
				`]}}`; r.Text != want {
				t.Errorf("%s\n%s", r.Text, w.log)
			}
		}
		for _, c := range ids {
			r := w.ask(t, w.ada.token, `query ($w: ID!, $after: String!) { workspace(by: {id: $w}) { clicks(after: `+
				`$after) { edges { cursor } } } }`,
				"w", w.ada.workspace.ID(), "after", page.Cursor(c))
			if strings.Contains(r.Codes(), "INTERNAL") {
				t.Errorf("as a cursor, %q: %s\n%s", c, r.Text, w.log)
			}
		}
	})
}

// TestNodes_StatementsDoNotGrowWithIDs fetches 1, 10 and 100 objects of each type, with every field.
func TestNodes_StatementsDoNotGrowWithIDs(t *testing.T) {
	t.Parallel()
	dbtest.EachIfExhaustive(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		e := newEstate(t, b, most)
		w := &nodeWorld{estate: e}
		for typeName := range listedNodes {
			ids := w.ids(t, e.ada.token, typeName)
			if len(ids) < most {
				continue // the caller's own account and workspace
			}
			t.Run(typeName, func(t *testing.T) {
				query := fmt.Sprintf(`query ($ids: [ID!]!) { nodes(ids: $ids) { ... on %s { %s } } }`,
					typeName, selection(e.schema, typeName, 2))
				statements := map[int]int64{}
				for _, n := range []int{1, 10, most} {
					before := b.statements.Load()
					r := b.ask(t, e.ada.token, query, "ids", ids[:n])
					statements[n] = b.statements.Load() - before
					if got := strings.Count(r.Text, fmt.Sprintf(`"__typename":%q}`, typeName)); got < n ||
						len(r.Errors) > 0 {
						t.Fatalf("%d ids: %d objects: %.500s", n, got, r.Text)
					}
				}
				if statements[1] != statements[10] || statements[1] != statements[most] {
					t.Errorf("statements for 1, 10 and %d ids: %v", most, statements)
				}
			})
		}
	})
}
