package graph

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const entitiesQuery = `query ($all: [_Any!]!) { _entities(representations: $all) { __typename ... on Node { id } } }`

// representations are what a gateway names objects of one type by.
func representations(typeName string, ids ...string) (all []map[string]any) {
	for _, nodeID := range ids {
		all = append(all, map[string]any{"__typename": typeName, "id": nodeID})
	}
	return all
}

// TestEntities_AreNodes compares _entities with nodes, for objects of all types at once and for each
// caller.
func TestEntities_AreNodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newNodeWorld(t, d)
		var ids []string
		var all []map[string]any
		for _, typeName := range slices.Sorted(maps.Keys(listedNodes)) {
			found := w.ids(t, w.ada.token, typeName)
			if len(found) == 0 {
				t.Fatalf("the owner lists no %s", typeName)
			}
			ids, all = append(ids, found...), append(all, representations(typeName, found...)...)
		}
		_, fenced, err := w.APIKeys.Create(t.Context(), w.ada.workspace, apikey.NewKey{
			Name: "key", Scopes: []workspace.Permission{workspace.ReadLinks},
			FolderIDs: w.ids(t, w.ada.token, "Folder")[:1],
		})
		must.NoError(t, err)
		w.callers["a key of a folder"] = fenced
		for name, token := range w.callers {
			t.Run(name, func(t *testing.T) {
				r := w.ask(t, token, entitiesQuery, "all", all)
				if token == "" {
					if strings.Trim(r.Codes(), ", UNAUTHENTICATED") != "" || strings.Contains(r.Text, `"id"`) {
						t.Errorf("an anonymous caller got %s", r.Text)
					}
					return
				}
				nodes := w.ask(t, token, `query ($ids: [ID!]!) { nodes(ids: $ids) { __typename id } }`, "ids", ids)
				if want := strings.Replace(nodes.Text, `"nodes"`, `"_entities"`, 1); r.Text != want {
					t.Errorf("got\n%s\nwant\n%s", r.Text, want)
				}
			})
		}
	})
}

// TestEntities_TakeConstantStatements requests 1, 10 and 100 links with all fields: as many
// statements as nodes takes.
func TestEntities_TakeConstantStatements(t *testing.T) {
	t.Parallel()
	dbtest.EachIfExhaustive(t, func(t *testing.T, d *db.DB) {
		e := newEstate(t, setup(t, d), most)
		fields := selection(e.schema, "Link", 2)
		count := func(query, name string, value any) int64 {
			before := e.statements.Load()
			r := e.ask(t, e.ada.token, fmt.Sprintf(query, fields), name, value)
			if len(r.Errors) > 0 || !strings.Contains(r.Text, `"lnk_`) {
				t.Fatalf("%.500s", r.Text)
			}
			return e.statements.Load() - before
		}
		for _, n := range []int{1, 10, most} {
			var ids []string
			for _, l := range e.links[:n] {
				ids = append(ids, l.ID)
			}
			want := count(`query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Link { %s } } }`, "ids", ids)
			got := count(`query ($all: [_Any!]!) { _entities(representations: $all) { ... on Link { %s } } }`, "all",
				representations("Link", ids...))
			if got != want || want == 0 {
				t.Errorf("%d entities take %d statements, as many nodes %d", n, got, want)
			}
		}
	})
}

// TestEntities_OfAnotherType returns null for an id of another type than the representation's.
func TestEntities_OfAnotherType(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	p := b.person(t, "ada")
	all := slices.Concat(representations("Link", p.accountID, ""), representations("User", p.accountID),
		[]map[string]any{{"__typename": "User", "id": p.accountID, "email": "ada@example.com", "other": []int{1}}})
	r := b.ask(t, p.token, entitiesQuery, "all", all)
	one := fmt.Sprintf(`{"__typename":"User","id":%q}`, p.accountID)
	if want := `{"data":{"_entities":[null,null,` + one + `,` + one + `]}}`; r.Text != want {
		t.Errorf("got %s, want %s", r.Text, want)
	}
}

