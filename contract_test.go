package linkforge_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/formatter"

	"github.com/linkforge/linkforge"
	"github.com/linkforge/linkforge/internal/platform/must"
)

var (
	update = flag.Bool("update", false, "write "+golden+", as long as nothing breaks")
	broken = flag.Bool("break", false, "with -update: write it although something breaks")
)

// golden is the contract that clients rely on, without descriptions: schema.graphql as it was when
// it was last agreed upon.
const golden = "testdata/contract.graphql"

// TestContract_IsKept compares the schema with the golden file that clients rely on. Compatible
// changes require an update of the file; breaking ones are listed and refused.
func TestContract_IsKept(t *testing.T) {
	t.Parallel()
	now := parse(t, linkforge.Schema)
	text := plainly(now)
	before, err := os.ReadFile(golden)
	if err != nil && !*update {
		t.Fatal(err)
	}
	found := breaks(parse(t, string(before)), now)
	if len(found) > 0 && !*broken {
		t.Fatalf("clients of %s break:\n  %s\nKeep it, and deprecate it first: see docs/ARCHITECTURE.md, \"Changing "+
			"it\". "+
			"If it has to be: go test . -run %s -update -break", golden, strings.Join(found, "\n  "), t.Name())
	}
	if *update {
		must.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
		return
	}
	if diff := cmp.Diff(string(before), text); diff != "" {
		t.Errorf("the contract has compatible additions; accept them with: go test . -run %s -update\n(-agreed "+
			"+schema.graphql):\n%s", t.Name(), diff)
	}
}

// plainly writes a schema without descriptions, in the order of the types' names.
func plainly(s *ast.Schema) string {
	var text strings.Builder
	formatter.NewFormatter(&text, formatter.WithIndent("  "), formatter.WithoutDescription()).FormatSchema(s)
	return text.String()
}

// TestContract_IsDescribed keeps the schema's own rules, which are in docs/ARCHITECTURE.md.
func TestContract_IsDescribed(t *testing.T) {
	t.Parallel()
	for _, problem := range problems(parse(t, linkforge.Schema)) {
		t.Error(problem)
	}
}

// problems is where a schema breaks the rules.
func problems(s *ast.Schema) (found []string) {
	say := func(problem string, when bool) {
		if when {
			found = append(found, problem)
		}
	}
	for _, def := range s.Types {
		if def.BuiltIn {
			continue
		}
		say(def.Name+" has no description", def.Description == "")
		say(def.Name+" is a connection without nodes",
			strings.HasSuffix(def.Name, "Connection") && def.Fields.ForName("nodes") == nil)
		for _, v := range def.EnumValues {
			say(def.Name+"."+v.Name+" has no description", v.Description == "")
			say(def.Name+"."+v.Name+" is deprecated without a date or a successor", !deprecatedWell(v.Directives))
		}
		for _, f := range def.Fields {
			name := def.Name + "." + f.Name
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			say(name+" has no description", f.Description == "")
			say(name+" is a list whose items may be null", name != "Query.nodes" && mayHoldNull(f.Type))
			say(name+" is deprecated without a date or a successor", !deprecatedWell(f.Directives))
			payload := s.Types[f.Type.Name()]
			say(name+" is a deletion without deletedId", def.Name == "Mutation" && deletion.MatchString(f.Name) &&
				payload.Fields.ForName("deletedId") == nil && payload.Fields.ForName("results") == nil &&
				payload.Fields.ForName("user") == nil) // an account's only object of a type has no id
			connection := strings.HasSuffix(f.Type.Name(), "Connection")
			say(name+" is a list of unknown size: declare @listSize",
				f.Arguments.ForName("first") != nil && f.Directives.ForName("listSize") == nil)
			say(name+" is a connection without first", connection && f.Arguments.ForName("first") == nil)
			for _, a := range f.Arguments {
				argument := name + "(" + a.Name + ":)"
				size := connection && (a.Name == "first" || a.Name == "last")
				say(argument+" has no description", a.Description == "" && !isInput(def, a))
				say(argument+" is a list whose items may be null", mayHoldNull(a.Type))
				say(argument+` does not say "1 to 100"`, size && !strings.Contains(a.Description, "1 to 100"))
				say(argument+" is deprecated without a date or a successor", !deprecatedWell(a.Directives))
			}
		}
	}
	for _, d := range s.Directives {
		if d.Position == nil || d.Position.Src.BuiltIn {
			continue
		}
		say("@"+d.Name+" has no description", d.Description == "")
		for _, a := range d.Arguments {
			say("@"+d.Name+"("+a.Name+":) has no description", a.Description == "")
		}
	}
	return found
}

