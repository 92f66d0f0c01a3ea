package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/dbtest"
)

// TestEverythingAgrees runs the whole program: it fails when a click is lost, or stats are not what was sent.
func TestEverythingAgrees(t *testing.T) {
	t.Parallel()
	many := "20000"
	if underRace() {
		many = "3000" // which takes ten times as long then
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		agrees(t, "-sqlite", "-clicks", many)
	})
	t.Run("sqlite, rebuilt", func(t *testing.T) {
		t.Parallel()
		agrees(t, "-sqlite", "-clicks", "1500", "-links", "20", "-months", "1", "-rebuild")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dbtest.ServerURL(t, dbtest.DatabaseURL)
		agrees(t, "-sqlite-clicks", "0", "-clicks", many, "-plans")
	})
}

// underRace says that the race detector watches.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func agrees(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{"-links", "60", "-round", "7000", "-asks", "2", "-checks", "100", "-seed", "7"}, args...)
	var out, progress bytes.Buffer
	if err := run(t.Context(), args, os.Getenv, &out, &progress); err != nil {
		t.Fatalf("%v\n%s%s", err, &progress, &out)
	}
	if got := out.String(); !strings.Contains(got, "100 of 100 random ranges agree") || strings.Contains(progress.String(), "level=") {
		t.Errorf("the report is\n%s%s", got, &progress)
	}
}

// TestTheSameSeedMakesTheSameClicks: in the order of time, none of them outside of it.
func TestTheSameSeedMakesTheSameClicks(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 5, 5, 5, 25, 0, 0, time.UTC)
	made := func(seed uint64) (clicks []click.Click) {
		s := newStream(options{links: 100, months: 13, seed: seed}, 5000, end)
		for last, c := s.begin, (click.Click{}); ; last = c.ClickedAt {
			if _, ok := s.next(&c); !ok {
				break
			}
			if c.ClickedAt.Before(last) || !c.ClickedAt.Before(end) {
				t.Fatalf("a click at %s after one at %s, and the end is %s", c.ClickedAt, last, end)
			}
			clicks = append(clicks, c)
		}
		return clicks
	}
	first := made(1)
	if diff := cmp.Diff(first, made(1)); len(first) != 5000 || diff != "" {
		t.Errorf("%d clicks, and the same seed makes others (-want +got):\n%s", len(first), diff)
	}
	if slices.Equal(first, made(2)) {
		t.Error("another seed makes the same clicks")
	}
}

// TestDifferencesAreFound changes each of the answers.
func TestDifferencesAreFound(t *testing.T) {
	t.Parallel()
	two := click.Count{Clicks: 2, Visits: 1}
	is := sent{all: two, points: []click.Count{{}, two}, values: map[string]click.Count{"DE": two}}
	points, parts := []click.Point{{}, {Count: two}}, []click.Slice{{Value: "DE", Count: two}}
	if got := is.differs(two, points, parts); got != "" {
		t.Error(got)
	}
	for want, got := range map[string]string{
		"the total":  is.differs(click.Count{Clicks: 2}, points, parts),
		"the point":  is.differs(two, []click.Point{{Count: two}, {}}, parts),
		"of \"FR\"":  is.differs(two, points, []click.Slice{{Value: "FR", Count: two}}),
		"the slices": is.differs(two, points, nil),
	} {
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q, want a difference of %s", got, want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	for _, args := range []string{"", "-sqlite -links 3", "-sqlite -links 70000", "-sqlite -clicks 10", "-sqlite -months 14", "-sqlite -round 0", "-sqlite -asks 0"} {
		if err := run(context.Background(), strings.Fields(args), none, io.Discard, io.Discard); err == nil {
			t.Errorf("%q runs", args)
		}
	}
	o, err := parse([]string{"-sqlite", "-clicks", "3000000"}, none)
	if err != nil || o.sqliteClicks != 3_000_000 {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = parse([]string{"-clicks", "5000"}, func(string) string { return "postgres://" })
	if err != nil || o.sqliteClicks != 5000 {
		t.Errorf("%+v, %v", o, err)
	}
}
