package graph

import (
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/parity"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/unmatched"
)

// counted has a query of n items for each connection and list of objects. %s stands for the
// selection of an item. The query's variables are those of the function variables.
var counted = map[string]string{
	"Query.nodes": `query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Link { %s } } }`,
	"User.workspaces": `query ($n: Int!) { me { workspaces(first: $n) { edges { cursor node { %s } } pageInfo ` +
		`{ endCursor } } } }`,
	"User.sessions":               `query ($n: Int!) { me { sessions(first: $n) { edges { cursor node { %s } } } } }`,
	"Workspace.links":             ofWorkspace(`links(first: $n) { totalCount edges { cursor node { %s } } }`),
	"Workspace.clicks":            ofWorkspace(`clicks(first: $n) { edges { cursor node { %s } } }`),
	"Workspace.unmatchedRequests": ofWorkspace(`unmatchedRequests(first: $n) { %s }`),
	"Workspace.members":           ofWorkspace(`members(first: $n) { edges { cursor node { %s } } }`),
	"Workspace.invitations":       ofWorkspace(`invitations(first: $n) { edges { cursor node { %s } } }`),
	"Workspace.apiKeys":           ofWorkspace(`apiKeys(first: $n) { edges { cursor node { %s } } }`),
	"Workspace.domains":           ofWorkspace(`domains(first: $n) { edges { cursor node { %s } } }`),
	"Workspace.folders":           ofWorkspace(`folders(first: $n) { edges { cursor node { %s } } }`),
	"Workspace.tasks":             ofWorkspace(`tasks(first: $n) { edges { cursor node { %s } } }`),
	"ParityReport.differences": ofWorkspace(
		`tasks(first: 1, filter: {kinds: [PARITY_CHECK]}) { nodes { report { ... on ParityReport { ` +
			`differences(first: $n) { edges { cursor node { %s } } } } } } }`),
	"ImportReport.rows": ofWorkspace(
		`tasks(first: 1, filter: {kinds: [IMPORT]}) { nodes { report { ... on ImportReport { rows(first: $n) { edges ` +
			`{ cursor node { %s } } } } } } }`),
	"Workspace.utmTemplates": ofWorkspace(`utmTemplates(first: $n) { edges { cursor node { %s } } }`),
	"Workspace.tags":         ofWorkspace(`tags(first: $n) { edges { cursor node { %s } } }`),
	"Workspace.webhooks":     ofWorkspace(`webhooks(first: $n) { edges { cursor node { %s } } }`),
	"Webhook.deliveries": `query ($hook: ID!, $n: Int!) { node(id: $hook) { ... on Webhook { deliveries(first: ` +
		`$n) { edges ` +
		`{ cursor node { %s } } } } } }`,
	"Workspace.auditLog": ofWorkspace(`auditLog(first: $n) { edges { cursor node { %s } } }`),
	"Link.clicks": `query ($id: ID!, $n: Int!) { node(id: $id) { ... on Link { clicks(first: $n) { edges ` +
		`{ cursor node { %s } } } } } }`,
	"Stats.breakdown": ofWorkspace(`stats { clicks visitors bots latency { p99Ms } breakdown(by: LINK, first: ` +
		`$n) { %s } }`),

	"CreateLinksPayload.results": `mutation ($w: ID!, $links: [NewLinkInput!]!) {
		createLinks(input: {workspaceId: $w, links: $links}) { results { %s } errors { message } } }`,
	"UpdateLinksPayload.results": `mutation ($w: ID!, $changes: [UpdateLinkInput!]!) {
		updateLinks(input: {workspaceId: $w, links: $changes}) { results { %s } errors { message } } }`,
	"UpsertLinksPayload.results": `mutation ($w: ID!, $upserts: [NewLinkInput!]!) {
		upsertLinks(input: {workspaceId: $w, links: $upserts}) { results { %s } errors { message } } }`,
	"DeleteLinksPayload.results": `mutation ($w: ID!, $ids: [ID!]!) {
		deleteLinks(input: {workspaceId: $w, ids: $ids}) { results { %s } errors { message } } }`,
}

