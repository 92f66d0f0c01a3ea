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
	"github.com/linkforge/linkforge/internal/must"
)

const module = "github.com/linkforge/linkforge"

// layers lists the packages from the bottom to the top. A package imports from the layers below its
// own, and from its own layer only what within allows. Helper packages of tests, which end in
// "test", and internal/must are exempt.
var layers = [][]string{
	{ // pure: no database, no network
		"", "migrations", "internal/admission", "internal/batcher", "internal/breaker",
		"internal/click", "internal/errs", "internal/flat", "internal/id", "internal/importsource", "internal/linkfield", "internal/manifest", "internal/memo", "internal/month", "internal/optional",
		"internal/ownhost", "internal/patch", "internal/poll", "internal/qr", "internal/rollup", "internal/routing", "internal/routing/check",
		"internal/routing/explain",
		"internal/shortcode", "internal/signed", "internal/statspage", "internal/throttle",
		"internal/urlnorm", "internal/validate", "internal/visitor", "internal/visitorpage", "internal/wal", "internal/zone",
	},
	{ // platform: nothing of links or workspaces
		"graph/limit", "graph/scalar", "graph/transport", "internal/config", "internal/consistency", "internal/db",
		"internal/db/migrate", "internal/db/pgscope", "internal/db/replica", "internal/db/turns", "internal/fastpath", "internal/feed",
		"internal/jobs", "internal/mail", "internal/obs", "internal/outbound", "internal/page", "internal/passwords",
		"internal/redisx", "internal/sealed", "internal/sso", "internal/stream", "internal/web",
	},
	{ // domain
		"internal/account", "internal/apikey", "internal/archive", "internal/audit", "internal/clickledger", "internal/clickstore",
		"internal/clickstore/clickhouse", "internal/clickstore/clicksql", "internal/clickstream", "internal/codecounter", "internal/creation",
		"internal/destination", "internal/domain", "internal/edit", "internal/eventstream", "internal/firstvisit", "internal/folder", "internal/history", "internal/hitquota",
		"internal/idempotency", "internal/importer", "internal/ingest", "internal/link",
		"internal/linklist", "internal/linkquota", "internal/moderation", "internal/parity", "internal/probe", "internal/ratelimit", "internal/resolve",
		"internal/schedule", "internal/simulation", "internal/stats", "internal/task", "internal/unmatched", "internal/upkeep", "internal/utmtemplate", "internal/webhook",
		"internal/webhook/dispatch", "internal/workspace",
	},
	{ // stores: all of the domain
		"internal/stores",
	},
	{ // edge
		"graph", "graph/gen", "graph/loader", "internal/playground", "internal/redirect",
	},
	{ // programs
		"internal/cli", "server",
	},
}

