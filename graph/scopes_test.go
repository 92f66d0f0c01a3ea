package graph

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// unscoped are the types that require no permission, and why.
var unscoped = map[string]string{
	"Query": "a root", "Mutation": "a root", "Subscription": "a root",
	"QrStyle":  "settings of a workspace, as Workspace",
	"PageInfo": "positions in a page", "UserError": "errors of the caller's own input",
	"Event":         "its fields and nodes need AUDIT_READ or the permission of its type, see workspace.Store",
	"PlatformStats": "public", "LoginOptions": "public", "RateLimit": "the caller's own",
	"Session":       "a person's own: a key has none",
	"SecondFactors": "the caller's own", "SsoIdentity": "the caller's own", "LoginChallenge": "the caller's own",
	"Workspace": "each member and each key reads its own settings; its connections are types of their own",
}

// partsOfRouting are the types that only a Link, its routing, a RedirectExplanation, a
// RoutingSimulation or an event leads to.
var partsOfRouting = []string{
	"DestinationCheck", "FieldChange", "LinkCard", "LinkGate", "Metadata", "Period", "QrCode", "QueryCondition",
	"QueryForwarding", "RedirectExplanation",
	"RedirectStep", "RoutingEnd", "RoutingFlow", "RoutingRule", "RoutingSimulation", "RoutingTarget",
	"RoutingTest", "RoutingWarning", "Utm", "VisitCondition", "VisitReading", "VisitSample", "WeeklySchedule",
}

// TestTypePermissions_CoverTheSchema fails for a new type until it has a permission, or a reason why it needs none.
func TestTypePermissions_CoverTheSchema(t *testing.T) {
	t.Parallel()
	for _, def := range contract(t).Types {
		if def.BuiltIn || def.Kind != ast.Object || isContainer(def.Name) {
			continue
		}
		if slices.Contains(partsOfRouting, def.Name) {
			continue
		}
		if (typePermissions[def.Name] == "") == (unscoped[def.Name] == "") {
			t.Errorf("%s must be in typePermissions or in unscoped", def.Name)
		}
	}
	for name := range typePermissions {
		if contract(t).Types[name] == nil {
			t.Errorf("typePermissions has %s, which the schema has not", name)
		}
	}
}

func isContainer(name string) bool {
	return slices.ContainsFunc([]string{"Payload", "Result", "Connection", "Edge"},
		func(s string) bool { return strings.HasSuffix(name, s) })
}

// edge is a field that leads from one object to another.
type edge struct {
	from, field, to string
	connection      bool
}

// edges returns all edges of the schema, except those of roots, payloads and connections.
func edges(schema *ast.Schema) (all []edge) {
	for _, def := range schema.Types {
		if def.BuiltIn || def.Kind != ast.Object || isContainer(def.Name) || isRootType(def.Name) ||
			slices.Contains(partsOfRouting, def.Name) || def.Name == "LinkRouting" ||
			def.Name == "UtmTemplate" {
			continue
		}
		for _, f := range def.Fields {
			e := edge{from: def.Name, field: f.Name, to: f.Type.Name()}
			if item, ok := strings.CutSuffix(e.to, "Connection"); ok {
				e.to, e.connection = schema.Types[item+"Edge"].Fields.ForName("node").Type.Name(), true
			}
			if schema.Types[e.to].Kind == ast.Object && !isContainer(e.to) && e.field != "asOf" &&
				!slices.Contains([]string{"FieldChange", "Metadata", "UserError", "WebhookAttempt"}, e.to) {
				all = append(all, e)
			}
		}
	}
	return all
}

// ways lead to an object of a type that has edges and no id. The variable $w is a workspace.
var ways = map[string]string{
	"Event": `query ($w: ID!) { workspace(by: {id: $w}) { events { edges { node { %s } } } } }`,
	"LinkVersion": `query ($w: ID!) { workspace(by: {id: $w}) {
		links(first: 1) { edges { node { versions(first: 1) { edges { node {
		%s } } } } } } } }`,
	"ScheduledChange": `query ($w: ID!) { workspace(by: {id: $w}) {
		links(first: 1) { edges { node { scheduledChanges { %s } } } } } }`,
	"LinkRouting": `query ($w: ID!) { workspace(by: {id: $w}) { links(first: 1) { nodes { routing { %s } } } } }`,
	"RoutingTarget": `query ($w: ID!) { workspace(by: {id: $w}) {
		links(first: 1) { nodes { routing { rules { targets { %s } } } } } } }`,
	"CodePreview":  `query ($w: ID!) { previewCode(workspaceId: $w, url: "https://example.com/destination") { %s } }`,
	"ImportReport": ofReport("IMPORT", `%s`), "ImportHost": ofReport("IMPORT", `hosts { %s }`),
	"ImportRow":        ofReport("IMPORT", `rows(first: 1) { nodes { %s } }`),
	"ParityReport":     ofReport("PARITY_CHECK", `%s`),
	"ParityDifference": ofReport("PARITY_CHECK", `differences(first: 1) { nodes { %s } }`),
	"WorkspaceArchive": ofReport("WORKSPACE_EXPORT", `%s`),
	"Stats":            `query ($w: ID!) { workspace(by: {id: $w}) { stats { %s } } }`,
	"StatsSlice":       `query ($w: ID!) { workspace(by: {id: $w}) { stats { breakdown(by: LINK) { %s } } } }`,
}

