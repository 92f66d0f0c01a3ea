// Command mutants measures the coverage of faults by tests: it inverts each if of a package, one at
// a time, runs the tests of the package on SQLite, and lists the ifs whose inversion no test
// notices.
//
//	go run ./scripts/mutants [-every N] [-skip FILE] PACKAGE…
//
// With -skip it leaves out the mutants that FILE, the output of an earlier run, lists as alive: to
// see whether the tests notice less than before. All mutants of a package are compiled once: the
// environment selects one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// selector is the environment variable with the number of the mutant.
const selector = "LINKFORGE_MUTANT"

// timeFactor bounds a run of the tests, as a multiple of the run without a mutant: an inverted if
// may wait for ever.
const timeFactor = 3

func main() {
	every := flag.Int("every", 1, "invert each N-th if only")
	skip := flag.String("skip", "", "a file with the output of an earlier run, whose living mutants are left out")
	flag.Parse()
	known := ""
	if *skip != "" {
		text, err := os.ReadFile(*skip)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		known = string(text)
	}
	status := 0
	for _, dir := range flag.Args() {
		if err := measure(dir, *every, known); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", dir, err)
			status = 1
		}
	}
	os.Exit(status)
}

// measure prints the living mutants of a package, and how many there are of all.
func measure(dir string, every int, known string) error {
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	mutants, overlay, err := mutate(dir, tmp, every)
	if err != nil {
		return err
	}
	binary := filepath.Join(tmp, "tests")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./"+filepath.Clean(dir))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	began := time.Now()
	if out, err := run(binary, dir, -1, time.Hour); err != nil {
		return fmt.Errorf("the tests fail without a mutant: %w\n%s", err, out)
	}
	limit := timeFactor*time.Since(began) + 5*time.Second
	var (
		alive []int
		mu    sync.Mutex
		tests sync.WaitGroup
		slots = make(chan struct{}, 2)
	)
	for n, at := range mutants {
		if strings.Contains(known, at+"\n") {
			continue
		}
		tests.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if _, err := run(binary, dir, n, limit); err == nil {
				mu.Lock()
				defer mu.Unlock()
				alive = append(alive, n)
			}
		})
	}
	tests.Wait()
	slices.Sort(alive)
	for _, n := range alive {
		fmt.Printf("alive: %s\n", mutants[n])
	}
	fmt.Printf("%s: %d of %d mutants alive\n", dir, len(alive), len(mutants))
	return nil
}

// mutate writes copies of the package's files whose ifs ask the environment, and an overlay for the
// compiler. It returns where each mutant is: the file, the function and the condition.
func mutate(dir, tmp string, every int) (mutants []string, overlay string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, "", err
	}
	replace, name, seen := map[string]string{}, "", 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, "", err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, src, 0)
		if err != nil {
			return nil, "", err
		}
		name = parsed.Name.Name
		out, written := []byte{}, 0
		for _, d := range parsed.Decls {
			ast.Inspect(d, func(n ast.Node) bool {
				branch, ok := n.(*ast.IfStmt)
				if !ok {
					return true
				}
				if seen++; seen%every != 0 {
					return true
				}
				from, to := set.Position(branch.Cond.Pos()).Offset, set.Position(branch.Cond.End()).Offset
				out = append(out, src[written:from]...)
				out = fmt.Appendf(out, "isMutant(%d) != (%s)", len(mutants), src[from:to])
				written = to
				condition := strings.Join(strings.Fields(string(src[from:to])), " ")
				mutants = append(mutants, fmt.Sprintf("%s: %s: if %s", file, declared(d), condition))
				return true
			})
		}
		if written > 0 {
			copied := filepath.Join(tmp, filepath.Base(file))
			if err := os.WriteFile(copied, append(out, src[written:]...), 0o644); err != nil {
				return nil, "", err
			}
			replace[absolute(file)] = absolute(copied)
		}
	}
	added := filepath.Join(tmp, "mutant.go")
	text := fmt.Sprintf(`package %s

import (
	"os"
	"strconv"
)

var mutant = func() int {
	n, err := strconv.Atoi(os.Getenv(%q))
	if err != nil {
		return -1
	}
	return n
}()

func isMutant(n int) bool { return mutant == n }
`, name, selector)
	replace[absolute(filepath.Join(dir, "zz_mutant.go"))] = absolute(added)
	list, err := json.Marshal(map[string]any{"Replace": replace})
	overlay = filepath.Join(tmp, "overlay.json")
	return mutants, overlay, errors.Join(err, os.WriteFile(added, []byte(text), 0o644),
		os.WriteFile(overlay, list, 0o644))
}

func declared(d ast.Decl) string {
	if f, ok := d.(*ast.FuncDecl); ok {
		return f.Name.Name
	}
	return "a declaration"
}

func absolute(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return path
}

// run runs the tests with a mutant. Its error means that they fail, or do not end.
func run(binary, dir string, mutant int, limit time.Duration) (out []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tests := exec.CommandContext(ctx, binary, "-test.failfast", "-test.short", "-test.timeout", limit.String())
	tests.Dir = dir
	tests.Env = append(os.Environ(), fmt.Sprintf("%s=%d", selector, mutant))
	return tests.CombinedOutput()
}
