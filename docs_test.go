package linkforge_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"

	"github.com/linkforge/linkforge"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// documents returns the Markdown files of the product by their paths.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md", "bench/*.md"} {
		files := must.Value(filepath.Glob(pattern))(t)
		for _, file := range files {
			text := must.Value(os.ReadFile(file))(t)
			texts[file] = string(text)
		}
	}
	if len(texts) < 15 {
		t.Fatalf("only %d documents found", len(texts))
	}
	return texts
}

var (
	codeBlock       = regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```")
	testName        = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9_]*)`")
	testDeclaration = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9_]*)\(`)
	relativeLink    = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

func TestDocs_RelativeLinksResolve(t *testing.T) {
	t.Parallel()
	for file, text := range documents(t) {
		for _, link := range relativeLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), link[1])); err != nil {
				t.Errorf("%s links to %s: %v", file, link[1], err)
			}
		}
	}
}

var sourceFile = regexp.MustCompile("`([a-z0-9_./{}]*/[a-z0-9_]+\\.(?:go|sql|json|graphql|md|txt))`")

// TestDocs_NamedFilesExist checks the files that the architecture names, from the root, from internal or from a family.
func TestDocs_NamedFilesExist(t *testing.T) {
	t.Parallel()
	folders := []string{".", "internal"}
	for _, family := range families {
		folders = append(folders, filepath.Join("internal", family))
	}
	for _, m := range sourceFile.FindAllStringSubmatch(documents(t)["docs/ARCHITECTURE.md"], -1) {
		if !slices.ContainsFunc(folders, func(folder string) bool {
			_, err := os.Stat(filepath.Join(folder, m[1]))
			return err == nil
		}) {
			t.Errorf("there is no %s", m[1])
		}
	}
}

// TestDocs_NamedTestsExist checks the tests that documents name as proof.
func TestDocs_NamedTestsExist(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	must.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range testDeclaration.FindAllStringSubmatch(string(text), -1) {
			declared[name[1]] = true
		}
		return err
	}))
	named := 0
	for file, text := range documents(t) {
		for _, name := range testName.FindAllStringSubmatch(text, -1) {
			named++
			if !declared[name[1]] && name[1] != "TestType_Behaviour" { // the form of a name
				t.Errorf("%s names %s, which does not exist", file, name[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d tests are named", named)
	}
}

// TestDocs_MakeTestProvesEachInvariant: make test-faults proves none of them alone.
func TestDocs_MakeTestProvesEachInvariant(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(documents(t)["docs/ARCHITECTURE.md"], "| invariant |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	for _, row := range rows {
		proofs := testName.FindAllStringSubmatch(row, -1)
		if !slices.ContainsFunc(proofs, func(name []string) bool { return !strings.HasPrefix(name[1], "TestFault_") }) {
			t.Errorf("no test of make test: %s", row)
		}
	}
	if len(rows) < 30 {
		t.Errorf("only %d invariants", len(rows))
	}
}

// TestDocs_OperationsAreValid validates all GraphQL operations of the documentation.
func TestDocs_OperationsAreValid(t *testing.T) {
	t.Parallel()
	schema := must.Value(gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: linkforge.Schema}))(t)
	operations := 0
	for file, text := range documents(t) {
		for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
			for _, operation := range operationsOf(block[1], block[2]) {
				operations++
				if _, errs := gqlparser.LoadQuery(schema, operation); errs != nil {
					t.Errorf("%s: %v\n%s", file, errs, strings.TrimSpace(operation))
				}
			}
		}
	}
	if operations < 15 {
		t.Errorf("only %d operations found", operations)
	}
}

var quotedOperation = regexp.MustCompile(`['\x60]((?:\{ |(?:query|mutation|subscription) )[^'\x60]*)['\x60]`)

// operationsOf returns the GraphQL operations of a code block, which has one or is a script that quotes them.
func operationsOf(language, code string) (operations []string) {
	switch language {
	case "graphql":
		operations = append(operations, code)
	case "html", "js":
		for _, quoted := range quotedOperation.FindAllStringSubmatch(code, -1) {
			operations = append(operations, quoted[1])
		}
	}
	return operations
}

// TestAudit_KnowsTypesWithoutIDs compares the schema with the list of scripts/audit. A type that
// clients can refetch and cache has an id.
func TestAudit_KnowsTypesWithoutIDs(t *testing.T) {
	t.Parallel()
	schema := must.Value(gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: linkforge.Schema}))(t)
	config := string(must.Value(os.ReadFile("scripts/audit/eslint.config.js"))(t))
	_, list, _ := strings.Cut(config, "const values = [")
	list, _, _ = strings.Cut(list, "];")
	var without []string
	for name, d := range schema.Types {
		hasOwn := d.Kind != ast.Object || d.BuiltIn || d.Fields.ForName("id") != nil
		if !hasOwn && !slices.Contains([]string{"Query", "Mutation", "Subscription"}, name) &&
			!regexp.MustCompile("(Payload|Result|Connection|Edge)$").MatchString(name) {
			without = append(without, name)
		}
	}
	slices.Sort(without)
	var listed []string
	for _, quoted := range regexp.MustCompile(`'\w+'`).FindAllString(list, -1) {
		listed = append(listed, strings.Trim(quoted, "'"))
	}
	if !slices.Equal(listed, without) {
		t.Errorf("the list has\n%v, want\n%v", listed, without)
	}
}

