package linkforge_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	graphql "github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge"
	"github.com/linkforge/linkforge/internal/platform/must"
)

const module = "github.com/linkforge/linkforge"

// layers lists the packages from the bottom to the top. A package imports from the layers below its
// own, and from its own layer only what within allows. Helper packages of tests, which end in
// "test", and internal/platform/must are exempt.
var layers = [][]string{
	{ // pure: no database, no network
		"", "migrations", "internal/platform/admission", "internal/platform/batcher", "internal/platform/breaker",
		"internal/click", "internal/platform/errs", "internal/route/flat", "internal/platform/id", "internal/move/importsource", "internal/link/linkfield", "internal/cli/manifest", "internal/platform/memo", "internal/platform/month", "internal/platform/optional",
		"internal/link/ownhost", "internal/link/patch", "internal/platform/poll", "internal/platform/qr", "internal/click/rollup", "internal/route/routing", "internal/route/check",
		"internal/route/explain",
		"internal/link/shortcode", "internal/platform/signed", "internal/click/statspage", "internal/platform/throttle",
		"internal/platform/urlnorm", "internal/platform/validate", "internal/click/visitor", "internal/visit/visitorpage", "internal/click/wal", "internal/route/zone",
	},
	{ // platform: nothing of links or workspaces
		"graph/limit", "graph/scalar", "graph/transport", "internal/platform/config", "internal/platform/consistency", "internal/platform/db",
		"internal/platform/db/migrate", "internal/platform/db/pgscope", "internal/platform/db/replica", "internal/platform/db/turns", "internal/visit/fastpath", "internal/platform/feed",
		"internal/platform/jobs", "internal/platform/mail", "internal/platform/obs", "internal/platform/outbound", "internal/platform/page", "internal/tenant/passwords",
		"internal/platform/redisx", "internal/platform/sealed", "internal/tenant/sso", "internal/platform/stream", "internal/platform/web",
	},
	{ // domain
		"internal/tenant/account", "internal/tenant/apikey", "internal/move/archive", "internal/event/audit", "internal/click/clickledger", "internal/click/clickstore",
		"internal/click/clickhouse", "internal/click/clicksql", "internal/click/clickstream", "internal/link/codecounter", "internal/link/creation",
		"internal/link/destination", "internal/tenant/domain", "internal/link/edit", "internal/event/eventstream", "internal/visit/firstvisit", "internal/tenant/folder", "internal/link/history", "internal/visit/hitquota",
		"internal/link/idempotency", "internal/move/importer", "internal/click/ingest", "internal/link",
		"internal/link/linklist", "internal/link/linkquota", "internal/link/moderation", "internal/move/parity", "internal/link/probe", "internal/platform/ratelimit", "internal/visit/resolve",
		"internal/link/schedule", "internal/link/simulation", "internal/click/stats", "internal/move/task", "internal/visit/unmatched", "internal/link/upkeep", "internal/tenant/utmtemplate", "internal/event/webhook",
		"internal/event/dispatch", "internal/tenant/workspace",
	},
	{ // stores: all of the domain
		"internal/stores",
	},
	{ // edge
		"graph", "graph/gen", "graph/loader", "graph/playground", "internal/visit/redirect",
	},
	{ // programs
		"internal/cli", "server",
	},
}

