package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// visible removes the two headers that differ between equal responses.
func (a answer) visible() answer {
	a.header = a.header.Clone()
	a.header.Del("Date")
	a.header.Del("X-Request-Id")
	return a
}

// publish makes the stats of a link public.
func (w tenant) publish(t *testing.T, linkID string) {
	t.Helper()
	w.do(t, "updateLink", map[string]any{"id": linkID, "statsPublic": true})
}

// TestServer_HiddenLinksLookUnknown compares links that must not be recognized with a code that
// never existed.
func TestServer_HiddenLinksLookUnknown(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		owner, stranger := s.tenant(t, "owner"), s.tenant(t, "stranger")
		report := func(code string) string {
			return client{server: s}.ask(t, `mutation ($x: String!) { reportLink(input: {shortUrl: $x, reason: OTHER}) {
				errors { code message field } } }`, map[string]any{"x": s.public + "/owner/" + code}).text("reportLink")
		}
		for code, more := range map[string][]any{
			"scheduled":         {"startsAt", "2100-01-01T00:00:00Z"},
			"scheduled-limited": {"startsAt", "2100-01-01T00:00:00Z", "maxClicks", 1},
			"deleted":           nil,
			"unpublished":       nil,
		} {
			l := owner.shorten(t, "https://example.com/"+code, append(more, "customCode", code)...).Link
			if code != "unpublished" {
				owner.publish(t, l.ID)
			}
			if code == "deleted" {
				owner.remove(t, l.ID)
			}
			for name, headers := range map[string][]string{
				"no token": nil, "bad token": {"Authorization", "Bearer bad"}, "bad scheme": {"Authorization", "bad"},
				"stranger": {"Authorization", "Bearer " + stranger.token}, "browser": {"Accept", "text/html"},
			} {
				s.compareHidden(t, code, name, headers)
			}
			if want, got := report("never"), report(code); code != "unpublished" && got != want {
				t.Errorf("reporting %s: %s, want %s", code, got, want)
			}
		}
	})
}

// compareHidden sends the same requests to the code and to an unknown one.
func (s *server) compareHidden(t *testing.T, code, name string, headers []string) {
	t.Helper()
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "DELETE"} {
		for _, suffix := range []string{"", "+"} {
			if code == "unpublished" && suffix == "" {
				continue
			}
			got := must.Value(s.request(method, "/owner/"+code+suffix, "", headers...))(t)
			want := must.Value(s.request(method, "/owner/never"+suffix, "", headers...))(t)
			same(t, fmt.Sprint(method, " ", code, suffix, ", ", name), got.visible(), want.visible(),
				cmp.AllowUnexported(answer{}))
		}
	}
}