// TestEntities_Bounds refuses what is no representation before execution, and more of them than are
// charged.
func TestEntities_Bounds(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	p := b.person(t, "ada")
	for _, c := range []struct {
		name string
		all  any
		code string
	}{
		{"a string", []any{"usr_1"}, "BAD_REQUEST"},
		{"no type", []any{map[string]any{"id": "usr_1"}}, "BAD_REQUEST"},
		{"no id", []any{map[string]any{"__typename": "User"}}, "BAD_REQUEST"},
		{"an object as id", []any{map[string]any{"__typename": "User", "id": map[string]any{}}}, "BAD_REQUEST"},
		{"a type that is no Node", representations("PageInfo", "usr_1"), "BAD_REQUEST"},
		{"an unknown type", representations("Robot", "usr_1"), "BAD_REQUEST"},
		{"null", []any{nil}, "BAD_REQUEST"},
		{"none", []any{}, ""},
		{"the most", representations("Link", slices.Repeat([]string{"lnk_1"}, limit.MaxSize)...), ""},
		{"too many", representations("Link", slices.Repeat([]string{"lnk_1"}, limit.MaxSize+1)...), "INVALID_INPUT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := b.ask(t, p.token, entitiesQuery, "all", c.all); r.Codes() != c.code {
				t.Errorf("got %q, want %q: %.300s", r.Codes(), c.code, r.Text)
			}
		})
	}
}

// TestEntities_CostLikeNodes compares the costs of the same objects.
func TestEntities_CostLikeNodes(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	p := b.person(t, "ada")
	ids := slices.Repeat([]string{"lnk_1"}, 40)
	const fields = `... on Link { id title tags clickCount workspace { name } }`
	nodes := b.ask(t, p.token, `query ($ids: [ID!]!) { rateLimit { cost } nodes(ids: $ids) { `+fields+` } }`,
		"ids", ids)
	entities := b.ask(t, p.token, `query ($all: [_Any!]!) { rateLimit { cost } _entities(representations: $all) { `+
		fields+` } }`, "all", representations("Link", ids...))
	costOf := func(text string) string {
		_, after, _ := strings.Cut(text, `"cost":`)
		cost, _, _ := strings.Cut(after, "}")
		return cost
	}
	if got, want := costOf(entities.Text), costOf(nodes.Text); got != want || len(got) < 3 {
		t.Errorf("_entities cost %s points, nodes %s:\n%.300s", got, want, entities.Text)
	}
}

// TestSubgraph_IsTheSchema compares the schema that composition reads with the one that people read.
func TestSubgraph_IsTheSchema(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t), func(c *Config) { c.Introspection = true })
	var answer struct {
		Service struct{ SDL string } `json:"_service"`
	}
	must.NoError(t, json.Unmarshal(b.ask(t, "", `{ _service { sdl } }`).Data, &answer))
	if answer.Service.SDL != linkforge.Subgraph {
		t.Errorf("_service returned %.300s", answer.Service.SDL)
	}
	if r := setup(t, b.db).ask(t, "", `{ _service { sdl } }`); r.Codes() != "BAD_REQUEST" {
		t.Errorf("without introspection, _service returned %.300s", r.Text)
	}
	_, sdl, _ := strings.Cut(linkforge.Subgraph, "directive @oneOf on INPUT_OBJECT\n")
	keys := strings.Count(sdl, ` @key(fields: "id")`)
	if keys != len(listedNodes) {
		t.Errorf("%d types have a key, want those of %d nodes", keys, len(listedNodes))
	}
	sdl = strings.ReplaceAll(sdl, ` @key(fields: "id")`, "")
	if strings.Replace(sdl, "PageInfo @shareable", "PageInfo", 1) != linkforge.Schema {
		t.Error("the subgraph is another schema: run make generate")
	}
}

// TestSubgraph_AddsFewTypes compares what introspection shows with the schema that people read.
func TestSubgraph_AddsFewTypes(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t), func(c *Config) { c.Introspection = true })
	var shown struct {
		Schema struct {
			Types []struct {
				Name   string
				Fields []struct{ Name string }
			}
		} `json:"__schema"`
	}
	r := b.ask(t, "", `{ __schema { types { name fields(includeDeprecated: true) { name } } } }`)
	must.NoError(t, json.Unmarshal(r.Data, &shown))
	var more []string
	for _, def := range shown.Schema.Types {
		read := contract(t).Types[def.Name]
		if read == nil {
			more = append(more, def.Name)
			continue
		}
		for _, f := range def.Fields {
			if read.Fields.ForName(f.Name) == nil {
				more = append(more, def.Name+"."+f.Name)
			}
		}
	}
	slices.Sort(more)
	want := []string{"FieldSet", "Query._entities", "Query._service", "_Any", "_Entity", "_Service",
		"federation__Policy", "federation__Scope"}
	if !slices.Equal(more, want) {
		t.Errorf("introspection shows %q, which schema.graphql does not have, want %q", more, want)
	}
}