// TestPlayground_ExamplesAreValid validates the examples of the playground and, with Node.js, their variables.
func TestPlayground_ExamplesAreValid(t *testing.T) {
	t.Parallel()
	const file = "graph/playground/ui/src/examples.js"
	schema := must.Value(gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: linkforge.Schema}))(t)
	text := string(must.Value(os.ReadFile(file))(t))
	queries := regexp.MustCompile("query: `([^`]+)`").FindAllStringSubmatch(text, -1)
	if n := strings.Count(text, "\n    title: "); n < 25 || len(queries) != n {
		t.Fatalf("%d of %d examples have a query", len(queries), n)
	}
	for _, query := range queries {
		if _, errs := gqlparser.LoadQuery(schema, query[1]); errs != nil {
			t.Errorf("%v\n%s", errs, query[1])
		}
	}
	t.Run("variables", func(t *testing.T) {
		requireNode(t)
		printed := must.Value(exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval",
			"import { EXAMPLES } from './"+file+"'; console.log(JSON.stringify(EXAMPLES))").Output())(t)
		var examples []struct {
			Title, Query string
			Variables    map[string]any
		}
		must.NoError(t, json.Unmarshal(printed, &examples))
		for _, e := range examples {
			query, errs := gqlparser.LoadQuery(schema, e.Query)
			if errs != nil {
				continue // reported above
			}
			if _, err := validator.VariableValues(schema, query.Operations[0], e.Variables); err != nil {
				t.Errorf("%s: %v", e.Title, err)
			}
		}
	})
}

// requireNode skips the test without Node.js 20 or newer.
func requireNode(t *testing.T) {
	t.Helper()
	version, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		t.Skipf("Node.js is not installed: %v", err)
	}
	var major int
	must.Value(fmt.Sscanf(string(version), "v%d.", &major))(t)
	if major < 20 {
		t.Skipf("Node.js %d is older than 20", major)
	}
}

// TestDocs_NameOneWorkspace checks that a reader meets one workspace on all pages.
func TestDocs_NameOneWorkspace(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, text := range documents(t) {
		for _, id := range regexp.MustCompile(`\bws_\w{26}\b`).FindAllString(text, -1) {
			found[id] = true
		}
	}
	if len(found) != 1 {
		t.Errorf("the documents name the workspaces %v", found)
	}
}

// TestDocs_CommandsCanBePasted checks that the first pages print commands without a prompt, which a shell would run.
func TestDocs_CommandsCanBePasted(t *testing.T) {
	t.Parallel()
	texts := documents(t)
	for _, page := range []string{"README.md", "docs/guide/getting-started.md"} {
		for _, block := range codeBlock.FindAllStringSubmatch(texts[page], -1) {
			// Comments are arguments in an interactive zsh.
			if match := regexp.MustCompile(`(?m)^[$>] .*|^.* # .*`).FindString(block[2]); block[1] != "json" &&
				match != "" {
				t.Errorf("%s: %s", page, match)
			}
		}
	}
}

// TestDocs_MapAllScalars compares the map for code generators with the schema.
func TestDocs_MapAllScalars(t *testing.T) {
	t.Parallel()
	printed := regexp.MustCompile(`scalars: \{ .* \}`).FindString(documents(t)["docs/guide/front-ends.md"])
	console := string(must.Value(os.ReadFile("internal/console/ui/codegen.ts"))(t))
	if printed == "" || !strings.Contains(console, printed) {
		t.Errorf("%q is not in the codegen.ts of the console", printed)
	}
	for name, definition := range must.Value(gqlparser.LoadSchema(&ast.Source{Input: linkforge.Schema}))(t).Types {
		if definition.Kind == ast.Scalar && !definition.BuiltIn && !strings.Contains(printed, name+": '") {
			t.Errorf("%q misses %s", printed, name)
		}
	}
}