// ofReport leads to a part of the report of a task of a kind.
func ofReport(kind, part string) string {
	of := map[string]string{"IMPORT": "ImportReport", "PARITY_CHECK": "ParityReport",
		"WORKSPACE_EXPORT": "WorkspaceArchive"}[kind]
	return `query ($w: ID!) { workspace(by: {id: $w}) { tasks(first: 1, filter: {kinds: [` + kind +
		`]}) { nodes { report { ... on ` +
		of + ` { ` + part + ` } } } } } }`
}

// edgeArguments are those of fields that need some.
var edgeArguments = map[string]string{"Stats.series": "(interval: DAY)", "Stats.breakdown": "(by: LINK)"}

// follow selects an edge of an object that the owner sees, and every scalar field of the object at its end.
func (w *nodeWorld) follow(t *testing.T, token string, e edge) reply {
	t.Helper()
	leaves := selection(contract(t), e.to, 0)
	if e.connection {
		leaves = "edges { node { " + leaves + " } }"
	}
	selected := "edge: " + e.field + edgeArguments[e.from+"."+e.field] + " { " + leaves + " }"
	if way, ok := ways[e.from]; ok {
		return w.ask(t, token, fmt.Sprintf(way, selected), "w", w.ada.workspace.ID())
	}
	ids := w.ids(t, w.ada.token, e.from)
	if len(ids) == 0 {
		t.Fatalf("no %s found: add a query for it to ways", e.from)
	}
	var r reply
	for _, one := range ids {
		r = w.ask(t, token, fmt.Sprintf(`query ($id: ID!) { node(id: $id) { ... on %s { %s } } }`, e.from, selected),
			"id", one)
		if found(t, r, e) {
			break
		}
	}
	return r
}

// found reports whether an answer has an object at the edge.
func found(t *testing.T, r reply, e edge) (yes bool) {
	t.Helper()
	visit(t, r.Data, func(object map[string]any) {
		if at, ok := object["edge"]; ok {
			yes = yes || strings.Contains(fmt.Sprint(at), "__typename:"+e.to)
		}
	})
	return yes
}

// needed are the scopes that each type requires, written down apart from typePermissions. Objects
// of the types in never are read by persons alone.
var (
	needed = map[string]string{
		"Event": "LINKS_READ", "LinkVersion": "LINKS_READ",
		"ScheduledChange": "LINKS_READ",
		"Click":           "STATS_READ", "CodePreview": "LINKS_READ", "Domain": "DOMAINS_READ",
		"Quota": "LINKS_READ", "Folder": "LINKS_READ",
		"Latency": "STATS_READ", "Link": "LINKS_READ", "LinkRouting": "LINKS_READ", "UtmTemplate": "LINKS_READ",
		"Tag": "LINKS_READ", "LinkOrigin": "LINKS_READ", "Task": "LINKS_READ", "ImportReport": "LINKS_READ",
		"ImportCount":     "LINKS_READ",
		"ImportLossCount": "LINKS_READ", "ImportHost": "LINKS_READ", "ImportRow": "LINKS_READ",
		"ImportLoss":   "LINKS_READ",
		"ParityReport": "LINKS_READ", "ParityCount": "LINKS_READ", "ParityDifference": "LINKS_READ",
		"WorkspaceArchive": "LINKS_READ", "ArchiveSection": "LINKS_READ",
		"Member": "MEMBERS_READ", "UnmatchedRequest": "STATS_READ",
		"Stats":      "STATS_READ",
		"StatsPoint": "STATS_READ", "StatsSlice": "STATS_READ", "User": "MEMBERS_READ",
		"Webhook": "WEBHOOKS_WRITE", "WebhookDelivery": "WEBHOOKS_WRITE", "WebhookAttempt": "WEBHOOKS_WRITE",
		"Workspace": "",
	}
	never = []string{"ApiKey", "Invitation", "Session"}
)

