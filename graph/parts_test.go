package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestAnswer_KeepsWhatIsAllowed requests all fields of each object in one query, as callers with every
// role and scope: whatever a caller receives alone is also in the answer beside what fails.
func TestAnswer_KeepsWhatIsAllowed(t *testing.T) {
	t.Parallel()
	dbtest.EachIfExhaustive(t, func(t *testing.T, d *db.DB) {
		w := newNodeWorld(t, d)
		compared := 0
		for _, def := range contract(t).Types {
			way := w.way(t, def.Name)
			if way == "" {
				continue
			}
			var fields []string
			for _, f := range def.Fields {
				if text := w.part(t, f); text != "" {
					fields = append(fields, text)
				}
			}
			for caller, token := range w.callers {
				all := w.parts(t, token, way, strings.Join(fields, " "))
				for _, f := range fields {
					name, _, _ := strings.Cut(f, ":")
					if all[name] != nil {
						compared++
					} else if alone := w.parts(t, token, way, f); alone[name] != nil {
						t.Errorf("%s: %s.%s is lost beside other fields", caller, def.Name, name)
					}
				}
			}
		}
		if compared < 1000 {
			t.Errorf("only %d fields were in an answer", compared)
		}
	})
}

// way is a query that leads to an object of a type that the owner sees, with %s for its fields; empty for
// types that only others lead to.
func (w *nodeWorld) way(t *testing.T, typeName string) string {
	t.Helper()
	if way, ok := ways[typeName]; ok {
		return way
	}
	if listedNodes[typeName] == "" {
		return ""
	}
	return `query ($id: ID!) { node(id: $id) { ... on ` + typeName + ` { %s } } }`
}

// part selects a field with the smallest arguments, and the scalar fields below it; empty for a field of
// a type without any.
func (w *nodeWorld) part(t *testing.T, f *ast.FieldDefinition) string {
	t.Helper()
	arguments := requiredArguments(contract(t), f, "")
	if f.Arguments.ForName("first") != nil {
		arguments += "first: 1"
	}
	if arguments != "" {
		arguments = "(" + arguments + ")"
	}
	text, of := f.Name+": "+f.Name+arguments, contract(t).Types[f.Type.Name()]
	switch {
	case strings.HasPrefix(f.Name, "__"):
		return ""
	case of.IsLeafType():
		return text
	case strings.HasSuffix(of.Name, "Connection"):
		item := contract(t).Types[strings.TrimSuffix(of.Name, "Connection")+"Edge"].Fields.ForName("node").Type.Name()
		sums := selection(contract(t), of.Name, 0)
		return text + " { nodes { " + selection(contract(t), item, 0) + " } " + sums + " }"
	}
	return text + " { " + selection(contract(t), of.Name, 0) + " }"
}

// variables are those of a way.
func (w *nodeWorld) variables(t *testing.T, way string) []any {
	t.Helper()
	variables := []any{"w", w.ada.workspace.ID(), "id", nil}
	if _, typeName, ok := strings.Cut(way, "... on "); ok && strings.Contains(way, "node(id") {
		typeName, _, _ = strings.Cut(typeName, " ")
		variables[3] = w.ids(t, w.ada.token, typeName)[0]
	}
	return variables
}

// parts returns the fields of the object that a way leads to, as a caller sees them.
func (w *nodeWorld) parts(t *testing.T, token, way, fields string) map[string]any {
	t.Helper()
	r := w.ask(t, token, fmt.Sprintf(way, "walked: __typename "+fields), w.variables(t, way)...)
	if strings.Contains(r.Codes(), "BAD_REQUEST") || strings.Contains(r.Codes(), "COMPLEXITY") {
		t.Fatalf("%s: %.2000s", fields, r.Text)
	}
	var object map[string]any
	visit(t, r.Data, func(one map[string]any) {
		if one["walked"] != nil {
			object = one
		}
	})
	return object
}

