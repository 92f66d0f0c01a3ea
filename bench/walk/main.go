// Command walk lists the packages and functions of the server that a redirect enters, for a plain
// link and for one with rules. It counts calls in an instrumented server: functions that are called
// at least once for each request are part of the walk.
//
//	go run ./walk
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	module = "github.com/linkforge/linkforge/"
	visits = 1000
)

func main() { rig.Main(run, nil) }

func run(r *rig.Run) {
	root, binary := rig.Root(r), filepath.Join(r.Folder, "linkforge-counting")
	rig.Must(r.Output(nil, "go", "-C", root, "build", "-cover", "-covermode=atomic",
		"-coverpkg=./server,./internal/...",
		"-o", binary, "./server"))
	w := &walk{Run: r, root: root, binary: binary}
	idle := w.count("idle", nil, 0)
	for _, kind := range []struct {
		name    string
		routing map[string]any
	}{{"plain link", nil}, {"link with rules", rules()}} {
		w.report(kind.name, idle, w.count(strings.ReplaceAll(kind.name, " ", "-"), kind.routing, visits))
	}
}

// rules have conditions that do not hold, and a draw by visitor.
func rules() map[string]any {
	to := func(path string) map[string]any { return map[string]any{"url": "https://example.com/" + path} }
	return map[string]any{
		"query": map[string]any{"mode": "ADD"},
		"rules": []any{
			map[string]any{"when": []any{map[string]any{"country": []string{"DE"}}}, "targets": []any{to("a")}},
			map[string]any{"when": []any{map[string]any{"os": []string{"Linux"}}}, "stickiness": "VISITOR",
				"targets": []any{to("b"), to("c")}},
		},
	}
}

type walk struct {
	*rig.Run
	root, binary string
}

// function is a function of the server, by its package.
type function struct{ pkg, name string }

// count returns how often each function was entered by a server that starts, creates a link,
// redirects a number of visits, and stops.
func (w *walk) count(name string, routing map[string]any, n int) map[function]int {
	counters := filepath.Join(w.Folder, name+"-counters")
	rig.Check(os.Mkdir(counters, 0o700))
	p := w.Serve(name, w.binary, "GOCOVERDIR="+counters)
	tenant := w.NewTenant(p.Address, "walk", &http.Transport{})
	link := map[string]any{"url": "https://example.com/", "strategy": "RANDOM"}
	if routing != nil {
		link["routing"] = routing
	}
	path := rig.Must(tenant.CreateLinks([]any{link}))[0].Link.Path()
	for range n {
		r := rig.Must(http.NewRequestWithContext(w, http.MethodGet, "http://"+p.Address+path+"?a=b", nil))
		r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
		response := rig.Must(tenant.HTTP.Do(r))
		rig.Check(response.Body.Close())
		if response.StatusCode != http.StatusFound {
			rig.Failf("status %d", response.StatusCode)
		}
	}
	p.Stop()
	profile := filepath.Join(w.Folder, name+".txt")
	rig.Must(w.Output(nil, "go", "tool", "covdata", "textfmt", "-i="+counters, "-o="+profile))
	return w.read(profile)
}

// read returns how often the first block of each function was entered.
func (w *walk) read(profile string) map[function]int {
	file := rig.Must(os.Open(profile))
	defer file.Close()
	entered := map[function]int{}
	starts := map[string]map[int]string{}
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		source, block, ok := strings.Cut(scanner.Text(), ":")
		if !ok || !strings.HasPrefix(source, module) {
			continue
		}
		if starts[source] == nil {
			starts[source] = functionsOf(filepath.Join(w.root, strings.TrimPrefix(source, module)))
		}
		line, _, _ := strings.Cut(block, ".")
		number := rig.Must(strconv.Atoi(line))
		fields := strings.Fields(block)
		count := rig.Must(strconv.Atoi(fields[len(fields)-1]))
		if name := starts[source][number]; name != "" {
			key := function{strings.TrimPrefix(filepath.Dir(source), module), name}
			entered[key] = max(entered[key], count)
		}
	}
	return entered
}

// functionsOf returns the functions of a file by the lines at which their bodies begin.
func functionsOf(path string) map[int]string {
	files := token.NewFileSet()
	starts := map[int]string{}
	for _, declared := range rig.Must(parser.ParseFile(files, path, nil, parser.SkipObjectResolution)).Decls {
		f, ok := declared.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			name = receiver(f.Recv.List[0].Type) + "." + name
		}
		starts[files.Position(f.Body.Pos()).Line] = name
	}
	return starts
}

func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}

// report lists the functions that each visit enters, by package.
func (w *walk) report(name string, idle, entered map[function]int) {
	byPackage := map[string][]string{}
	for f, n := range entered {
		if each := (n - idle[f]) / visits; n-idle[f] >= visits {
			text := f.name
			if each > 1 {
				text += fmt.Sprintf(" ×%d", each)
			}
			byPackage[f.pkg] = append(byPackage[f.pkg], text)
		}
	}
	functions := 0
	rows := [][]string{{"package", "functions"}}
	for _, pkg := range slices.SortedFunc(maps.Keys(byPackage), cmp.Compare[string]) {
		slices.Sort(byPackage[pkg])
		functions += len(byPackage[pkg])
		rows = append(rows, []string{pkg, strings.Join(byPackage[pkg], ", ")})
	}
	fmt.Printf("A redirect of a %s enters %d packages and %d functions.\n\n", name, len(byPackage), functions)
	rig.Table(rows...)
}