func ofWorkspace(connection string) string {
	return `query ($w: ID!, $n: Int!) { workspace(by: {id: $w}) { ` + connection + ` } }`
}

// notCounted are the lists that need no counting, and why.
var notCounted = map[string]string{
	"ApiKey.folders":     "loaded for all keys of a page",
	"User.ssoIdentities": "loaded once for the caller, and none for others",
	"Stats.series": "computed from the sums of one subject, however many points they are cut " +
		"into",
	"LinkRouting.rules":                    "parts of the link's row",
	"LinkRouting.tests":                    "parts of the link's row",
	"RoutingRule.when":                     "parts of the link's row",
	"RoutingRule.unless":                   "parts of the link's row",
	"RoutingRule.targets":                  "parts of the link's row",
	"LinkRouting.warnings":                 "a statement for each link, priced as one",
	"RedirectExplanation.steps":            "computed",
	"RoutingSimulation.flows":              "computed by one statement, however many flows",
	"Event.changes":                        "parts of the event's row",
	"WebhookDelivery.attempts":             "loaded for all deliveries of a page",
	"LinkVersion.changes":                  "computed from the versions of the page",
	"Link.versions":                        "three statements for a link, however many versions",
	"Workspace.events":                     "on PostgreSQL, events wait for the transactions of all tests",
	"Link.destinationChecks":               "rows of a routing, a bounded number, loaded for all links of a page",
	"RevertOperationPayload.results":       "the statements of updateLinks and two more, however many links",
	"ClaimLinksPayload.results":            "each claim is a transaction of its own, and is priced as one",
	"ImportReport.counts":                  "parts of the task's row",
	"ImportReport.losses":                  "parts of the task's row",
	"ImportReport.hosts":                   "parts of the task's row; their domains are loaded together",
	"ParityReport.counts":                  "parts of the task's row",
	"WorkspaceArchive.sections":            "parts of the task's row",
	"VerifyDomainPayload.loopingLinks":     "a page of Workspace.links",
	"ImportRow.losses":                     "parts of the row",
	"Link.origins":                         "the first 20 of each link, loaded for all links of a page",
	"Link.metadata":                        "parts of the link's row",
	"LinkVersion.metadata":                 "parts of the version's row",
	"Link.scheduledChanges":                "rows whose number is bounded, loaded for all links of a page",
	"RemoveMemberPayload.scheduledChanges": "read by schedule.ByActor with a fixed number of statements",
	"ScheduledChange.changes":              "computed from the link's row and its scheduled changes",
}

// eachByItself are fields that are not requested for each item of a page, with the reason: most
// need statements for each.
var eachByItself = map[string]string{
	"User.secondFactors":            "loaded once for the caller, and none for others",
	"User.pendingEmail":             "as User.secondFactors",
	"User.hasPassword":              "a part of the row",
	"Workspace.requireSecondFactor": "a part of the row: a page of all fields is as dear as may be",
	"Link.stats":                    "sums of one link over a range of its own, priced at a statement and more",
	"Workspace.linkQuota": "what lies in a workspace is read as its member, one workspace at a time: that is the " +
		"second " +
		"wall",
	"Workspace.stats":                "as Workspace.linkQuota",
	"Link.asOf":                      "a version of one link, priced as a statement",
	"Domain.appleAppSiteAssociation": "read with its domain, and priced by its size: too much for each link of a page",
	"Domain.assetLinks":              "as Domain.appleAppSiteAssociation",
	"Link.qrCode": "rendered by itself, and priced so; TestQRCode_LoadsTheLogoOnce counts its " +
		"statements",
}

