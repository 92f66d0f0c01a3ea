package workspace

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// TestPermissions_AreDocumented compares the documentation's table and the schema's enums with
// the code.
func TestPermissions_AreDocumented(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| permission | allows to | VIEWER | EDITOR | ADMIN | OWNER | API keys " +
		"|\n|---|---|---|---|---|---|---|\n")
	yes := map[bool]string{true: "yes", false: ""}
	for _, r := range Rules {
		fmt.Fprintf(&table, "| `%s` | %s |", r.Permission, r.Means)
		for _, role := range []Role{Viewer, Editor, Admin, Owner} {
			fmt.Fprintf(&table, " %s |", yes[role.Allows(r.Permission)])
		}
		fmt.Fprintf(&table, " %s |\n", yes[r.Keys])
	}
	doc := must.Value(os.ReadFile("../../../docs/PERMISSIONS.md"))(t)
	_, rest, _ := strings.Cut(string(doc), "\n| permission")
	rest, _, _ = strings.Cut("| permission"+rest, "\n\n")
	wanttest.Equal(t, table.String(), strings.TrimSuffix(rest, "\n")+"\n", "docs/PERMISSIONS.md")
	schema := must.Value(os.ReadFile("../../../schema.graphql"))(t)
	var want, got []string
	for _, r := range Rules {
		who := fmt.Sprintf("Minimum role: %s", r.Least)
		if r.Keys {
			who += "; or an API key"
		}
		want = append(want, who+": "+string(r.Permission))
	}
	_, enum, _ := strings.Cut(string(schema), "\nenum Permission {\n")
	enum, _, _ = strings.Cut(enum, "\n}")
	for _, value := range regexp.MustCompile(`(Minimum role.*)\."\n +(\w+)`).FindAllStringSubmatch(enum, -1) {
		got = append(got, value[1]+": "+value[2])
	}
	wanttest.Equal(t, want, got, "enum Permission")
}
