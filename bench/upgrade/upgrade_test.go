package main

import (
	"slices"
	"testing"
)

// TestARevisionWhoseStepsAreTodays: only such a database can be upgraded.
func TestARevisionWhoseStepsAreTodays(t *testing.T) {
	t.Parallel()
	if _, err := git(t.Context(), "log", "-1", "--format=%h"); err != nil {
		t.Skip(err)
	}
	head, err := readRevision(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	early := revision{hash: head.hash, steps: head.steps[:2]}
	other := revision{hash: head.hash, steps: append(slices.Clone(head.steps[:1]), "0002_other")}
	beyond := revision{hash: head.hash, steps: append(slices.Clone(todaysSteps()), "9999_beyond")}
	for _, c := range []struct {
		r    revision
		want bool
	}{{early, true}, {other, false}, {beyond, false}} {
		if got := beginsToday(t.Context(), c.r); got != c.want {
			t.Errorf("%v: %t, want %t", c.r.steps, got, c.want)
		}
	}
	if _, err := readRevision(t.Context(), "no-such-revision"); err == nil {
		t.Error("a revision that is not there was read")
	}
}

// TestWhatAMigrationDelaysCountsToIt: a request that began before and ended within.
func TestWhatAMigrationDelaysCountsToIt(t *testing.T) {
	t.Parallel()
	l := newLoad(&estate{codes: make([]string, 1)}, "127.0.0.1:1")
	for _, c := range []struct{ began, now, want phase }{
		{before, before, before}, {before, migrating, migrating}, {before, beside, migrating}, {migrating, beside, migrating}, {beside, after, beside},
	} {
		l.enter(c.now)
		if got := l.overlapping(c.began); got != c.want {
			t.Errorf("began in %s, now %s: %s, want %s", c.began, c.now, got, c.want)
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	servers := func(name string) string {
		return map[string]string{"LINKFORGE_TEST_DATABASE_URL": "p", "LINKFORGE_TEST_REDIS_URL": "r"}[name]
	}
	if _, err := parse([]string{"-links", "999"}, servers); err == nil {
		t.Error("too few links were taken")
	}
	if _, err := parse(nil, func(string) string { return "" }); err == nil {
		t.Error("no servers were taken")
	}
	if o, err := parse(nil, servers); err != nil || o.links != 1_000_000 {
		t.Errorf("%+v: %v", o, err)
	}
}