// TestPages_TakeConstantStatements requests pages of 1, 10 and 100 items, with every field of an
// item, of every connection and list.
func TestPages_TakeConstantStatements(t *testing.T) {
	t.Parallel()
	dbtest.EachIfExhaustive(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		e := newEstate(t, b, most)
		for _, name := range slices.Sorted(maps.Keys(counted)) {
			t.Run(name, func(t *testing.T) { e.count(t, name) })
		}
	})
}

// TestPages_CoverEveryList finds the connections and lists of the schema that the tests above know nothing of.
func TestPages_CoverEveryList(t *testing.T) {
	t.Parallel()
	lists := map[string]bool{}
	for _, def := range contract(t).Types {
		if def.BuiltIn || def.Kind != ast.Object {
			continue
		}
		for _, f := range def.Fields {
			if isList(contract(t), f) && !strings.HasSuffix(def.Name, "Connection") {
				lists[def.Name+"."+f.Name] = true
			}
		}
	}
	for name := range lists {
		if counted[name] == "" && notCounted[name] == "" {
			t.Errorf("%s is not counted: add its query to counted, or the reason to notCounted", name)
		}
	}
	for _, known := range []map[string]string{counted, notCounted} {
		for name := range known {
			if !lists[name] {
				t.Errorf("%s is no list of the schema", name)
			}
		}
	}
}

// contract returns the schema, which tests do not change.
func contract(t *testing.T) *ast.Schema {
	t.Helper()
	return must.Value(loadContract())(t)
}

var loadContract = sync.OnceValues(func() (*ast.Schema, error) {
	return gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: linkforge.Schema})
})

// isList reports whether a field is a connection, or a list of objects. Errors are constructed, not loaded.
func isList(schema *ast.Schema, f *ast.FieldDefinition) bool {
	if strings.HasSuffix(f.Type.Name(), "Connection") {
		return true
	}
	return f.Type.Elem != nil && schema.Types[f.Type.Name()].IsCompositeType() && f.Type.Name() != "UserError"
}

// selection selects all fields of an item with the arguments they need, and those of its nested objects,
// except for lists, which are counted separately.
func selection(schema *ast.Schema, typeName string, depth int) string {
	def := schema.Types[typeName]
	var fields []string
	for _, f := range def.Fields {
		name := def.Name + "." + f.Name
		switch {
		case strings.HasPrefix(f.Name, "__") || eachByItself[name] != "" || isList(schema, f):
		case schema.Types[f.Type.Name()].IsLeafType():
			if arguments := requiredArguments(schema, f, ""); arguments != "" {
				fields = append(fields, f.Name+"("+arguments+")")
				continue
			}
			fields = append(fields, f.Name)
		case depth > 0:
			fields = append(fields, f.Name+" { "+selection(schema, f.Type.Name(), depth-1)+" }")
		}
	}
	return strings.Join(append(fields, "__typename"), " ")
}

// itemOf returns the type of a list's items: of Nodes, the selected one.
func itemOf(schema *ast.Schema, name string) string {
	if match := regexp.MustCompile(`\.\.\. on (\w+) { %s`).FindStringSubmatch(counted[name]); match != nil {
		return match[1]
	}
	of, field, _ := strings.Cut(name, ".")
	item := schema.Types[of].Fields.ForName(field).Type.Name()
	if edge, ok := strings.CutSuffix(item, "Connection"); ok {
		return schema.Types[edge+"Edge"].Fields.ForName("node").Type.Name()
	}
	return item
}

// most is the largest page.
const most = page.Max

// estate is a workspace with a number of objects of every kind, each created by another user.
type estate struct {
	*bundle
	schema *ast.Schema
	ada    person
	links  []*link.Link
	made   int
	hook   string
}

