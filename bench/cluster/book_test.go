package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at is so many seconds after the beginning.
func at(s float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
}

func TestTheBookSaysWhatWasAnswered(t *testing.T) {
	t.Parallel()
	b := newBook()
	b.turn("first")
	b.note(entry{visits, at(0), at(0.1), good})
	b.note(entry{visits, at(1), at(1.2), "503"})
	b.note(entry{visits, at(2), at(2.1), "503"})
	b.note(entry{visits, at(2), at(2.5), "timeout"})
	b.note(entry{limitedVisits, at(2), at(2.6), refused})
	if b.goodSince(visits, at(0)) {
		t.Error("a good answer since the first request")
	}
	b.turn("second")
	b.note(entry{visits, at(2.9), at(4.1), good}) // slow
	b.note(entry{visits, at(4), at(4), good})
	if !b.goodSince(visits, at(3)) {
		t.Error("no good answer since 3 s")
	}
	if b.goodSince(visits, at(4)) {
		t.Error("a good answer since 4 s")
	}
	want := [][]string{
		{"phase", "what", "requests", "failed", "by what", "slowest", "longest gap", "impaired"},
		{"first", "links followed", "4", "3", "2 × 503, 1 × timeout", "0.50", "0.00", "1.5"},
		{"first", "the limited link followed", "1", "0", "1 answered 429", "0.60", "0.00", "0.0"},
		{"second", "links followed", "2", "0", "", "1.20", "4.00", "1.2"},
	}
	if diff := cmp.Diff(want, b.rows()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"503": 2, "timeout": 1}, b.failures("first", visits, creations)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := b.failures("second", visits); len(got) != 0 {
		t.Errorf("failures of the second phase: %v", got)
	}
}

func TestClicksAreCompared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		seen map[string]visitCount
		has  map[string]counted
		want difference
	}{
		{"nothing", nil, nil, difference{}},
		{"all", map[string]visitCount{"a": {seen: 3}}, map[string]counted{"a": {3, 3, 3}}, difference{}},
		{"unsure ones that were counted", map[string]visitCount{"a": {3, 2}}, map[string]counted{"a": {5, 5, 5}}, difference{}},
		{"unsure ones that were not", map[string]visitCount{"a": {3, 2}}, map[string]counted{"a": {3, 3, 3}}, difference{}},
		{"ways of counting that differ", map[string]visitCount{"a": {3, 2}}, map[string]counted{"a": {3, 4, 3}}, difference{1, 0, 0, "a"}},
		{"a row is missing", map[string]visitCount{"a": {seen: 3}}, map[string]counted{"a": {3, 3, 2}}, difference{1, 1, 0, "a"}},
		{"twice", map[string]visitCount{"a": {3, 1}, "b": {seen: 1}}, map[string]counted{"a": {6, 6, 6}, "b": {2, 2, 2}}, difference{2, 0, 3, "a"}},
		{"a link that is not counted", map[string]visitCount{"a": {seen: 2}}, nil, difference{1, 2, 0, "a"}},
		{"a link that nobody has followed", nil, map[string]counted{"a": {1, 1, 1}}, difference{1, 0, 1, "a"}},
	} {
		if got := compare(c.seen, c.has); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestARepeatedURLIsHeldAgainstItsLink(t *testing.T) {
	t.Parallel()
	was := link{id: "lnk_1", url: "https://example.com/", code: "abc"}
	for _, c := range []struct {
		name    string
		is      link
		created bool
		wrong   int
	}{
		{"the same", was, false, 0},
		{"made twice", was, true, 1},
		{"another code", link{"lnk_1", was.url, "abd", ""}, false, 1},
		{"another link", link{"lnk_2", was.url, "abc", ""}, false, 1},
	} {
		var r register
		r.add(was)
		r.again(was, c.is, c.created)
		if _, wrong := r.snapshot(); len(wrong) != c.wrong {
			t.Errorf("%s: %v", c.name, wrong)
		}
	}
}

func TestTheTableIsAligned(t *testing.T) {
	t.Parallel()
	got := table([][]string{{"what", "n"}, {"2 × 503", "12"}, {"", "3.5"}})
	want := "| what    | n   |\n|---------|-----|\n| 2 × 503 |  12 |\n|         | 3.5 |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAnAnswerOfGraphQLIsRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, code string
	}{
		{`{"data":{"createLink":{"link":{"id":"lnk_1","code":"abc","shortUrl":"https://sho.rt/abc"},"created":true,"errors":[]}}}`, ""},
		{`{"data":{"createLink":{"link":null,"created":false,"errors":[{"code":"INVALID_URL","message":"…"}]}}}`, "INVALID_URL"},
		{`{"data":null,"errors":[{"message":"…","extensions":{"code":"UNAVAILABLE"}}]}`, "UNAVAILABLE"},
		{`<html>502 Bad Gateway</html>`, "502"},
		{`{"data":{}}`, "502"},
	} {
		var m made
		err := readAnswer(502, []byte(c.text), "createLink", &m)
		if c.code == "" {
			l, broken := m.link("https://example.com/")
			if err != nil || broken != nil || l.path != "/abc" || !m.Created {
				t.Errorf("%s: %+v, %v, %v", c.text, l, err, broken)
			}
			continue
		}
		if r, ok := err.(refusal); !ok || r.code != c.code {
			t.Errorf("%s: %v, want %s", c.text, err, c.code)
		}
	}
}