// within lists the imports inside a layer.
var within = map[string][]string{
	"internal/admission": {"internal/errs"},
	"internal/breaker":   {"internal/errs", "internal/poll"},
	"internal/click":     {"internal/id", "internal/visitor"},
	"internal/importsource": {
		"internal/errs", "internal/linkfield", "internal/optional", "internal/routing", "internal/routing/check", "internal/urlnorm",
		"internal/validate",
	},
	"internal/linkfield": {"internal/errs", "internal/optional", "internal/validate"},
	"internal/manifest": {
		"internal/errs", "internal/linkfield", "internal/optional", "internal/routing", "internal/routing/check", "internal/shortcode",
		"internal/urlnorm",
	},
	"internal/ownhost": {"internal/urlnorm"},
	"internal/patch":   {"internal/optional", "internal/routing"},
	"internal/poll":    {"internal/errs"},
	"internal/qr":      {"internal/admission", "internal/errs", "internal/memo", "internal/optional"},
	"internal/rollup":  {"internal/click"},
	"internal/routing": {"internal/errs", "internal/flat", "internal/optional", "internal/urlnorm", "internal/validate", "internal/zone"},
	"internal/routing/check": {
		"internal/errs", "internal/id", "internal/optional", "internal/routing", "internal/urlnorm", "internal/validate", "internal/zone",
	},
	"internal/routing/explain": {"internal/optional", "internal/routing"},
	"internal/signed":          {"internal/errs"},
	"internal/statspage":       {"internal/urlnorm"},
	"internal/urlnorm":         {"internal/validate"},
	"internal/validate":        {"internal/errs"},
	"internal/visitor":         {"internal/memo", "internal/poll", "internal/validate"},
	"internal/visitorpage":     {"internal/visitor"},
	"graph/limit":              {"graph/scalar", "internal/config"},
	"graph/transport":          {"graph/limit", "internal/config", "internal/obs", "internal/web"},
	"internal/config":          {"internal/redisx"},
	"internal/consistency":     {"internal/db", "internal/db/replica", "internal/redisx"},
	"internal/db":              {"internal/db/pgscope", "internal/db/replica", "internal/db/turns"},
	"internal/db/migrate":      {"internal/db", "internal/db/pgscope"},
	"internal/db/replica":      {"internal/db/pgscope"},
	"internal/feed":            {"internal/db"},
	"internal/jobs":            {"internal/db"},
	"internal/sealed":          {"internal/db"},
	"internal/sso":             {"internal/config", "internal/outbound"},
	"internal/stream":          {"internal/feed"},
	"internal/account":         {"internal/ratelimit"},
	"internal/apikey":          {"internal/account", "internal/audit", "internal/workspace"},
	"internal/archive": {
		"internal/account", "internal/clickledger", "internal/clickstore", "internal/domain", "internal/folder", "internal/importer",
		"internal/link", "internal/stats", "internal/task", "internal/workspace",
	},
	"internal/clickledger":           {"internal/workspace"},
	"internal/clickstore":            {"internal/workspace"},
	"internal/clickstore/clickhouse": {"internal/clickledger", "internal/clickstore", "internal/workspace"},
	"internal/clickstore/clicksql":   {"internal/clickledger", "internal/clickstore", "internal/workspace"},
	"internal/clickstream":           {"internal/clickledger", "internal/clickstore", "internal/workspace"},
	"internal/edit":                  {"internal/apikey", "internal/audit", "internal/folder", "internal/link", "internal/linkquota", "internal/workspace"},
	"internal/eventstream":           {"internal/audit", "internal/workspace"},
	"internal/domain":                {"internal/audit", "internal/destination", "internal/ratelimit", "internal/workspace"},
	"internal/resolve":               {"internal/clickledger"},
	"internal/history":               {"internal/audit", "internal/link", "internal/resolve", "internal/workspace"},
	"internal/hitquota":              {"internal/clickledger"},
	"internal/ingest":                {"internal/clickledger", "internal/clickstore", "internal/hitquota"},
	"internal/link": {
		"internal/audit", "internal/clickledger", "internal/destination", "internal/domain", "internal/folder", "internal/resolve", "internal/utmtemplate",
		"internal/workspace",
	},
	"internal/creation": {
		"internal/audit", "internal/codecounter", "internal/domain", "internal/folder", "internal/idempotency", "internal/link", "internal/linkquota", "internal/ratelimit", "internal/workspace",
	},
	"internal/importer": {
		"internal/audit", "internal/creation", "internal/domain", "internal/folder", "internal/link", "internal/linkquota", "internal/ratelimit",
		"internal/task", "internal/workspace",
	},
	"internal/task":       {"internal/audit", "internal/workspace"},
	"internal/linklist":   {"internal/account", "internal/link", "internal/workspace"},
	"internal/linkquota":  {"internal/workspace"},
	"internal/moderation": {"internal/audit", "internal/link", "internal/ratelimit"},
	"internal/parity":     {"internal/importer", "internal/link", "internal/ratelimit", "internal/simulation", "internal/task", "internal/workspace"},
	"internal/probe":      {"internal/link", "internal/ratelimit", "internal/upkeep", "internal/workspace"},
	"internal/schedule":   {"internal/link", "internal/workspace"},
	"internal/simulation": {"internal/link", "internal/resolve", "internal/workspace"},
	"internal/stats":      {"internal/clickledger", "internal/clickstore", "internal/workspace"},
	"internal/unmatched":  {"internal/workspace"},
	"internal/upkeep": {
		"internal/audit", "internal/idempotency", "internal/link", "internal/linkquota", "internal/workspace",
	},
	"internal/folder":      {"internal/audit", "internal/workspace"},
	"internal/utmtemplate": {"internal/audit", "internal/workspace"},
	"internal/webhook":     {"internal/audit", "internal/clickstream", "internal/destination", "internal/workspace"},
	"internal/webhook/dispatch": {
		"internal/audit", "internal/clickstream", "internal/ratelimit", "internal/webhook", "internal/workspace",
	},
	"internal/workspace": {"internal/account", "internal/audit", "internal/destination", "internal/ratelimit"},
	"graph":              {"graph/gen", "graph/loader"},
	"server":             {"internal/cli"},
}

// forbidden lists libraries that a package must do without, so that their use stays in one place.
var forbidden = map[string][]string{
	"graph":             {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/click":    {"database/sql", "github.com/redis/go-redis/v9"},
	"internal/probe":    {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/redirect": {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/rollup":   {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/routing":  {"github.com/uptrace/bun", "database/sql", "net/http"},
	"internal/urlnorm":  {"net/url", "os", "net/http"},
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
			if strings.HasPrefix(pkg, "scripts/") || strings.HasSuffix(pkg, "test") || pkg == "internal/must" {
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
		"edit.claim", "linklist.narrow",
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
