package graph

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

const (
	// maxPerPoint bounds the processor time of a point of cost.
	maxPerPoint = time.Millisecond
	// cheapest is the processor time of an operation that is not judged: it is mostly that of a request.
	cheapest = 20 * time.Millisecond
)

// call is an operation at its largest legal input.
type call struct {
	name, query string
	variables   map[string]any
}

// measured is the cost of an operation.
type measured struct {
	name   string
	took   time.Duration // of the processors
	points int
}

// isExpensive reports whether its points cost too much.
func (m measured) isExpensive() bool { return m.took > cheapest && m.perPoint() > maxPerPoint }

func (m measured) perPoint() time.Duration { return m.took / time.Duration(max(m.points, 1)) }

// TestCost_FollowsTheWork measures operations at their largest input: changes of large routings,
// and in an exhaustive run each field of links and workspaces. It must not run in parallel with
// other tests.
func TestCost_FollowsTheWork(t *testing.T) { //nolint:paralleltest // it measures the time of the process
	if suitetest.Race {
		t.Skip("the race detector takes most of the time")
	}
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	s := &sweep{bundle: b, token: ada.token, workspaceID: ada.workspace.ID(),
		schema: gen.NewExecutableSchema(gen.Config{}).Schema()}
	s.prepare(t)
	calls := s.routings()
	if suitetest.Exhaustive() {
		calls = append(s.fields(), calls...)
	}
	var all []measured
	for _, c := range calls {
		m := s.measure(t, c)
		for i := 0; i < 2 && m.isExpensive() && !strings.HasPrefix(c.query, "mutation"); i++ {
			m = s.measure(t, c) // the garbage of other operations is collected in between
		}
		if m.points <= b.Bounds.Cost {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b measured) int { return cmp.Compare(b.perPoint(), a.perPoint()) })
	for _, m := range all {
		t.Logf("%-50s %7d µs %6d points %6d µs a point", m.name, m.took.Microseconds(), m.points,
			m.perPoint().Microseconds())
		if m.isExpensive() {
			t.Errorf("%s takes %s a point", m.name, m.perPoint())
		}
	}
}

// sweep is a workspace with links that are as large as they may be.
type sweep struct {
	*bundle
	token, workspaceID string
	schema             *ast.Schema
	ids                []string
}

// tooExpensive finds the cost of an operation that was refused for it.
var tooExpensive = regexp.MustCompile(`The operation costs (\d+) points`)

func (s *sweep) measure(t *testing.T, c call) measured {
	t.Helper()
	before := processorTime(t)
	points, r := s.askBill(t, s.token, c.query, c.variables)
	m := measured{name: c.name, took: processorTime(t) - before, points: points}
	if refused := tooExpensive.FindStringSubmatch(r.Text); refused != nil {
		m.points = must.Value(strconv.Atoi(refused[1]))(t)
	} else if r.Data == nil || strings.Contains(r.Text, `"code":"INVALID`) &&
		!strings.Contains(r.Text, "must have at most") {
		t.Errorf("%s: %d %.400s", c.name, r.Status, r.Text)
	}
	return m
}

var countries = strings.Fields("DE FR IT ES PT NL BE AT CH DK SE NO FI PL CZ SK HU RO BG GR TR UA LT LV EE IE GB IS")

// values are n values of a condition.
func values(kind string, n int) (all []string) {
	for i := range n {
		all = append(all, map[string]string{
			"country": countries[i%len(countries)], "os": fmt.Sprint("System ", i),
			"language": fmt.Sprintf("de-%c%c", 'A'+i/26%26, 'A'+i%26),
			"referrer": fmt.Sprintf(".host-%d.example.com", i),
			"network":  fmt.Sprintf("10.%d.%d.0/24", i/250, i%250), "browser": fmt.Sprint("Browser ", i),
		}[kind])
	}
	return all
}

// rules are n rules with conditions of a kind, that do not hold.
func rules(n, conditions, each int, kind string) (all []any) {
	for i := range n {
		var when []any
		for range conditions {
			when = append(when, map[string]any{kind: values(kind, each)})
		}
		all = append(all, map[string]any{"name": fmt.Sprint("rule ", i), "when": when,
			"targets": []any{map[string]any{"url": fmt.Sprint("https://example.com/target/", i)}}})
	}
	return all
}

// queryRules are n rules with conditions on the query that do not hold.
func queryRules(n int) (all []any) {
	for i := range n {
		all = append(all, map[string]any{"targets": []any{map[string]any{"share": i + 1}},
			"when": []any{map[string]any{"query": map[string]any{"name": "c", "value": fmt.Sprint(i)}}}})
	}
	return all
}

// tests are n tests that pass a link without a matching rule.
func tests(n int) (all []any) {
	for range n {
		all = append(all, map[string]any{"status": 302, "visit": map[string]any{
			"country": "US", "userAgent": strings.Repeat("Mozilla/5.0 (X11; Linux) ", 8),
			"acceptLanguage": strings.Repeat("fr,", 60),
			"query":          strings.Repeat("a=b&", 50)}})
	}
	return all
}

// large is a routing that is as large as can be stored.
func large(of int) map[string]any {
	return map[string]any{"rules": rules(50, 1, 25, "country"), "tests": tests(of)}
}

const createAll = `mutation ($in: CreateLinksInput!) { createLinks(input: $in) { results { link { id } errors {
	code message } }
	errors { code message } } }`

