package main

import (
	"os"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// seen is a bench that has measured the page and the creation for two rounds, on a machine whose processes it sees.
func seen(ours, creations float64) *bench {
	page, create := operations()[1], operations()[2]
	b := &bench{bare: &target{name: "bare"}, ours: &target{name: "ours"}}
	b.services = &rig.Services{PostgresPID: os.Getpid(), RedisPID: os.Getpid()}
	b.operations = []operation{page, create}
	for _, slower := range []float64{1, 2} { // as a busy machine is
		b.measured = append(b.measured,
			measured{
				operation: page.name, bare: figures{rate: 100 / slower, own: 40 * slower, p50: 1 * slower},
				ours: figures{rate: 50 / slower, own: ours * slower / 2, beside: ours * slower / 2, p50: ours * slower / 50},
				sql:  &figures{rate: 80 / slower, own: 20 * slower, beside: 40 * slower, p50: 1 * slower},
			},
			measured{operation: create.name, bare: figures{rate: 100 / slower}, ours: figures{rate: creations / slower}})
	}
	return b
}

func TestGoals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b    *bench
		want []string
	}{
		"met": {seen(130, 60), []string{
			"a page of 20 links, CPU time: met. 1.30 (1.30–1.30) ×", "a page of 20 links, p50: met. 1.30 (", "one workspace: met. 0.60 (0.60–0.60) of",
		}},
		"missed": {seen(140, 59), []string{
			"a page of 20 links, CPU time: missed. 1.40 (1.40–1.40) ×", "a page of 20 links, p50: missed. 1.40 (", "one workspace: missed. 0.59 (0.59–0.59) of",
		}},
	} {
		got := c.b.goals()
		if len(got) != len(c.want) {
			t.Fatalf("%s: the goals are %q", name, got)
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q does not say %q", name, got[i], want)
			}
		}
	}
}

func TestGoalsAreNotJudgedByWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := seen(130, 60)
	b.services.RedisPID = 0
	if got := strings.Join(b.goals(), "\n"); strings.Contains(got, "CPU time") || !strings.Contains(got, "p50: met") {
		t.Errorf("without Redis's CPU time: %s", got)
	}
	for i := range b.measured {
		b.measured[i].sql = nil
	}
	if got := b.goals(); len(got) != 2 || !strings.Contains(got[0], "not judged") {
		t.Errorf("without SQL: %q", got)
	}
}

func TestTableHasALineForEachTarget(t *testing.T) {
	t.Parallel()
	b := seen(130, 60)
	for i, want := range []int{5, 4} {
		var out strings.Builder
		b.table(&out, b.operations[i])
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != want || !strings.HasPrefix(lines[2], "| bare | 75 (50–100) |") {
			t.Fatalf("the table is\n%s", out.String())
		}
		for _, line := range lines {
			if strings.Count(line, "|") != strings.Count(lines[0], "|") {
				t.Errorf("another number of cells: %s", line)
			}
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	env := func(name string) string { return "set-" + name }
	o, err := parse([]string{"-operations", "create,me", "-connections", "8"}, env)
	if err != nil || len(o.operations) != 2 || o.operations[0].name != "create" || o.operations[1].name != "me" || o.connections != 8 {
		t.Errorf("the options are %+v, error %v", o, err)
	}
	for _, bad := range [][]string{{"-operations", "create,nothing"}, {"-rounds", "0"}, {"-burst", "0s"}, {"-connections", "0"}} {
		if o, err := parse(bad, env); err == nil {
			t.Errorf("%q was read as %+v", bad, o)
		}
	}
	if _, err := parse(nil, func(string) string { return "" }); err == nil {
		t.Error("no servers are needed")
	}
}