// within lists the imports inside a layer.
var within = map[string][]string{
	"internal/platform/admission": {"internal/platform/errs"},
	"internal/platform/breaker":   {"internal/platform/errs", "internal/platform/poll"},
	"internal/click":              {"internal/platform/id", "internal/click/visitor"},
	"internal/move/importsource": {
		"internal/platform/errs", "internal/link/linkfield", "internal/platform/optional", "internal/route/routing", "internal/route/check", "internal/platform/urlnorm",
		"internal/platform/validate",
	},
	"internal/link/linkfield": {"internal/platform/errs", "internal/platform/optional", "internal/platform/validate"},
	"internal/cli/manifest": {
		"internal/platform/errs", "internal/link/linkfield", "internal/platform/optional", "internal/route/routing", "internal/route/check", "internal/link/shortcode",
		"internal/platform/urlnorm",
	},
	"internal/link/ownhost":  {"internal/platform/urlnorm"},
	"internal/link/patch":    {"internal/platform/optional", "internal/route/routing"},
	"internal/platform/poll": {"internal/platform/errs"},
	"internal/platform/qr":   {"internal/platform/admission", "internal/platform/errs", "internal/platform/memo", "internal/platform/optional"},
	"internal/click/rollup":  {"internal/click"},
	"internal/route/routing": {"internal/platform/errs", "internal/route/flat", "internal/platform/optional", "internal/platform/urlnorm", "internal/platform/validate", "internal/route/zone"},
	"internal/route/check": {
		"internal/platform/errs", "internal/platform/id", "internal/platform/optional", "internal/route/routing", "internal/platform/urlnorm", "internal/platform/validate", "internal/route/zone",
	},
	"internal/route/explain":        {"internal/platform/optional", "internal/route/routing"},
	"internal/platform/signed":      {"internal/platform/errs"},
	"internal/click/statspage":      {"internal/platform/urlnorm"},
	"internal/platform/urlnorm":     {"internal/platform/validate"},
	"internal/platform/validate":    {"internal/platform/errs"},
	"internal/click/visitor":        {"internal/platform/memo", "internal/platform/poll", "internal/platform/validate"},
	"internal/visit/visitorpage":    {"internal/click/visitor"},
	"graph/limit":                   {"graph/scalar", "internal/platform/config"},
	"graph/transport":               {"graph/limit", "internal/platform/config", "internal/platform/obs", "internal/platform/web"},
	"internal/platform/config":      {"internal/platform/redisx"},
	"internal/platform/consistency": {"internal/platform/db", "internal/platform/db/replica", "internal/platform/redisx"},
	"internal/platform/db":          {"internal/platform/db/pgscope", "internal/platform/db/replica", "internal/platform/db/turns"},
	"internal/platform/db/migrate":  {"internal/platform/db", "internal/platform/db/pgscope"},
	"internal/platform/db/replica":  {"internal/platform/db/pgscope"},
	"internal/platform/feed":        {"internal/platform/db"},
	"internal/platform/jobs":        {"internal/platform/db"},
	"internal/platform/sealed":      {"internal/platform/db"},
	"internal/tenant/sso":           {"internal/platform/config", "internal/platform/outbound"},
	"internal/platform/stream":      {"internal/platform/feed"},
	"internal/tenant/account":       {"internal/platform/ratelimit"},
	"internal/tenant/apikey":        {"internal/tenant/account", "internal/event/audit", "internal/tenant/workspace"},
	"internal/move/archive": {
		"internal/tenant/account", "internal/click/clickledger", "internal/click/clickstore", "internal/tenant/domain", "internal/tenant/folder", "internal/move/importer",
		"internal/link", "internal/click/stats", "internal/move/task", "internal/tenant/workspace",
	},
	"internal/click/clickledger": {"internal/tenant/workspace"},
	"internal/click/clickstore":  {"internal/tenant/workspace"},
	"internal/click/clickhouse":  {"internal/click/clickledger", "internal/click/clickstore", "internal/tenant/workspace"},
	"internal/click/clicksql":    {"internal/click/clickledger", "internal/click/clickstore", "internal/tenant/workspace"},
	"internal/click/clickstream": {"internal/click/clickledger", "internal/click/clickstore", "internal/tenant/workspace"},
	"internal/link/edit":         {"internal/tenant/apikey", "internal/event/audit", "internal/tenant/folder", "internal/link", "internal/link/linkquota", "internal/tenant/workspace"},
	"internal/event/eventstream": {"internal/event/audit", "internal/tenant/workspace"},
	"internal/tenant/domain":     {"internal/event/audit", "internal/link/destination", "internal/platform/ratelimit", "internal/tenant/workspace"},
	"internal/visit/resolve":     {"internal/click/clickledger"},
	"internal/link/history":      {"internal/event/audit", "internal/link", "internal/visit/resolve", "internal/tenant/workspace"},
	"internal/visit/hitquota":    {"internal/click/clickledger"},
	"internal/click/ingest":      {"internal/click/clickledger", "internal/click/clickstore", "internal/visit/hitquota"},
	"internal/link": {
		"internal/event/audit", "internal/click/clickledger", "internal/link/destination", "internal/tenant/domain", "internal/tenant/folder", "internal/visit/resolve", "internal/tenant/utmtemplate",
		"internal/tenant/workspace",
	},
	"internal/link/creation": {
		"internal/event/audit", "internal/link/codecounter", "internal/tenant/domain", "internal/tenant/folder", "internal/link/idempotency", "internal/link", "internal/link/linkquota", "internal/platform/ratelimit", "internal/tenant/workspace",
	},
	"internal/move/importer": {
		"internal/event/audit", "internal/link/creation", "internal/tenant/domain", "internal/tenant/folder", "internal/link", "internal/link/linkquota", "internal/platform/ratelimit",
		"internal/move/task", "internal/tenant/workspace",
	},
	"internal/move/task":       {"internal/event/audit", "internal/tenant/workspace"},
	"internal/link/linklist":   {"internal/tenant/account", "internal/link", "internal/tenant/workspace"},
	"internal/link/linkquota":  {"internal/tenant/workspace"},
	"internal/link/moderation": {"internal/event/audit", "internal/link", "internal/platform/ratelimit"},
	"internal/move/parity":     {"internal/move/importer", "internal/link", "internal/platform/ratelimit", "internal/link/simulation", "internal/move/task", "internal/tenant/workspace"},
	"internal/link/probe":      {"internal/link", "internal/platform/ratelimit", "internal/link/upkeep", "internal/tenant/workspace"},
	"internal/link/schedule":   {"internal/link", "internal/tenant/workspace"},
	"internal/link/simulation": {"internal/link", "internal/visit/resolve", "internal/tenant/workspace"},
	"internal/click/stats":     {"internal/click/clickledger", "internal/click/clickstore", "internal/tenant/workspace"},
	"internal/visit/unmatched": {"internal/tenant/workspace"},
	"internal/link/upkeep": {
		"internal/event/audit", "internal/link/idempotency", "internal/link", "internal/link/linkquota", "internal/tenant/workspace",
	},
	"internal/tenant/folder":      {"internal/event/audit", "internal/tenant/workspace"},
	"internal/tenant/utmtemplate": {"internal/event/audit", "internal/tenant/workspace"},
	"internal/event/webhook":      {"internal/event/audit", "internal/click/clickstream", "internal/link/destination", "internal/tenant/workspace"},
	"internal/event/dispatch": {
		"internal/event/audit", "internal/click/clickstream", "internal/platform/ratelimit", "internal/event/webhook", "internal/tenant/workspace",
	},
	"internal/tenant/workspace": {"internal/tenant/account", "internal/event/audit", "internal/link/destination", "internal/platform/ratelimit"},
	"graph":                     {"graph/gen", "graph/loader"},
	"server":                    {"internal/cli"},
}

