package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestMaxClicks_AreExact has a thousand visitors at once, on all nodes, of a link that may be
// followed a hundred times.
func TestMaxClicks_AreExact(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		ends := nextMonth(t)
		nodes := startAll(t, b, b.nodes)
		who := nodes[0].tenant(t, "limited")
		l := who.shorten(t, "https://example.com/limited", "maxClicks", 100).Link

		got := visitAtOnce(t, nodes, l.path(nodes[0]), 1000, 1000, ends)
		same(t, "answers", got, map[int]int{http.StatusFound: 100, http.StatusGone: 900})
		polltest.Until(t, "every redirect is counted", func() bool { return who.getLink(t, l.ID).ClickCount == 100 })
		after := who.getLink(t, l.ID)
		if after.Status != "EXHAUSTED" || after.HitQuota.Used != 100 {
			t.Errorf("%s, %d hits used; want EXHAUSTED and 100", after.Status, after.HitQuota.Used)
		}
	})
}

const createAnonymousLink = `mutation ($url: String!) {
	createAnonymousLink(input: {url: $url}) { claimToken link { id shortUrl kind status expiresAt workspace { id }
	createdBy { id } } errors { code message field } }
}`

// anonymous is a CreateAnonymousLinkPayload.
type anonymous struct {
	ClaimToken string
	Link       struct {
		linkView
		Kind      string
		ExpiresAt time.Time
		Workspace *struct{ ID string }
		CreatedBy *struct{ ID string }
	}
	Errors []userError
}

func (s *server) anonymous(t *testing.T, url string) anonymous {
	t.Helper()
	var got struct{ CreateAnonymousLink anonymous }
	client{server: s}.must(t, &got, createAnonymousLink, map[string]any{"url": url})
	return got.CreateAnonymousLink
}

func TestAnonymousLink_CanBeDisabled(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t), "LINKFORGE_ANONYMOUS=off")
	a, err := client{server: s}.run(createAnonymousLink, map[string]any{"url": "https://example.com/"})
	if err != nil || a.code() != "FORBIDDEN" {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestBlockCommand_StopsRedirects reads a report, and blocks its host by commands while the server
// runs.
func TestBlockCommand_StopsRedirects(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "tenant")
		l := who.shorten(t, "https://login.evil.example/your-bank").Link
		report := func(url, details string) string {
			t.Helper()
			return client{server: s}.ask(t, `mutation ($x: String!, $d: String!) { reportLink(input: {shortUrl: $x,
				reason: PHISHING, details: $d}) { reported errors { code } } }`,
				map[string]any{"x": url, "d": details}).text("reportLink")
		}
		if got := report(l.ShortURL, "a \x1bred\x1b bank"); !strings.Contains(got, "INVALID_INPUT") {
			t.Errorf("hostile details: %s", got)
		}
		same(t, "a report", report(l.ShortURL, "It looks like my bank."), "map[errors:[] reported:true]")
		report(s.public+"/unknown", "")
		if out := succeed(t, s.env, "reports"); !regexp.MustCompile(`^\S+\tPHISHING\t` + regexp.QuoteMeta(l.ShortURL) +
			`\t.*"It looks like my bank\."\n$`).MatchString(out) {
			t.Errorf("reports: %s", out)
		}

		succeed(t, s.env, "block", "add", "EVIL.example", "--reason", "phishing")
		if out := succeed(t, s.env, "block", "list"); !strings.HasPrefix(out, "evil.example\t") ||
			!strings.HasSuffix(out, "phishing\n") {
			t.Errorf("listed: %q", out)
		}
		refuses(t, "a blocked host", must.Value(who.create("https://evil.example/other"))(t).Errors, "UNSAFE_URL")
		s.expect(t, http.StatusFound, http.MethodGet, l.path(s))
		same(t, "disabled", succeed(t, s.env, "block", "disable", "evil.example"), "disabled 1 links\n")
		s.becomes(t, l, http.StatusGone, "the link is disabled")
		succeed(t, s.env, "block", "enable", "evil.example")
		s.becomes(t, l, http.StatusFound, "the link is enabled")
		succeed(t, s.env, "block", "remove", "evil.example")
		declined(t, s.env, "", "block", "remove", "evil.example")
		declined(t, s.env, "", "block", "add", "https://evil.example/path")
		who.shorten(t, "https://evil.example/other")
	})
}
