package linkforge_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge"
	"github.com/linkforge/linkforge/internal/platform/must"
)

var sinceRelease = flag.Bool("since-release", false, "compare the schema with that of the last release")

// deprecatedMonths is how long an element of the schema stays after the release that deprecates it.
const deprecatedMonths = 6

// release is a tag and the schema that it has.
type release struct {
	name   string
	at     time.Time
	schema *ast.Schema
}

// TestContract_KeepsRelease is what scripts/schema-diff runs. Unlike the golden file, the last
// release cannot be written again.
func TestContract_KeepsRelease(t *testing.T) {
	if !*sinceRelease {
		t.Skip("run scripts/schema-diff")
	}
	all, err := releases(t, ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		all = []release{{golden, time.Now(), parse(t, string(must.Value(os.ReadFile(golden))(t)))}}
		fmt.Printf("There is no release yet: comparing schema.graphql with %s.\n", golden)
	} else {
		fmt.Printf("Comparing schema.graphql with that of %s.\n", all[0].name)
	}
	if found := breaksSince(all, parse(t, linkforge.Schema), time.Now()); len(found) > 0 {
		t.Errorf("clients of %s break:\n  %s\nSee docs/guide/graphql-api.md, \"Changes\".",
			all[0].name, strings.Join(found, "\n  "))
	}
}

// releases returns the releases that HEAD of a repository contains, the last one first. A release
// is a tag v*; its date is that of the tag, or of the commit of a tag without one.
func releases(t *testing.T, dir string) (all []release, err error) {
	git := func(args ...string) string {
		out, failed := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).Output()
		if failed != nil && err == nil {
			err = fmt.Errorf("git %s: %w", strings.Join(args, " "), failed)
		}
		return string(out)
	}
	tags := git("tag", "--list", "v*", "--merged", "HEAD", "--sort=-creatordate",
		"--format=%(refname:short) %(creatordate:unix)")
	if tags == "" && strings.TrimSpace(git("rev-parse", "--is-shallow-repository")) == "true" {
		return nil, fmt.Errorf("the clone is shallow and has no tags: git fetch --unshallow --tags")
	}
	for line := range strings.Lines(tags) {
		name, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		text := git("show", name+":schema.graphql")
		seconds, failed := strconv.ParseInt(at, 10, 64)
		if err != nil || failed != nil {
			return nil, fmt.Errorf("the release %s: %w %w", name, err, failed)
		}
		all = append(all, release{name, time.Unix(seconds, 0), parse(t, text)})
	}
	return all, err
}

// breaksSince lists the changes since the last release that break its clients, without the removals that
// the deprecations in the releases allow. It changes the schema of the last release.
func breaksSince(all []release, is *ast.Schema, now time.Time) []string {
	was, ended := all[0].schema, endedDeprecations(all, now)
	for _, def := range was.Types {
		kept := is.Types[def.Name]
		if kept == nil {
			kept = &ast.Definition{}
		}
		def.EnumValues = slices.DeleteFunc(def.EnumValues, func(v *ast.EnumValueDefinition) bool {
			return kept.EnumValues.ForName(v.Name) == nil && ended[def.Name+"."+v.Name]
		})
		def.Fields = slices.DeleteFunc(def.Fields, func(f *ast.FieldDefinition) bool {
			field := kept.Fields.ForName(f.Name)
			if field == nil {
				return ended[def.Name+"."+f.Name]
			}
			f.Arguments = slices.DeleteFunc(f.Arguments, func(a *ast.ArgumentDefinition) bool {
				return field.Arguments.ForName(a.Name) == nil && ended[def.Name+"."+f.Name+"."+a.Name]
			})
			return false
		})
	}
	used := usedTypes(was)
	for name := range was.Types {
		if is.Types[name] == nil && !used[name] {
			delete(was.Types, name) // it went with what used it: types cannot be deprecated
		}
	}
	return breaks(was, is)
}

// endedDeprecations returns the paths of the elements that may be removed: the last release
// deprecates them, and so did each before it since deprecatedMonths ago.
func endedDeprecations(all []release, now time.Time) map[string]bool {
	ended := map[string]bool{}
	for path := range deprecations(all[0].schema) {
		since := all[0].at
		for _, earlier := range all[1:] {
			if !deprecations(earlier.schema)[path] {
				break
			}
			since = earlier.at
		}
		ended[path] = !since.AddDate(0, deprecatedMonths, 0).After(now)
	}
	return ended
}

// deprecations returns the paths of the elements that a schema deprecates with a reason.
func deprecations(s *ast.Schema) map[string]bool {
	found := map[string]bool{}
	add := func(path string, directives ast.DirectiveList) {
		if directives.ForName("deprecated") != nil && deprecatedWell(directives) {
			found[path] = true
		}
	}
	for _, def := range s.Types {
		for _, v := range def.EnumValues {
			add(def.Name+"."+v.Name, v.Directives)
		}
		for _, f := range def.Fields {
			add(def.Name+"."+f.Name, f.Directives)
			for _, a := range f.Arguments {
				add(def.Name+"."+f.Name+"."+a.Name, a.Directives)
			}
		}
	}
	return found
}

