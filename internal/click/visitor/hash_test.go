package visitor

import (
	"strings"
	"testing"
)

func TestVisitor_DistinguishesVisitors(t *testing.T) {
	t.Parallel()
	one, two := Key{1}, Key{2}
	seen := map[int64]string{}
	for name, visitor := range map[string]int64{
		"one":             one.Visitor("lnk_1", "192.0.2.1", "Mozilla/5.0"),
		"another key":     two.Visitor("lnk_1", "192.0.2.1", "Mozilla/5.0"),
		"another link":    one.Visitor("lnk_2", "192.0.2.1", "Mozilla/5.0"),
		"another address": one.Visitor("lnk_1", "192.0.2.2", "Mozilla/5.0"),
		"another agent":   one.Visitor("lnk_1", "192.0.2.1", "Mozilla/5.1"),
		"shifted parts":   one.Visitor("lnk_1192.0.2.1", "", "Mozilla/5.0"),
		"nothing":         one.Visitor("", "", ""),
		"long":            one.Visitor(strings.Repeat("l", 5000), "192.0.2.1", "Mozilla/5.0"),
	} {
		if other, ok := seen[visitor]; ok || visitor == 0 {
			t.Errorf("%s: %d, the same as %q", name, visitor, other)
		}
		seen[visitor] = name
	}
	if one.Visitor("lnk_1", "192.0.2.1", "Mozilla/5.0") != one.Visitor("lnk_1", "192.0.2.1", "Mozilla/5.0") {
		t.Error("got different hashes for one visitor")
	}
}

func TestVisitor_TruncatesLongAgents(t *testing.T) {
	t.Parallel()
	var k Key
	long := strings.Repeat("a", 512)
	if k.Visitor("l", "a", long+"b") != k.Visitor("l", "a", long+"c") {
		t.Error("got different hashes for agents that differ after 512 bytes")
	}
	if k.Visitor("l", "a", long) == k.Visitor("l", "a", long[1:]) {
		t.Error("got equal hashes for agents that differ within 512 bytes")
	}
}