// reads reports whether a key with one scope reads objects of the type.
func reads(scope, typeName string) bool {
	if slices.Contains(never, typeName) {
		return false
	}
	return needed[typeName] == "" || needed[typeName] == scope ||
		strings.Replace(needed[typeName], "READ", "WRITE", 1) == scope
}

// TestScopes_HoldOnEveryEdge follows each edge of the schema with keys of one scope: an object is
// visible at its end only if the scope allows both ends.
func TestScopes_HoldOnEveryEdge(t *testing.T) {
	t.Parallel()
	dbtest.EachIfExhaustive(t, func(t *testing.T, d *db.DB) {
		w := newNodeWorld(t, d)
		polltest.Until(t, "the transactions that began before an event have ended", func() bool {
			e := edge{from: "Event", field: "link", to: "Link"}
			return found(t, w.follow(t, w.ada.token, e), e)
		})
		for _, e := range edges(contract(t)) {
			if r := w.follow(t, w.ada.token, e); !found(t, r, e) {
				t.Errorf("%s.%s leads nowhere for the owner: %.500s", e.from, e.field, r.Text)
				continue
			}
			for _, rule := range workspace.Rules {
				// see TestPublishableKey_RequestsCreationsAlone
				if !rule.Keys || rule.Permission == workspace.CreateLinks {
					continue
				}
				scope := string(rule.Permission)
				t.Run(e.from+"."+e.field+" with "+scope, func(t *testing.T) {
					// A key belongs to no person: no user's own workspaces and sessions are its.
					want := reads(scope, e.from) && reads(scope, e.to) && e.from != "User"
					switch e.field {
					case "auditLog":
						want = scope == "AUDIT_READ"
					case "routingDefaults": // they are the workspace's own
						want = true
					}
					w.holds(t, w.follow(t, w.callers["a key with "+scope], e), e, scope, want)
				})
			}
		}
	})
}

// TestScopes_ExportClicksByStatsRead: of a link and of a folder, too, with and without a restriction to folders.
func TestScopes_ExportClicksByStatsRead(t *testing.T) {
	t.Parallel()
	dbtest.EachIfExhaustive(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		m := b.person(t, "ada").workspace
		f := must.Value(b.Config.Folders.Create(t.Context(), m, "campaigns"))(t)
		made := must.Value(b.Config.Creation.CreateMany(t.Context(), m, creation.Batch{
			Links: []*creation.Input{{URL: "https://example.com/",
				Fields: linkfield.Change{FolderID: optional.Set(&f.ID)}},
				{URL: "https://example.com/outside"}},
		}))(t)
		for _, folders := range [][]string{nil, {f.ID}} {
			_, key, err := b.Config.APIKeys.Create(t.Context(), m, apikey.NewKey{
				Name: "stats", Scopes: []workspace.Permission{workspace.ReadStats}, FolderIDs: folders,
			})
			must.NoError(t, err)
			outside := map[bool]string{true: "", false: "NOT_FOUND"}[folders == nil]
			for selection, want := range map[string]string{
				`linkId: "` + made[0].Link.ID + `"`: "", `folderId: "` + f.ID + `"`: "", `linkId: "` + made[1].Link.ID +
					`"`: outside,
				`linkId: "` + id.New(id.Link) + `"`: "NOT_FOUND", `folderId: "` + id.New(id.Folder) + `"`: "NOT_FOUND",
			} {
				r := b.ask(t, key, `mutation { exportClicks(input: {workspaceId: "`+m.ID()+`", `+selection+
					`}) { url errors { code field } } }`)
				field, _, _ := strings.Cut(selection, ":")
				if got := strings.Contains(r.Text, `"url":"http`); got != (want == "") ||
					!got && !strings.Contains(r.Text, `"code":"NOT_FOUND","field":["`+field+`"]`) {
					t.Errorf("folders %v, %s: %s", folders, selection, r.Text)
				}
			}
		}
	})
}

// holds checks one answer to a key.
func (w *nodeWorld) holds(t *testing.T, r reply, e edge, scope string, want bool) {
	t.Helper()
	if got := found(t, r, e); got != want {
		t.Errorf("visible: %t, want %t: %.500s", got, want, r.Text)
	}
	for text, typeName := range map[string]string{
		"ada@example.com": "User", `"name":"ada"`: "User", "destination": "Link", "title of the link": "Link",
		"links.example.com": "Domain",
	} {
		isWorkspace := e.to == "Workspace" && typeName == "User" // it has the same name
		if !reads(scope, typeName) && !isWorkspace && strings.Contains(r.Text, text) {
			t.Errorf("%q is in the answer: %.500s", text, r.Text)
		}
	}
	if codes := r.Codes(); codes != "" && strings.Trim(codes, " ") != "FORBIDDEN" {
		t.Errorf("errors %q: %.500s", codes, r.Text)
	}
}