func newEstate(t *testing.T, b *bundle, n int) *estate {
	t.Helper()
	e := &estate{bundle: b, schema: contract(t), ada: b.person(t, "ada")}
	now := db.Instant(time.Now())
	var people []account.Account
	var members []workspace.Member
	var invitations []workspace.Invitation
	var keys []apikey.Key
	var domains []domain.Domain
	var templates []folder.Template
	var folders []folder.Folder
	var sessions []account.Session
	var webhooks []webhook.Webhook
	for i := range n {
		one := account.Account{ID: id.New(id.Account), Email: fmt.Sprintf("p%d@example.com", i), Name: "P",
			CreatedAt: now, UpdatedAt: now}
		people = append(people, one)
		w := e.ada.workspace.ID()
		members = append(members, workspace.Member{WorkspaceID: w, AccountID: one.ID, Role: workspace.Admin,
			CreatedAt: now})
		invitations = append(invitations, workspace.Invitation{
			ID: id.New(id.Invitation), WorkspaceID: w, Email: fmt.Sprintf("i%d@example.com", i), Role: workspace.Viewer,
			TokenHash: fmt.Appendf(nil, "%032d", i), InvitedBy: one.ID, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		})
		keys = append(keys, apikey.Key{
			ID: id.New(id.Key), WorkspaceID: w, Name: "key", Prefix: "lfk_", Hash: fmt.Appendf(nil, "%032d", i),
			Scopes: "LINKS_READ", CreatedBy: one.ID, CreatedAt: now,
		})
		domains = append(domains, domain.Domain{ID: id.New(id.Domain), WorkspaceID: w,
			Host: fmt.Sprintf("d%d.example.com", i), CodeSpace: domain.Own, Token: "token", CreatedAt: now})
		templates = append(templates, folder.Template{
			Named: folder.Named{ID: id.New(id.Template), WorkspaceID: w, Name: fmt.Sprint(i), NameKey: fmt.Sprint(i),
				CreatedAt: now},
			UTM: &routing.UTM{}, UpdatedAt: now,
		})
		folders = append(folders, folder.Folder{
			Named: folder.Named{ID: id.New(id.Folder), WorkspaceID: w, Name: fmt.Sprint(i), NameKey: fmt.Sprint(i),
				CreatedAt: now},
		})
		webhooks = append(webhooks, webhook.Webhook{
			ID: id.New(id.Webhook), WorkspaceID: w, Name: "hook", URL: "https://hooks.example.com/",
			Host: "hooks.example.com", Status: webhook.Paused, Secret: []byte("s"), CreatedAt: now, CreatedBy: one.ID,
		})
		sessions = append(sessions, account.Session{
			ID: id.New(id.Session), AccountID: e.ada.accountID, Agent: "test", CreatedAt: now, UsedAt: now,
			ExpiresAt: now.Add(time.Hour),
		})
	}
	for _, rows := range []any{&people, &members, &invitations, &keys, &domains, &folders, &templates, &sessions,
		&webhooks} {
		e.insert(t, rows)
	}
	e.hook = webhooks[n-1].ID // the newest
	for i, one := range people {
		m := must.Value(b.Workspaces.Require(t.Context(), account.Actor{AccountID: one.ID}, e.ada.workspace.ID()))(t)
		e.links = append(e.links, b.create(t, m, creation.Input{URL: fmt.Sprintf("https://example.com/%d", i),
			DomainID: &domains[i].ID, Fields: linkfield.Change{Tags: optional.Set([]string{fmt.Sprint("tag", i)}),
				FolderID: optional.Set(&folders[i].ID)}}))
		if i > 0 { // the first is ada's own
			must.Value(b.Workspaces.Create(t.Context(), account.Actor{AccountID: e.ada.accountID}, "more",
				fmt.Sprint("more-", i)))(t)
		}
	}
	for range n - 1 {
		e.importing(t, domains[0].ID)
	}
	e.importing(t, domains[0].ID, e.links...)
	e.comparing(t)
	e.deliver(t)
	e.follow(t)
	if _, err := b.LinkList.Size(t.Context(), e.ada.workspace); err != nil { // remembered: not part of a page
		t.Fatal(err)
	}
	return e
}