// usedTypes returns the names of the types that clients can name values of: by fields, arguments,
// unions and implemented interfaces, from the roots.
func usedTypes(s *ast.Schema) map[string]bool {
	used := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		def := s.Types[name]
		if def == nil || used[name] {
			return
		}
		used[name] = true
		for _, other := range slices.Concat(def.Types, def.Interfaces) {
			visit(other)
		}
		for _, f := range def.Fields {
			visit(f.Type.Name())
			for _, a := range f.Arguments {
				visit(a.Type.Name())
			}
		}
	}
	for _, root := range []*ast.Definition{s.Query, s.Mutation, s.Subscription} {
		if root != nil {
			visit(root.Name)
		}
	}
	return used
}

// repository returns a folder with an empty repository, and git, which runs there at an instant.
func repository(t *testing.T) (dir string, git func(at string, args ...string)) {
	dir = t.TempDir()
	git = func(at string, args ...string) {
		t.Helper()
		c := exec.CommandContext(context.WithoutCancel(t.Context()), "git", append([]string{"-C", dir}, args...)...)
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE="+at,
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE="+at)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("", "init", "--quiet")
	return dir, git
}

// TestReleases_AllowRemovals tags releases of a small schema, and removes things from it.
func TestReleases_AllowRemovals(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	const (
		base = `type Query { old(id: ID, by: By): Old new: Int mood: Mood } type Old { a: Int }
			input By { a: Int b: Int } enum Mood { GOOD BAD }`
		mark = ` @deprecated(reason: "Use new.")`
	)
	replace := func(from, to string) string {
		t.Helper()
		if !strings.Contains(base, from) {
			t.Fatalf("%q is not in the schema", from)
		}
		return strings.Replace(base, from, to, 1)
	}
	field := replace("By): Old", "By): Old"+mark)
	noField := replace("old(id: ID, by: By): Old", "")
	for _, c := range []struct {
		name string
		// released are the schemas of releases on the first of January, April, July and so on of 2027.
		released []string
		is       string
		at, want string
	}{
		{"no release", nil, noField, "2027-07-01", ""},
		{"an addition", []string{base}, replace("new: Int", "new: Int more: Int"), "2027-01-01", ""},
		{"a removal at once", []string{base}, noField, "2028-01-01", "the field Query.old was removed"},
		{"six months after", []string{field}, replace("old(id: ID, by: By): Old", "other: Old by(by: By): Int"),
			"2027-07-01", ""},
		{"with its types", []string{field}, strings.NewReplacer("old(id: ID, by: By): Old", "",
			"type Old { a: Int }", "", "input By { a: Int b: Int }", "").Replace(base), "2027-07-01", ""},
		{"with a type that is used", []string{replace("By): Old", "By): Old"+mark+" again: Old")},
			strings.NewReplacer("old(id: ID, by: By): Old", "again: Int", "type Old { a: Int }", "").Replace(base),
			"2027-07-01", "the type Old was removed\nthe field Query.again was of type Old and is of type Int"},
		{"a day too early", []string{field}, noField, "2027-06-30", "the field Query.old was removed"},
		{"since the first of three", []string{field, field, field}, noField, "2027-07-02", ""},
		{"since the second", []string{base, field, field}, noField, "2027-08-01", "the field Query.old was removed"},
		{"not in between", []string{field, base, field}, noField, "2027-12-01", "the field Query.old was removed"},
		{"no longer", []string{field, base}, noField, "2028-12-01", "the field Query.old was removed"},
		{"without a successor", []string{replace("By): Old", `By): Old @deprecated(reason: "It is bad.")`)}, noField,
			"2028-01-01", "the field Query.old was removed"},
		{"a change of what is deprecated", []string{field}, replace("By): Old", "By): Int"), "2028-01-01",
			"the field Query.old was of type Old and is of type Int"},
		{"an argument", []string{replace("id: ID", "id: ID"+mark)}, replace("id: ID, ", ""), "2027-07-01", ""},
		{"a field of an input", []string{replace("b: Int }", "b: Int"+mark+" }")}, replace("b: Int }", "}"),
			"2027-07-01", ""},
		{"a value", []string{replace("BAD }", "BAD"+mark+" }")}, replace("BAD }", "}"), "2027-07-01", ""},
		{"a value too early", []string{replace("BAD }", "BAD"+mark+" }")}, replace("BAD }", "}"), "2027-05-01",
			"the value BAD was removed from the enum Mood"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, git := repository(t)
			for i, text := range slices.Concat(c.released, []string{c.is}) {
				must.NoError(t, os.WriteFile(filepath.Join(dir, "schema.graphql"), []byte(text), 0o644))
				git("2026-12-01T00:00:00Z", "add", ".")
				git("2026-12-01T00:00:00Z", "commit", "--quiet", "--allow-empty", "--message", "a change")
				if i < len(c.released) {
					at := time.Date(2027, time.Month(1+3*i), 1, 0, 0, 0, 0, time.UTC)
					git(at.Format(time.RFC3339), "tag", "--annotate", "--message", "a release",
						fmt.Sprintf("v1.%d.0", i))
				}
				git("2028-01-01T00:00:00Z", "tag", fmt.Sprintf("other-%d", i)) // is no release
			}
			all := must.Value(releases(t, dir))(t)
			if len(all) != len(c.released) {
				t.Fatalf("got %d releases, want %d", len(all), len(c.released))
			}
			if len(all) == 0 {
				return
			}
			now := must.Value(time.Parse(time.DateOnly, c.at))(t)
			if got := strings.Join(breaksSince(all, parse(t, c.is), now), "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