// computed are the fields whose resolver cannot fail by itself, and why.
var computed = map[string]string{
	"Link.shortUrl": "of the row", "Link.status": "of the row", "User.hasPassword": "of the row",
	"ImportRow.errors": "of the row", "Workspace.hitLimit": "of the row", "Workspace.qrStyle": "of the row",
	"Workspace.routingDefaults": "of the row",
	"Stats.clicks":              "of one instant with all of its Stats, as are the next two",
	"Stats.visitors":            "", "Stats.bots": "",
}

// TestAnswer_KeepsWhatDoesNotFail makes each field that reads a store fail for one object: it is null,
// with an error, and nothing else of the object and of those below it is missing.
func TestAnswer_KeepsWhatDoesNotFail(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, dbtest.MigratedSQLite(t))
	f := &failing{}
	c := newTransport(w.Config)
	c.Extensions = append(c.Extensions, f)
	w.Handler = transport.New(c)
	failed := map[string]bool{}
	for _, def := range contract(t).Types {
		way := w.way(t, def.Name)
		if way == "" {
			continue
		}
		var fields []string
		for _, field := range def.Fields {
			fields = append(fields, w.part(t, field))
		}
		query, variables := fmt.Sprintf(way, strings.Join(fields, " ")), w.variables(t, way)
		f.seen = map[string]bool{}
		want := pathsOf(t, w.ask(t, w.ada.token, query, variables...))
		for _, name := range slices.Sorted(maps.Keys(f.seen)) {
			if _, ok := computed[name]; ok {
				continue
			}
			failed[name], f.field = true, name
			r := w.ask(t, w.ada.token, query, variables...)
			got, path := pathsOf(t, r), ""
			var answer struct {
				Errors []struct {
					Path       []any
					Extensions struct{ Code string }
				}
			}
			must.NoError(t, json.Unmarshal([]byte(r.Text), &answer))
			for _, e := range answer.Errors {
				if e.Extensions.Code == errs.Internal.Code() {
					path = joined(e.Path)
				}
			}
			if !strings.HasSuffix(name, "."+path[strings.LastIndex(path, " ")+1:]) {
				t.Errorf("%s: the error is at %q: %.500s", name, path, r.Text)
				continue
			}
			for _, one := range want {
				isMissing := !slices.Contains(got, one)
				if isPart := one == path || strings.HasPrefix(one, path+" "); isMissing != isPart {
					t.Errorf("%s fails at %s: %s is missing: %t", name, path, one, isMissing)
				}
			}
		}
	}
	if len(failed) < 60 {
		t.Errorf("only %d fields failed: %v", len(failed), slices.Sorted(maps.Keys(failed)))
	}
}

// pathsOf returns the paths of all values in a response that are not null.
func pathsOf(t *testing.T, r reply) (paths []string) {
	t.Helper()
	var root any
	must.NoError(t, json.Unmarshal(r.Data, &root))
	var walk func(value any, path []any)
	walk = func(value any, path []any) {
		switch value := value.(type) {
		case nil:
			return
		case map[string]any:
			for name, child := range value {
				walk(child, append(slices.Clone(path), name))
			}
		case []any:
			for i, child := range value {
				walk(child, append(slices.Clone(path), i))
			}
		}
		paths = append(paths, joined(path))
	}
	walk(root, nil)
	return paths
}

func joined(path []any) string { return strings.TrimSpace(fmt.Sprintln(path...)) }

// failing makes a field fail for the first object that it is requested of.
type failing struct {
	mu sync.Mutex
	// field is the field that is to fail: its type and name. seen are those that have a resolver.
	field string
	seen  map[string]bool
}

func (*failing) ExtensionName() string { return "Failing" }

func (*failing) Validate(graphql.ExecutableSchema) error { return nil }

func (f *failing) InterceptField(ctx context.Context, next graphql.Resolver) (any, error) {
	value, err := next(ctx) // for fields that wait for it
	field := graphql.GetFieldContext(ctx)
	name := field.Object + "." + field.Field.Name
	isSum := strings.HasSuffix(field.Object, "Connection") && field.Field.Definition.Type.Name() == "Int64"
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen != nil && (field.IsResolver || isSum || field.IsMethod && !field.Field.Definition.Type.NonNull) {
		f.seen[name] = true
	}
	if f.field != name {
		return value, err
	}
	f.field = ""
	return nil, errors.New("the store is unavailable")
}