// finished inserts a task that has ended.
func (e *estate) finished(t *testing.T, kind task.Kind, n int, input, cursor string) (taskID string) {
	t.Helper()
	now, done := db.Instant(time.Now()), int64(n)
	one := &task.Task{
		ID: id.New(id.Task), WorkspaceID: e.ada.workspace.ID(), Kind: kind, Status: task.Succeeded, Done: done,
		Total: &done, Input: input, Cursor: cursor, ActorID: e.ada.accountID, OperationID: id.New(id.Operation),
		DueAt: now, CreatedAt: now, UpdatedAt: now, FinishedAt: &now,
	}
	e.insert(t, one)
	return one.ID
}

// importing inserts an import of some links, to a domain.
func (e *estate) importing(t *testing.T, domainID string, links ...*link.Link) {
	t.Helper()
	taskID := e.finished(t, task.Import, len(links),
		fmt.Sprintf(`{"Source": "CSV", "Hosts": [{"Host": "old.example.com", "DomainID": %q}]}`, domainID),
		fmt.Sprintf(`{"rows": %d, "counts": {"CREATED": %[1]d}, "losses": {"clicks UNSUPPORTED": 1},
			"hosts": {"old.example.com": 1}, "targets": {"old.example.com": %q}}`, len(links), domainID))
	var rows []*importer.Row
	var origins []*importer.Origin
	for i, l := range links {
		sourceID := fmt.Sprint(i)
		rows = append(rows, &importer.Row{
			TaskID: taskID, Number: int64(i + 1), WorkspaceID: l.WorkspaceID, Line: int64(i + 2), SourceID: sourceID,
			Host: "old.example.com", Hash: []byte("h"), Outcome: importer.Created, LinkID: &l.ID,
			Losses: new(`[{"Field": "clicks", "Reason": "UNSUPPORTED", "Value": "1"}]`),
		})
		origins = append(origins, &importer.Origin{
			WorkspaceID: l.WorkspaceID, Source: importsource.CSV, SourceID: sourceID, LinkID: l.ID, Hash: []byte("h"),
			ImportedAt: l.CreatedAt,
		})
	}
	if len(links) > 0 {
		e.insert(t, &rows)
		e.insert(t, &origins)
	}
}

// comparing inserts a check of parity of the links.
func (e *estate) comparing(t *testing.T) {
	t.Helper()
	taskID := e.finished(t, task.ParityCheck, len(e.links), "{}",
		fmt.Sprintf(`{"counts": {"MISSING_THERE": %d}}`, len(e.links)))
	var rows []*parity.Row
	for i, l := range e.links {
		rows = append(rows, &parity.Row{
			TaskID: taskID, Number: int64(i + 1), WorkspaceID: l.WorkspaceID, LinkID: l.ID, CheckedAt: l.CreatedAt,
			SourceURL: "https://old.example.com/a", Verdict: parity.MissingThere, Status: 302,
		})
	}
	e.insert(t, &rows)
}

// deliver inserts a delivery of each link's creation for one webhook.
func (e *estate) deliver(t *testing.T) {
	t.Helper()
	var events []audit.Event
	must.NoError(t,
		e.db.NewSelect().Model(&events).Where("action = ?", audit.LinkCreated).Scan(db.AsSystem(t.Context())))
	var rows []webhook.Delivery
	for i, one := range events {
		rows = append(rows, webhook.Delivery{
			ID: id.New(id.Delivery), WorkspaceID: one.WorkspaceID, WebhookID: e.hook, EventID: one.ID,
			SubjectID: one.TargetID, Type: one.Action, Number: int64(i), Status: webhook.Waiting,
			CreatedAt: one.CreatedAt,
		})
	}
	e.insert(t, &rows)
}

