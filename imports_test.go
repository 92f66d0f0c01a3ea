package linkforge_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	graphql "github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge"
	"github.com/linkforge/linkforge/internal/platform/must"
)

const module = "github.com/linkforge/linkforge"

// families are the folders of internal that own the concepts of the product. A package imports
// packages of its own family and of the families behind it in this list.
var families = []string{"move", "event", "link", "visit", "click", "tenant", "route", "platform"}

// maxExceptions bounds exceptions: a family with more of them is cut at the wrong place.
const maxExceptions = 20

// exceptions are the imports of packages of an earlier family, with their reasons.
var exceptions = map[string]map[string]string{
	"internal/click/ingest":    {"internal/visit/hitquota": "returns the hits of a process that has died"},
	"internal/link":            {"internal/event/audit": "writes the event of a change in its transaction"},
	"internal/link/creation":   {"internal/event/audit": "writes the event of a change in its transaction"},
	"internal/link/edit":       {"internal/event/audit": "writes the event of a change in its transaction"},
	"internal/link/history":    {"internal/event/audit": "compares versions with their events"},
	"internal/link/linklist":   {"internal/move/importsource": "filters links by the service that they came from"},
	"internal/link/moderation": {"internal/event/audit": "writes the event of a change in its transaction"},
	"internal/link/upkeep":     {"internal/event/audit": "writes the event of a change in its transaction"},
	"internal/tenant/apikey":   {"internal/event/audit": "writes the event of a change in its transaction"},
	"internal/tenant/domain": {"internal/event/audit": "writes the event of a change in its transaction",
		"internal/link/destination": "a fallback URL of a host is a destination"},
	"internal/tenant/folder": {"internal/event/audit": "writes the event of a change in its transaction"},
	"internal/tenant/workspace": {
		"internal/event/audit":      "writes the event of a change in its transaction",
		"internal/link/destination": "a fallback URL of a workspace is a destination",
		"internal/link/shortcode":   "a slug is no code, and no reserved word",
	},
	"internal/visit/redirect": {"internal/link/shortcode": "tells codes from other paths"},
	"internal/visit/resolve": {"internal/link/linkfield": "applies pending changes of a cached link",
		"internal/link/shortcode": "tells codes from other paths"},
}

// verbs are the packages that do one thing with links. None imports another one.
var verbs = []string{"creation", "edit", "history", "linklist", "moderation", "upkeep"}