// deletion matches the names of mutations that remove an object.
var deletion = regexp.MustCompile(`^(delete|remove|cancelLinkChange|revokeInvitation)`)

// isInput says that an argument is the one that a mutation has, which its type describes.
func isInput(def *ast.Definition, a *ast.ArgumentDefinition) bool {
	return def.Name == "Mutation" && a.Name == "input" && strings.HasSuffix(a.Type.Name(), "Input")
}

func mayHoldNull(t *ast.Type) bool {
	return t.Elem != nil && (!t.Elem.NonNull || mayHoldNull(t.Elem))
}

// deprecation matches the date of removal or the replacement in a reason.
var deprecation = regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b|\bUse \w+`)

// deprecatedWell says that something is not deprecated, or says until when it stays or what to use.
func deprecatedWell(all ast.DirectiveList) bool {
	d := all.ForName("deprecated")
	if d == nil {
		return true
	}
	reason := d.Arguments.ForName("reason")
	return reason != nil && deprecation.MatchString(reason.Value.Raw)
}

// TestContract_FindsProblems breaks each rule once.
func TestContract_FindsProblems(t *testing.T) {
	t.Parallel()
	const good = `
		"A mark." directive @mark("How much." level: Int) on FIELD
		"A size." directive @listSize on FIELD_DEFINITION
		"A mood." enum Mood { "Good." GOOD "Bad." BAD @deprecated(reason: "Use GOOD.") }
		"A page." type CatConnection { "Cats." nodes: [String!]! }
		"What feed needs." input FeedInput { "Which." ids: [ID!]! "How." how: Mood }
		"Reading." type Query {
			"Cats." cats("How many, 1 to 100." first: Int): CatConnection! @listSize
			"Nodes." nodes("Which." ids: [ID!]!): [String]!
			"Old." old: Int @deprecated(reason: "It goes on 2027-05-01.")
		}
		"Writing." type Mutation { "Feeds." feed(input: FeedInput!): Int }`
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{`"A mark."`, "", "@mark has no description"},
		{`"How much."`, "", "@mark(level:) has no description"},
		{`"A mood."`, "", "Mood has no description"},
		{`"Good."`, "", "Mood.GOOD has no description"},
		{`"Use GOOD."`, `"It is bad."`, "Mood.BAD is deprecated without a date or a successor"},
		{`(reason: "It goes on 2027-05-01.")`, "", "Query.old is deprecated without a date or a successor"},
		{`"Cats." cats`, "cats", "Query.cats has no description"},
		{`"Which." ids: [ID!]! "How."`, `ids: [ID!]! "How."`, "FeedInput.ids has no description"},
		{`"Which." ids: [ID!]! "How."`, `"Which." ids: [ID]! "How."`,
			"FeedInput.ids is a list whose items may be null"},
		{`"Cats." nodes: [String!]!`, `"Cats." nodes: [String]!`,
			"CatConnection.nodes is a list whose items may be null"},
		{`"Cats." nodes`, `"Cats." items`, "CatConnection is a connection without nodes"},
		{`feed(input`, `removeCat(input`, "Mutation.removeCat is a deletion without deletedId"},
		{`("Which." ids: [ID!]!)`, `(ids: [ID!]!)`, "Query.nodes(ids:) has no description"},
		{`("How many, 1 to 100." first: Int)`, "", "Query.cats is a connection without first"},
		{"CatConnection! @listSize", "CatConnection!", "Query.cats is a list of unknown size: declare @listSize"},
		{"How many, 1 to 100.", "How many.", `Query.cats(first:) does not say "1 to 100"`},
		{`feed(input: FeedInput!)`, `feed(wish: FeedInput!)`, "Mutation.feed(wish:) has no description"},
	} {
		name := "no problem"
		if c.want != "" {
			name = c.want
		}
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(good, c.from, c.to, 1)
			if c.from != "" && changed == good {
				t.Fatalf("%q changes nothing", c.from)
			}
			if got := strings.Join(problems(parse(t, changed)), "\n"); got != c.want {
				t.Errorf("%q for %q: got\n%s\nwant\n%s", c.to, c.from, got, c.want)
			}
		})
	}
}
