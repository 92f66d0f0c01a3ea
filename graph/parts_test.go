package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
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
		return text + " { nodes { " + selection(contract(t), item, 0) + " } }"
	}
	return text + " { " + selection(contract(t), of.Name, 0) + " }"
}

// parts returns the fields of the object that a way leads to, as a caller sees them.
func (w *nodeWorld) parts(t *testing.T, token, way, fields string) map[string]any {
	t.Helper()
	variables := []any{"w", w.ada.workspace.ID(), "id", nil}
	if _, typeName, ok := strings.Cut(way, "... on "); ok && strings.Contains(way, "node(id") {
		typeName, _, _ = strings.Cut(typeName, " ")
		variables[3] = w.ids(t, w.ada.token, typeName)[0]
	}
	r := w.ask(t, token, fmt.Sprintf(way, "walked: __typename "+fields), variables...)
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