// forbidden lists libraries that a package must do without, so that their use stays in one place.
var forbidden = map[string][]string{
	"graph":                     {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/click":            {"database/sql", "github.com/redis/go-redis/v9"},
	"internal/visit/redirect":   {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/route/routing":    {"github.com/uptrace/bun", "database/sql", "net/http"},
	"internal/platform/urlnorm": {"net/url", "os", "net/http"},
}

// TestImports_FollowTheFamilies checks that packages of internal import only from their family and
// later ones, and that the packages above all families are imported by programs only.
func TestImports_FollowTheFamilies(t *testing.T) {
	t.Parallel()
	unused := map[string]bool{}
	for pkg, imports := range exceptions {
		for imported := range imports {
			unused[pkg+" "+imported] = true
		}
	}
	if len(unused) > maxExceptions {
		t.Errorf("%d exceptions, want at most %d", len(unused), maxExceptions)
	}
	for pkg, imports := range listImports(t) {
		from := familyOf(pkg)
		for _, imported := range imports {
			if slices.Contains(forbidden[pkg], imported) {
				t.Errorf("%s imports %s", pkg, imported)
			}
			ours, ok := strings.CutPrefix(imported, module+"/")
			if !ok || from < 0 || isTestHelper(pkg) {
				continue
			}
			to := familyOf(ours)
			switch {
			case to >= from:
			case exceptions[pkg][ours] != "":
				delete(unused, pkg+" "+ours)
			default:
				t.Errorf("%s imports %s, which is of no later family", pkg, ours)
			}
			if isVerb(pkg) && isVerb(ours) {
				t.Errorf("%s imports %s: none of these imports another one", pkg, ours)
			}
		}
	}
	for exception := range unused {
		t.Errorf("the exception %s is not used", exception)
	}
}

// familyOf returns the index of the family of a package; -1 for the packages above all families.
func familyOf(pkg string) int {
	rest, ok := strings.CutPrefix(pkg, "internal/")
	if !ok {
		return -1
	}
	name, _, _ := strings.Cut(rest, "/")
	return slices.Index(families, name)
}

func isTestHelper(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || pkg == "internal/platform/must"
}

func isVerb(pkg string) bool {
	name, ok := strings.CutPrefix(pkg, "internal/link/")
	return ok && slices.Contains(verbs, name)
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
	"AsOwner":     {"migrate.Up", "migrate.Down", "migrate.Last", "migrate.List", "jobs.holders"},
	"InWorkspace": {"workspace.Enter", "workspace.memberships", "workspace.create"},
	"AsAccount":   {"workspace.memberships"},
	"AsCreator":   {"creation.enter"},
	"AsResolver": {
		"link.AtPlace", "hitquota.exhausted", "resolve.query",
		"link.WorkspacesOf",
		"edit.claim", "linklist.narrow",
		"apikey.Authenticate", "apikey.valid", "domain.Verified", "workspace.IDBySlug", "workspace.WorkspacesOf",
		"workspace.Observe", "workspace.QRStyle",
	},
	"AsSystem": {
		"account.AdminCreate", "account.Register", "account.remove", "account.beginSession", "acme.statement",
		"audit.AfterRestore",
		"audit.CleanUp", "audit.Export", "audit.WorkspacesOf",
		"clickhouse.Copy", "clickhouse.MoveClicks", "clickhouse.PurgeWorkspace", "clickhouse.Write",
		"clickhouse.compare", "clickstore.AfterRestore",
		"clicksql.WorkspacesOf", "clickstream.begin", "clickstream.Missed", "clickstream.Resume",
		"eventstream.After", "feed.CatchUp", "feed.Horizon",
		"clicksql.eachSubject", "unmatched.DeleteExpired", "clickstream.DeleteExpiredBatches",
		"clickstore.ForgetVisitors",
		"clickstore.ForgetWho", "clickstore.Take", "clickstore.Report", "clickstore.Leave", "clickstore.ForgetNodes",
		"clickstore.UnknownWorkspaces", "unmatched.Purge",
		"clickstore.Platform", "hitquota.readFloors", "clickstore.Position", "clickstore.BusyLinks", "unmatched.Flush",
		"link.List",
		"history.Verify", "upkeep.RecordTransitions",
		"clicksql.PurgeWorkspace", "clickstream.After", "clicksql.Retain", "clicksql.Seal", "ingest.share",
		"clicksql.Write",
		"hitquota.recount", "hitquota.Grant",
		"hitquota.returnOwed", "jobs.States", "jobs.attempt", "lease.End", "lease.Renew",
		"moderation.Block", "moderation.FindLinks", "moderation.CodeHolders", "moderation.SetDisabled",
		"moderation.Unblock", "moderation.Reasons", "moderation.withCode",
		"moderation.inBatches", "creation.CleanUp", "creation.PurgeWorkspace", "upkeep.DueChecks",
		"upkeep.PostponeChecks", "upkeep.RecordCheck", "upkeep.RequestChecks",
		"edit.ApplyDue", "secrets.InUse", "secrets.Rewrap", "edit.claim", "upkeep.CleanUp", "upkeep.DoubtChecks",
		"linklist.CountActive",
		"linklist.Export",
		"linklist.indexSome",
		"upkeep.PurgeWorkspace", "moderation.Reports", "apikey.createdBy",
		"domain.verify", "domain.ClearURLs", "workspace.ClearURLs",
		"workspace.Accept", "workspace.Export", "workspace.AdminList", "workspace.AdminGet", "workspace.AdminRequire",
		"workspace.ReleaseSlugs", "workspace.operate",
		"webhook.AdminList", "webhook.AfterRestore", "webhook.CleanUp", "webhook.EndClaims",
		"webhook.Start", "webhook.Stop",
		"webhook.setBlocked",
		"dispatch.claim", "dispatch.disable", "dispatch.doubt",
		"dispatch.due", "dispatch.readLog", "dispatch.record", "dispatch.split",
		"dispatch.targetOf",
		"dispatch.unclaim",
		"workspace.AdminAddresses", "workspace.AdminChange", "workspace.nameOwners", "workspace.InvitedAddress",
		"workspace.IsInvited",
		"workspace.ResolveGroups",
		"workspace.ResponsibleFor", "task.CleanUp", "task.admit", "task.next",
		"task.release", "task.reserve", "task.take", "task.trim",
	},
}

// TestScopes_AreUsedWhereAllowed checks that only the functions in scopes use a scope beyond one workspace.
func TestScopes_AreUsedWhereAllowed(t *testing.T) { calledBy(t, scopes) }

// TestSessions_BeginWhereAllowed: these are all ways to a token, and each requires the proofs of
// the account. See docs/guide/authentication.md.
func TestSessions_BeginWhereAllowed(t *testing.T) {
	calledBy(t, map[string][]string{
		"Issue": {"account.login"},
		"login": {"account.Refresh", "account.beginSession"},
		// with a password that was set, or all proofs that are missing
		"beginSession": {"account.Register", "account.proceed"},
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
	if want := []string{"completeLogin", "finishSso", "login", "refreshSession", "register"}; !slices.Equal(issuing,
		want) {
		t.Errorf("mutations that return tokens: %v, want %v", issuing, want)
	}
}

// calledBy checks that the functions named by the keys have exactly these callers in package internal.
func calledBy(t *testing.T, want map[string][]string) {
	t.Helper()
	t.Parallel()
	callers := map[string]map[string]bool{}
	inspect := func(pkg string, f *ast.FuncDecl) {
		ast.Inspect(f, func(n ast.Node) bool {
			if called := calledFunction(n); want[called] != nil && f.Name.Name != called {
				if callers[called] == nil {
					callers[called] = map[string]bool{}
				}
				callers[called][pkg+"."+f.Name.Name] = true
			}
			return true
		})
	}
	for _, files := range parsePackages(t, "internal") {
		for _, file := range files {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					inspect(file.Name.Name, f)
				}
			}
		}
	}
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
