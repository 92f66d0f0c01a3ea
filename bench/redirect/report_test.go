package main

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// measured is a bench that has measured Linkforge and the textbook on one backend, at as many requests a second.
func measured(linkforge, p99, textbook float64) *bench {
	b, on := &bench{}, &backend{}
	l := &target{name: "Linkforge", kind: ours, on: on, process: &rig.Process{}, figures: map[int][]figures{}}
	s := &target{name: "textbook", kind: beaten, on: on, process: &rig.Process{}, figures: map[int][]figures{}}
	for _, connections := range loads() {
		l.figures[connections] = []figures{{rate: linkforge, ofRate: linkforge / 100, ofP99: p99}}
		s.figures[connections] = []figures{{rate: textbook}}
	}
	b.targets = []*target{{name: "nginx", kind: webServer}, l, s}
	return b
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	if got := measured(90, 1.5, 10).verdict(); got != "goals: pass" {
		t.Error(got)
	}
	for missed, b := range map[string]*bench{
		"Linkforge at 64: 0.80 of net/http, not 0.85":   measured(80, 1.5, 10),
		"Linkforge at 256: p99 2.5 × net/http's, not 2": measured(90, 2.5, 10),
		"textbook at 64: outpaced 4.5 ×, not 8":         measured(90, 1.5, 20),
	} {
		if got := b.verdict(); !strings.HasPrefix(got, "goals: fail: ") || !strings.Contains(got, missed) {
			t.Errorf("the verdict %q does not say %q", got, missed)
		}
	}
}

func TestTableHasALineForEachTarget(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	measured(90, 1.5, 10).table(&out, 64)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[2], "| nginx | not installed |") || !strings.HasPrefix(lines[4], "| textbook | 10 | 0.00 | 9.0 |") {
		t.Errorf("the table is\n%s", out.String())
	}
	for _, line := range lines {
		if strings.Count(line, "|") != strings.Count(lines[0], "|") {
			t.Errorf("another number of cells: %s", line)
		}
	}
}
