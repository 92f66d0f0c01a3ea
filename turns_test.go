package linkforge_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// Whatever has a limited number of turns is made in one of these ways.
var (
	turnMakers = map[string]bool{
		"admission.New": true, "admission.NewStatementQueue": true, "admission.NewPoolQueue": true,
		"ratelimit.NewThrottle": true,
	}
	turnMethods = map[string]bool{"SetLimit": true, "SetMaxOpenConns": true}
	turnFields  = map[string]bool{"PoolSize": true, "Slots": true}
	turnTypes   = map[string]bool{"admission.Queue": true, "batcher.Batcher": true}
	// a bound of connections or of work that a node counts itself
	turnConstant = regexp.MustCompile(`^(max(Sockets|Streams|Operations|Waiting|Group|Claims)|atOnce)$`)
)

// turnSites returns the places of a file that make a limited number of turns: the declarations that contain them.
func turnSites(t *testing.T, name string) (sites []string) {
	t.Helper()
	file := must.Value(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
	for _, d := range file.Decls {
		switch is := d.(type) {
		case *ast.FuncDecl:
			if makesTurns(is) {
				sites = append(sites, name+" "+is.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range is.Specs {
				switch spec := s.(type) {
				case *ast.TypeSpec:
					if makesTurns(spec) {
						sites = append(sites, name+" "+spec.Name.Name)
					}
				case *ast.ValueSpec:
					for _, one := range spec.Names {
						if makesTurns(spec) || turnConstant.MatchString(one.Name) && is.Tok == token.CONST {
							sites = append(sites, name+" "+one.Name)
						}
					}
				}
			}
		}
	}
	return sites
}

// makesTurns reports whether a declaration has a limited number of turns.
func makesTurns(in ast.Node) (does bool) {
	selector := func(n ast.Node) string {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				return x.Name + "." + s.Sel.Name
			}
			return "." + s.Sel.Name
		}
		return ""
	}
	ast.Inspect(in, func(n ast.Node) bool {
		switch is := n.(type) {
		case *ast.CallExpr:
			name := selector(is.Fun)
			_, method, _ := strings.Cut(name, ".")
			does = does || turnMakers[name] || turnMethods[method] ||
				method == "Wait" && len(is.Args) == 4 || // for a rate to a host
				isSemaphore(is)
		case *ast.KeyValueExpr:
			key, ok := is.Key.(*ast.Ident)
			does = does || ok && turnFields[key.Name]
		case *ast.AssignStmt:
			for _, left := range is.Lhs {
				_, field, _ := strings.Cut(selector(left), ".")
				does = does || turnFields[field]
			}
		case *ast.Field:
			does = does || turnTypes[selector(plainType(is.Type))]
		case *ast.TypeSpec:
			does = does || turnTypes[selector(plainType(is.Type))]
		}
		return true
	})
	return does
}

// plainType returns a type without its parameters.
func plainType(of ast.Expr) ast.Expr {
	if is, ok := of.(*ast.IndexListExpr); ok {
		return is.X
	}
	return of
}

// isSemaphore reports whether a call makes a channel of several places without a value.
func isSemaphore(call *ast.CallExpr) bool {
	function, ok := call.Fun.(*ast.Ident)
	if !ok || function.Name != "make" || len(call.Args) != 2 {
		return false
	}
	c, ok := call.Args[0].(*ast.ChanType)
	if !ok {
		return false
	}
	_, isEmpty := c.Value.(*ast.StructType)
	places, isLiteral := call.Args[1].(*ast.BasicLit)
	return isEmpty && !(isLiteral && places.Value == "1")
}

// TestTurns_NameTheirSubjects compares the table of docs/SCALING.md with the code: each place with a
// limited number of turns has a row with its subject, and each row is one of them. The subject is
// who is responsible, and never an API key, an IPv6 network of 64 bits, or the call.
func TestTurns_NameTheirSubjects(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(documents(t)["docs/SCALING.md"], "| turns | place | subject | more |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		if strings.HasPrefix(row, "|---") {
			continue
		}
		if len(cells) != 4 {
			t.Errorf("not four cells: %s", row)
			continue
		}
		for _, place := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			rows[place[1]] = strings.TrimSpace(cells[2])
		}
	}
	sites := map[string]bool{}
	for _, root := range []string{"server", "graph", "internal"} {
		must.NoError(t, filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
				!strings.Contains(name, "graph/gen/") && !strings.HasSuffix(filepath.Dir(name), "test") {
				for _, site := range turnSites(t, filepath.ToSlash(name)) {
					sites[site] = true
				}
			}
			return err
		}))
	}
	for _, site := range slices.Sorted(maps.Keys(sites)) {
		if rows[site] == "" {
			t.Errorf("docs/SCALING.md names no subject of %s", site)
		}
	}
	wrong := regexp.MustCompile(`(?i)\bkey\b|/64|64 bits|\bcall\b|\brequest\b`)
	for _, place := range slices.Sorted(maps.Keys(rows)) {
		if !sites[place] {
			t.Errorf("docs/SCALING.md names %s, which has no turns", place)
		}
		if wrong.MatchString(rows[place]) {
			t.Errorf("the subject of %s is %q", place, rows[place])
		}
	}
	if len(sites) < 20 {
		t.Errorf("only %s", fmt.Sprint(sites))
	}
}
