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
)

const module = "github.com/linkforge/linkforge"

// layers are the rooms from the bottom to the top. A room imports from the layers below its own, and from its
// own only what within allows.
var layers = [][]string{
	{"", "internal/errs", "internal/batcher", "internal/id", "internal/wal", "internal/ownhost", "internal/optional", "internal/poll",
		"internal/statspage", "internal/validate", "internal/urlnorm", "internal/shortcode",
		"internal/visitor", "internal/visitor/visitortest", "migrations"},
	{"internal/config", "internal/db", "internal/redisx", "internal/page", "internal/obs", "internal/web", "internal/fastpath", "internal/jobs", "internal/dbtest",
		"internal/outbound", "internal/outbound/outboundtest", "internal/mail", "internal/consistency",
		"graph/scalar", "graph/limit", "graph/transport"},
	{"internal/account", "internal/audit", "internal/workspace", "internal/workspace/workspacetest", "internal/domain", "internal/apikey", "internal/hitquota", "internal/ratelimit", "internal/link", "internal/click", "internal/click/clicktest", "internal/probe"},
	{"internal/redirect", "internal/playground", "graph", "graph/gen", "graph/loader"},
	{"server"},
}

// within are the imports inside a layer.
var within = map[string][]string{
	"internal/validate":                {"internal/errs"},
	"internal/visitor":                 {"internal/poll", "internal/validate"},
	"internal/ownhost":                 {"internal/urlnorm"},
	"internal/statspage":               {"internal/urlnorm"},
	"internal/page":                    {},
	"internal/config":                  {"internal/redisx"},
	"internal/jobs":                    {"internal/db"},
	"internal/dbtest":                  {"internal/db", "internal/redisx"},
	"internal/consistency":             {"internal/db", "internal/redisx"},
	"internal/account":                 {"internal/ratelimit"},
	"internal/workspace":               {"internal/account", "internal/audit", "internal/ratelimit"},
	"internal/workspace/workspacetest": {"internal/account", "internal/workspace"},
	"internal/apikey":                  {"internal/account", "internal/audit", "internal/workspace"},
	"internal/domain":                  {"internal/audit", "internal/ratelimit", "internal/workspace"},
	"internal/link":                    {"internal/account", "internal/audit", "internal/hitquota", "internal/ratelimit", "internal/workspace"},
	"internal/click":                   {"internal/hitquota", "internal/workspace"},
	"internal/click/clicktest":         {"internal/click"},
	"internal/probe":                   {"internal/link", "internal/ratelimit", "internal/workspace"},
	"graph":                            {"graph/gen", "graph/loader"},
	"graph/limit":                      {"graph/scalar", "internal/config"},
	"graph/transport":                  {"graph/limit", "internal/config", "internal/obs", "internal/web"},
}

// forbidden are libraries that a room must do without, so that what they are for stays in one place.
var forbidden = map[string][]string{
	"internal/redirect": {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/probe":    {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"graph":             {"github.com/uptrace/bun", "database/sql", "github.com/redis/go-redis/v9"},
	"internal/urlnorm":  {"net/url", "os", "net/http"},
}

func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	level := map[string]int{}
	for i, layer := range layers {
		for _, room := range layer {
			level[room] = i
		}
	}
	for room, imports := range listImports(t) {
		at, ok := level[room]
		if !ok {
			if strings.HasPrefix(room, "scripts/") {
				continue // no part of the server
			}
			t.Errorf("%s has no layer: give it one", room)
			continue
		}
		for _, imported := range imports {
			if slices.Contains(forbidden[room], imported) {
				t.Errorf("%s imports %s", room, imported)
			}
			ours, ok := strings.CutPrefix(imported, module)
			ours = strings.TrimPrefix(ours, "/")
			if !ok || level[ours] < at || slices.Contains(within[room], ours) {
				continue
			}
			t.Errorf("%s imports %s, which is not below it", room, ours)
		}
	}
}

// listImports asks the go command what each package of the module imports, tests aside.
func listImports(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")] = p.Imports
	}
}

// scopes are the functions that may ask for a scope which shows more than one workspace, and for one at all: every other
// function sees what Membership.Enter lets it see.
var scopes = map[string][]string{
	"AsOwner":     {"db.Migrate", "db.Rollback", "db.Migrations", "db.CheckReplica", "db.FollowReplica", "dbtest.makeTemplate", "dbtest.try"},
	"InWorkspace": {"workspace.Enter", "workspace.memberships", "workspace.Create"},
	"AsAccount":   {"workspace.memberships"},
	"AsResolver": {
		"hitquota.Granted", "link.At", "link.CatchUp", "hitquota.Exhausted", "link.query", "link.WorkspacesOf", "link.claim", "link.lookUp",
		"apikey.Authenticate", "apikey.valid", "domain.IsVerified", "workspace.IDBySlug", "workspace.WorkspacesOf", "workspace.Observe",
	},
	"AsSystem": {
		"account.Delete", "audit.CleanUp", "audit.Export", "audit.WorkspacesOf", "click.WorkspacesOf", "click.begin", "click.eachSubject", "click.ForgetBatches", "click.ForgetVisitors", "click.ForgetWho", "click.Platform", "click.positionOf", "click.BusyLinks", "click.Detail", "click.Flush", "link.Usages", "click.PurgeWorkspace", "click.readOn", "click.Retain", "click.Seal", "click.share", "click.write",
		"click.remove", "hitquota.ForgetLeases", "hitquota.ForgetUsage", "hitquota.RecountGrants", "hitquota.Seeds", "hitquota.recoverLeases", "hitquota.take", "jobs.States", "jobs.attempt",
		"link.Block", "link.Find", "link.Holders", "link.SetDisabled", "link.Unblock", "link.setDisabled", "link.DueChecks", "link.Checked", "link.PostponeChecks", "link.claim", "link.CleanUp",
		"link.CountActive", "link.Export", "link.PurgeWorkspace", "link.Reports", "apikey.Export", "domain.verify", "workspace.Accept", "workspace.Export", "workspace.AdminList", "workspace.operate", "workspacetest.Join",
	},
}

// TestScopesAreAskedForInTheirRooms reads the code: who sees more than a workspace is in the list above.
func TestScopesAreAskedForInTheirRooms(t *testing.T) {
	t.Parallel()
	asked := map[string]map[string]bool{}
	err := filepath.WalkDir("internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
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
				if s := scopeAskedFor(n); scopes[s] != nil && f.Name.Name != s && f.Name.Name != "CheckScopes" {
					if asked[s] == nil {
						asked[s] = map[string]bool{}
					}
					asked[s][file.Name.Name+"."+f.Name.Name] = true
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for scope, may := range scopes {
		slices.Sort(may)
		if got := slices.Sorted(maps.Keys(asked[scope])); !slices.Equal(got, may) {
			t.Errorf("%s is asked for by\n%v, and may be by\n%v", scope, got, may)
		}
	}
}

// scopeAskedFor is the function that a call names: db.AsSystem, or AsSystem within its package.
func scopeAskedFor(n ast.Node) string {
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