// forbidden lists libraries that a package must do without, so that their use stays in one place.
var forbidden = map[string][]string{
	"graph":                     {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/click":            {"database/sql", "github.com/redis/go-redis/v9"},
	"internal/link/probe":       {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/visit/redirect":   {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/click/rollup":     {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/route/routing":    {"github.com/uptrace/bun", "database/sql", "net/http"},
	"internal/platform/urlnorm": {"net/url", "os", "net/http"},
}

func TestImports_GoOneWay(t *testing.T) {
	t.Parallel()
	level := map[string]int{}
	for i, layer := range layers {
		for _, pkg := range layer {
			level[pkg] = i
		}
	}
	for pkg, imports := range listImports(t) {
		at, ok := level[pkg]
		if !ok {
			if strings.HasPrefix(pkg, "scripts/") || strings.HasSuffix(pkg, "test") || pkg == "internal/platform/must" {
				continue // no part of the server
			}
			t.Errorf("%s has no layer: give it one", pkg)
			continue
		}
		for _, imported := range imports {
			if slices.Contains(forbidden[pkg], imported) {
				t.Errorf("%s imports %s", pkg, imported)
			}
			ours, ok := strings.CutPrefix(imported, module)
			ours = strings.TrimPrefix(ours, "/")
			if !ok || level[ours] < at || slices.Contains(within[pkg], ours) {
				continue
			}
			t.Errorf("%s imports %s, which is not below it", pkg, ours)
		}
	}
}

// listImports returns the imports of each package of the module, without tests, from go list.
func listImports(t *testing.T) map[string][]string {
	t.Helper()
	out := must.Value(exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output())(t)
	found := map[string][]string{}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return found
		}
		must.NoError(t, err)
		found[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")] = p.Imports
	}
}

// scopes lists the functions that may use a scope beyond one workspace. All other functions see the
// rows that Membership.Enter permits.
var scopes = map[string][]string{
	"WithScope": {
		"db.InWorkspace", "db.AsAccount", "db.AsResolver", "db.AsCreator", "db.AsSystem", "db.AsOwner", "db.Briefly",
		"db.WithShortLockTimeout", "pgscope.CheckConnection", "pgscope.CheckScopes", "replica.Check", "replica.Follow",
	},
	"AsOwner":     {"migrate.Up", "migrate.Down", "migrate.List"},
	"InWorkspace": {"workspace.Enter", "workspace.memberships", "workspace.Create"},
	"AsAccount":   {"workspace.memberships"},
	"AsCreator":   {"creation.enter"},
	"AsResolver": {
		"link.exactlyAt", "history.ByPastAddress", "hitquota.exhausted", "resolve.query",
		"link.WorkspacesOf",
		"edit.claim", "linklist.isIndexed", "linklist.narrow",
		"apikey.Authenticate", "apikey.valid", "domain.IsVerified", "workspace.IDBySlug", "workspace.WorkspacesOf",
		"workspace.Observe", "workspace.QRStyle",
	},
	"AsSystem": {
		"account.AdminCreate", "account.Register", "account.remove", "account.beginSession", "audit.AfterRestore", "audit.CleanUp", "audit.Export", "audit.WorkspacesOf",
		"clickhouse.Copy", "clickhouse.MoveClicks", "clickhouse.PurgeWorkspace", "clickhouse.Write", "clickhouse.compare", "clickledger.AfterRestore",
		"clicksql.WorkspacesOf", "clickstream.begin", "clickstream.Missed", "clickstream.Resume",
		"eventstream.After", "feed.CatchUp", "feed.Horizon",
		"clicksql.compareAll", "unmatched.DeleteExpired", "clickstream.DeleteExpiredBatches", "clickledger.ForgetVisitors",
		"clickledger.ForgetWho", "clickledger.Take", "unmatched.Purge",
		"clickledger.Platform", "hitquota.readFloors", "clickledger.Position", "clickledger.BusyLinks", "unmatched.Flush", "linkquota.List",
		"history.Verify", "upkeep.RecordTransitions",
		"clicksql.PurgeWorkspace", "clickstream.After", "clicksql.Retain", "clicksql.Seal", "ingest.share", "clicksql.Write",
		"hitquota.recount", "hitquota.Grant",
		"hitquota.returnOwed", "jobs.States", "jobs.attempt",
		"moderation.Block", "moderation.FindLinks", "moderation.CodeHolders", "moderation.SetDisabled", "moderation.Unblock",
		"moderation.inBatches", "upkeep.DueChecks", "upkeep.PostponeChecks", "upkeep.RecordCheck", "upkeep.RequestChecks",
		"schedule.ApplyDue", "sealed.InUse", "sealed.Rewrap", "edit.claim", "upkeep.CleanUp", "linklist.CountActive", "linklist.Export",
		"linklist.indexSome",
		"upkeep.PurgeWorkspace", "moderation.Reports", "apikey.createdBy",
		"domain.verify", "domain.ClearURLs", "workspace.ClearURLs",
		"workspace.Accept", "workspace.Export", "workspace.AdminList", "workspace.Check",
		"workspace.ReleaseSlugs", "workspace.operate",
		"webhook.AdminList", "webhook.AfterRestore", "webhook.CleanUp", "webhook.Start", "webhook.Stop", "webhook.setBlocked",
		"dispatch.claim", "dispatch.disable", "dispatch.due", "dispatch.readLog", "dispatch.record", "dispatch.split", "dispatch.targetOf",
		"dispatch.unclaim",
		"workspace.AdminAddresses", "workspace.AdminChange", "workspace.IsInvited", "workspace.ResolveGroups", "task.CleanUp", "task.othersWait", "task.release", "task.renew", "task.take",
	},
}

// TestScopes_AreUsedWhereAllowed checks that only the functions in scopes use a scope beyond one
// workspace.
func TestScopes_AreUsedWhereAllowed(t *testing.T) { calledBy(t, scopes) }

// TestSessions_BeginWhereAllowed: these are all ways to a token, and each asks for the proofs of the account. See docs/guide/authentication.md.
func TestSessions_BeginWhereAllowed(t *testing.T) {
	calledBy(t, map[string][]string{
		"Issue":        {"account.login"},
		"login":        {"account.Refresh", "account.beginSession"},
		"beginSession": {"account.Register", "account.proceed"}, // with a password that was set, or all proofs that are missing
		"proceed":      {"account.CompleteLogin", "account.FinishSSO", "account.Login"},
	})
	schema := must.Value(gqlparser.LoadSchema(&graphql.Source{Name: "schema.graphql", Input: linkforge.Schema}))(t)
	var issuing []string
	for _, f := range schema.Mutation.Fields {
		if schema.Types[f.Type.Name()].Fields.ForName("refreshToken") != nil {
			issuing = append(issuing, f.Name)
		}
	}
	slices.Sort(issuing)
	if want := []string{"completeLogin", "finishSso", "login", "refreshSession", "register"}; !slices.Equal(issuing, want) {
		t.Errorf("mutations that return tokens: %v, want %v", issuing, want)
	}
}

// calledBy checks that these functions of package internal call those that are the keys, and no others do.
func calledBy(t *testing.T, want map[string][]string) {
	t.Helper()
	t.Parallel()
	callers := map[string]map[string]bool{}
	must.NoError(t, filepath.WalkDir("internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(filepath.Dir(path), "test") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if called := calledFunction(n); want[called] != nil && f.Name.Name != called {
					if callers[called] == nil {
						callers[called] = map[string]bool{}
					}
					callers[called][file.Name.Name+"."+f.Name.Name] = true
				}
				return true
			})
		}
		return nil
	}))
	for called, may := range want {
		t.Run(called, func(t *testing.T) {
			slices.Sort(may)
			if got := slices.Sorted(maps.Keys(callers[called])); !slices.Equal(got, may) {
				t.Errorf("%s is called by\n%v, want\n%v", called, got, may)
			}
		})
	}
}

// calledFunction returns the name of the called function: AsSystem for db.AsSystem(ctx).
func calledFunction(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}