// prepare creates 105 links with large routings.
func (s *sweep) prepare(t *testing.T) {
	t.Helper()
	for part := range suitetest.Size(1, 7) {
		var links []any
		for i := range 15 {
			links = append(links, map[string]any{"url": fmt.Sprintf("https://example.com/%d/%d/%s", part, i,
				strings.Repeat("u", 2000)),
				"title": strings.Repeat("t", 200), "note": strings.Repeat("n", 2000), "routing": large(50)})
		}
		r := s.ask(t, s.token, createAll, "in", map[string]any{"workspaceId": s.workspaceID, "links": links})
		s.ids = append(s.ids, linkID.FindAllString(r.Text, -1)...)
		if len(s.ids) != 15*(part+1) {
			t.Fatalf("%.500s", r.Text)
		}
	}
}

// routings are explanations and changes with large routings.
func (s *sweep) routings() (all []call) {
	const explain = `query ($id: ID!, $r: LinkRoutingInput) { explainRedirect(by: {id: $id}, routing: $r) { status } }`
	add := func(name, query string, variables map[string]any) {
		all = append(all, call{name, query, variables})
	}
	of := func(routing map[string]any) map[string]any { return map[string]any{"id": s.ids[0], "r": routing} }
	for _, kind := range []string{"country", "os", "browser", "language", "referrer", "network"} {
		add("explain, values of "+kind, explain, of(map[string]any{"rules": rules(45, 20, 100, kind)}))
	}
	add("explain, large with 50 tests", explain, of(large(50)))
	add("explain, query conditions with 50 tests", explain, of(map[string]any{"rules": queryRules(50),
		"tests": tests(50)}))
	add("explain, 50 tests", explain, of(map[string]any{"tests": tests(50)}))
	add("explain, stored", explain, of(nil))
	var links, changes, retitled []any
	for i := range 15 {
		links = append(links, map[string]any{"url": fmt.Sprint("https://example.com/new/", i), "routing": large(50)})
		changes = append(changes, map[string]any{"id": s.ids[i], "routing": map[string]any{"tests": tests(50)}})
		retitled = append(retitled, map[string]any{"id": s.ids[i], "redirectStatus": 302, "title": "again"})
	}
	in := func(links []any) map[string]any {
		return map[string]any{"in": map[string]any{"workspaceId": s.workspaceID, "links": links}}
	}
	const update = `mutation ($in: UpdateLinksInput!) { updateLinks(input: $in) { results { errors { code message }
		} errors { code message } } }`
	add("createLinks, large with 50 tests", createAll, in(links))
	add("updateLinks, 50 tests", update, in(changes))
	add("updateLinks, tests stored", update, in(retitled))
	add("updateLink, large with 50 tests", `mutation ($in: UpdateLinkInput!) { updateLink(input: $in) { errors {
		code message } } }`,
		map[string]any{"in": map[string]any{"id": s.ids[1], "routing": large(50)}})
	add("scheduleLinkChange, large with 50 tests",
		`mutation ($in: ScheduleLinkChangeInput!) { scheduleLinkChange(input: $in) { errors { code message } } }`,
		map[string]any{"in": map[string]any{"linkId": s.ids[2], "at": time.Now().Add(time.Hour),
			"change": map[string]any{"routing": large(50)}}})
	return all
}

// fields are the fields of links and workspaces, with all that is below them, in pages of the largest size.
func (s *sweep) fields() (all []call) {
	for _, f := range s.schema.Types["Link"].Fields {
		if text, ok := s.selection(f, 3); ok {
			query := `query ($w: ID!) { workspace(by: {id: $w}) { links(first: %d) { edges { node { ` + text +
				` } } } } }`
			for _, size := range []int{100, 10, 1} {
				all = append(all, call{fmt.Sprintf("Link.%s × %d", f.Name, size), fmt.Sprintf(query, size),
					map[string]any{"w": s.workspaceID}})
			}
		}
	}
	for _, f := range s.schema.Types["Workspace"].Fields {
		if text, ok := s.selection(f, 4); ok {
			all = append(all,
				call{"Workspace." + f.Name, `query ($w: ID!) { workspace(by: {id: $w}) { ` + text + ` } }`,
					map[string]any{"w": s.workspaceID}})
		}
	}
	for _, f := range s.schema.Types["User"].Fields {
		if text, ok := s.selection(f, 3); ok {
			all = append(all, call{"User." + f.Name, `{ me { ` + text + ` } }`, nil})
		}
	}
	return all
}

// selection is a field with all scalar fields to a depth below it; ok is false for one with a required argument.
func (s *sweep) selection(f *ast.FieldDefinition, depth int) (text string, ok bool) {
	text = f.Name
	for _, a := range f.Arguments {
		switch {
		case a.Name == "first":
			text += "(first: 100)"
		case a.Type.NonNull && a.DefaultValue == nil:
			return "", false
		}
	}
	definition := s.schema.Types[f.Type.Name()]
	switch definition.Kind {
	case ast.Scalar, ast.Enum:
		return text, true
	case ast.Interface, ast.Union:
		return text + " { __typename }", true
	}
	if depth == 0 {
		return "", false
	}
	below := ""
	for _, child := range definition.Fields {
		if one, ok := s.selection(child, depth-1); ok {
			below += " " + one
		}
	}
	return text + " {" + below + " }", below != ""
}