func (b *bundle) insert(t *testing.T, rows any) {
	t.Helper()
	if _, err := b.db.NewInsert().Model(rows).Returning("NULL").Exec(db.AsSystem(t.Context())); err != nil {
		t.Fatalf("%T: %v", rows, err)
	}
}

// follow makes clicks of each link, more of the first, and as many requests that led nowhere.
func (e *estate) follow(t *testing.T) {
	t.Helper()
	clicks := clicktest.New(t, e.db, time.Now)
	clicktest.Run(t, clicks.Recorder)
	unmatchedRequests := &unmatched.Recorder{DB: e.db, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	for i, l := range e.links {
		clicks.Record(&click.Click{WorkspaceID: l.WorkspaceID, LinkID: l.ID, ClickedAt: time.Now(), Status: 302})
		clicks.Record(&click.Click{WorkspaceID: l.WorkspaceID, LinkID: e.links[0].ID, ClickedAt: time.Now(),
			Status: 302})
		unmatchedRequests.Add(l.WorkspaceID, fmt.Sprint("lost", i), 404, time.Now())
	}
	must.NoError(t, clicks.Flush(t.Context()))
	must.NoError(t, unmatchedRequests.Flush(t.Context()))
}

// count requests 1, 10 and 100 items.
func (e *estate) count(t *testing.T, name string) {
	t.Helper()
	query := fmt.Sprintf(counted[name], selection(e.schema, itemOf(e.schema, name), 2))
	statements := map[int]int64{}
	for _, n := range []int{1, 10, most} {
		before := e.statements.Load()
		r := e.ask(t, e.ada.token, query, e.variables(query, n)...)
		statements[n] = e.statements.Load() - before
		if len(r.Errors) > 0 || strings.Contains(r.Text, `"message"`) {
			t.Fatalf("%s: %.500s", query, r.Text)
		}
		item := itemOf(e.schema, name)
		if got := strings.Count(r.Text, fmt.Sprintf(`"__typename":%q}`, item)); got < n {
			t.Fatalf("want %d of %s, got %d:\n%s\n%.2000s", n, item, got, query, r.Text)
		}
	}
	if statements[1] == 0 || statements[1] != statements[10] || statements[1] != statements[most] {
		t.Errorf("statements for 1, 10 and %d: %d, %d, %d", most, statements[1], statements[10], statements[most])
	}
}

// variables returns the values of the variables that a query declares.
func (e *estate) variables(query string, n int) (pairs []any) {
	ids, links, changes, upserts := []string{}, []any{}, []any{}, []any{}
	for i := range n {
		e.made++
		ids = append(ids, e.links[i].ID)
		links = append(links, map[string]any{"url": fmt.Sprintf("https://example.com/made/%d", e.made),
			"tags": []string{"made"}})
		changes = append(changes, map[string]any{"id": e.links[i].ID, "title": fmt.Sprint("title ", e.made),
			"tags": []string{fmt.Sprint("tag", e.made)}})
	}
	for i := range n {
		upserts = append(upserts, map[string]any{
			"externalId": fmt.Sprint("id", e.made, "-", i), "url": "https://example.com/upserted",
			"title": fmt.Sprint(e.made),
			"tags":  []string{fmt.Sprint("tag", i)},
		})
	}
	for name, value := range map[string]any{
		"$w: ID!": e.ada.workspace.ID(), "$n: Int!": n, "$ids: [ID!]!": ids, "$id: ID!": ids[0], "$hook: ID!": e.hook,
		"$links: [NewLinkInput!]!": links, "$changes: [UpdateLinkInput!]!": changes,
		"$upserts: [NewLinkInput!]!": upserts,
	} {
		if declared, _, _ := strings.Cut(query, "{"); strings.Contains(declared, name) {
			pairs = append(pairs, strings.TrimPrefix(strings.Split(name, ":")[0], "$"), value)
		}
	}
	return pairs
}
