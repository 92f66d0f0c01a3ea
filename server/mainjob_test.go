package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestMainJob runs the main use case like a front end.
func TestMainJob(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "engines")
		loggedIn(t, who)
		const destination = "https://Example.com//go/?b=2&a=1#part"
		l := createdTwice(t, who, destination)
		custom := customCode(t, who)
		expiring := who.shorten(t, "https://example.com/soon", "expiresAt", time.Now().Add(2*time.Second)).Link

		redirects(t, s, l, destination)
		polltest.Until(t, "both redirects are counted", func() bool { return who.getLink(t, l.ID).ClickCount >= 2 })
		statsAddUp(t, who, l.ID, 2)
		removeAndRevive(t, who, l)
		polltest.Until(t, "the link has expired", func() bool {
			return s.expectOneOf(t, expiring.path(s), http.StatusFound, http.StatusGone) == http.StatusGone
		})
		if got := who.getLink(t, expiring.ID); got.Status != "EXPIRED" {
			t.Errorf("the expired link is %s", got.Status)
		}

		before := who.getLink(t, l.ID)
		s.stop()
		s.again()
		if diff := cmp.Diff(before, who.getLink(t, l.ID)); diff != "" {
			t.Errorf("after a restart (-before +after):\n%s", diff)
		}
		loggedIn(t, who) // the token from before, and the password
		s.expect(t, http.StatusFound, http.MethodGet, custom.path(s))
	})
}

// loggedIn logs the user in again, and queries the current user.
func loggedIn(t *testing.T, who tenant) {
	t.Helper()
	var got struct {
		Login struct {
			Token     string
			ExpiresAt time.Time
			User      struct{ ID string }
			Errors    []userError
		}
	}
	const login = `mutation ($email: EmailAddress!, $password: String!) {
		login(input: {email: $email, password: $password}) { token expiresAt user { id } errors { code message field } }
	}`
	who.must(t, &got, login, map[string]any{"email": strings.ToUpper(who.email), "password": who.password})
	if left := time.Until(got.Login.ExpiresAt); left < 23*time.Hour || left > 25*time.Hour ||
		got.Login.User.ID != who.id {
		t.Errorf("login: %+v", got.Login)
	}
	who.must(t, &got, login, map[string]any{"email": who.email, "password": "pass phrase of another"})
	if len(got.Login.Errors) != 1 || got.Login.Errors[0].Code != "BAD_CREDENTIALS" {
		t.Errorf("login with another password: %+v", got.Login)
	}
	type me struct {
		ID, Email, Name string
		Workspaces      struct {
			Edges []struct {
				Node struct{ ID, Slug, ViewerRole string }
			}
		}
	}
	var is struct{ Me *me }
	const query = `{ me { id email name workspaces { edges { node { id slug viewerRole } } } } }`
	who.must(t, &is, query, nil)
	want := &me{ID: who.id, Email: who.email, Name: "Person of " + who.slug}
	want.Workspaces.Edges = []struct {
		Node struct{ ID, Slug, ViewerRole string }
	}{
		{Node: struct{ ID, Slug, ViewerRole string }{who.workspaceID, who.slug, "OWNER"}},
	}
	if diff := cmp.Diff(want, is.Me); diff != "" {
		t.Errorf("me (-want +got):\n%s", diff)
	}
	is.Me = nil
	client{server: who.server}.must(t, &is, query, nil)
	if is.Me != nil {
		t.Errorf("got user %+v for an anonymous client, want none", is.Me)
	}
}

func createdTwice(t *testing.T, who tenant, destination string) linkView {
	t.Helper()
	first, second := who.shorten(t, destination), who.shorten(t, "HTTPS://example.com:443/go?a=1&b=2")
	if diff := cmp.Diff(first.Link, second.Link); diff != "" || !first.Created || second.Created {
		t.Errorf("created %t, then %t (-first +second):\n%s", first.Created, second.Created, diff)
	}
	return first.Link
}

func customCode(t *testing.T, who tenant) linkView {
	t.Helper()
	got := who.shorten(t, "https://example.com/sale", "customCode", "promo")
	if want := who.public + "/" + who.slug + "/promo"; got.Link.ShortURL != want || got.Link.Strategy != "CUSTOM" {
		t.Errorf("custom link: %+v, want %s", got.Link, want)
	}
	s := who.server
	s.expect(t, http.StatusFound, http.MethodGet, "/"+who.slug+"/promo")
	s.expect(t, http.StatusNotFound, http.MethodGet, "/promo")
	s.expect(t, http.StatusNotFound, http.MethodGet, "/another/promo")
	return got.Link
}

// redirects follows the link twice, at both of its addresses, and only looks once.
func redirects(t *testing.T, s *server, l linkView, destination string) {
	t.Helper()
	looked := s.expect(t, http.StatusFound, http.MethodHead, l.path(s))
	for _, a := range []answer{
		looked,
		s.expect(t, http.StatusFound, http.MethodGet, l.path(s), "Accept", "text/html"),
		s.expect(t, http.StatusFound, http.MethodGet, "/engines/"+l.Code),
	} {
		got := map[string]string{}
		for _, name := range []string{"Location", "Cache-Control", "Referrer-Policy", "X-Robots-Tag", "Set-Cookie"} {
			got[name] = a.header.Get(name)
		}
		want := map[string]string{
			"Location": destination, "Cache-Control": "private, no-store",
			"Referrer-Policy": "strict-origin-when-cross-origin", "X-Robots-Tag": "noindex", "Set-Cookie": "",
		}
		if diff := cmp.Diff(want, got); diff != "" || a.body != "" {
			t.Errorf("a redirect with the body %q (-want +got):\n%s", a.body, diff)
		}
	}
	page := s.expect(t, http.StatusNotFound, http.MethodGet, "/nosuchcode", "Accept", "text/html,*/*;q=0.8")
	if kind := page.header.Get("Content-Type"); kind != "text/html; charset=utf-8" ||
		!strings.Contains(page.body, "<title>") {
		t.Errorf("got page for browsers %s: %s", kind, page.body)
	}
	if page := s.expect(t, http.StatusNotFound, http.MethodGet, "/nosuchcode"); strings.Contains(page.body, "<") {
		t.Errorf("the line for programs: %s", page.body)
	}
}

// statsAddUp checks all counts of the clicks. The link was not followed by HEAD.
func statsAddUp(t *testing.T, who tenant, linkID string, clicks int64) {
	t.Helper()
	type point struct {
		Start  time.Time
		Clicks int64
	}
	var got struct {
		Link struct {
			ClickCount        int64
			AverageRedirectMs float64
			HitQuota          struct{ Limit, Used, Remaining int64 }
			Stats             struct {
				Clicks int64
				Days   []point
				Months []point
			}
		}
	}
	who.must(t, &got, `query ($id: ID!) { link(by: {id: $id}) {
		clickCount averageRedirectMs hitQuota { limit used remaining }
		stats(timezone: "Europe/Berlin") { clicks days: series(interval: DAY) { start clicks } months: series(interval:
		MONTH) { start clicks } }
	} }`, map[string]any{"id": linkID})
	l := got.Link
	if l.ClickCount != clicks || l.AverageRedirectMs <= 0 || l.Stats.Clicks != clicks {
		t.Errorf("%d clicks, %d in stats, %f ms; want %d", l.ClickCount, l.Stats.Clicks, l.AverageRedirectMs, clicks)
	}
	if l.HitQuota.Used != clicks || l.HitQuota.Limit != 10_000 || l.HitQuota.Remaining != 10_000-clicks {
		t.Errorf("quota %+v after %d clicks", l.HitQuota, clicks)
	}
	for name, series := range map[string][]point{"days": l.Stats.Days, "months": l.Stats.Months} {
		sum := int64(0)
		for _, p := range series {
			sum += p.Clicks
		}
		if sum != clicks {
			t.Errorf("the %s add up to %d clicks, not %d: %v", name, sum, clicks, series)
		}
	}
	if n := len(l.Stats.Days); n < 30 || n > 32 {
		t.Errorf("30 days are %d points", n)
	}
	// Three: the custom link was followed once.
	polltest.Until(t, "the platform's figures are these", func() bool {
		var all struct {
			PlatformStats struct {
				TotalLinks, TotalRedirects int64
				AverageRedirectMs          float64
			}
		}
		client{server: who.server}.must(t, &all, `{ platformStats { totalLinks totalRedirects averageRedirectMs }
			}`, nil)
		p := all.PlatformStats
		return p.TotalLinks >= 2 && p.TotalRedirects == clicks+1 && p.AverageRedirectMs > 0
	})
}

func removeAndRevive(t *testing.T, who tenant, l linkView) {
	t.Helper()
	s := who.server
	if got := who.remove(t, l.ID); got.Status != "DELETED" {
		t.Errorf("deleted: %+v", got)
	}
	s.expect(t, http.StatusNotFound, http.MethodGet, l.path(s))
	revived := who.shorten(t, l.OriginalURL)
	if diff := cmp.Diff(l, revived.Link); diff != "" || revived.Created {
		t.Errorf("revived, created %t (-before +after):\n%s", revived.Created, diff)
	}
	s.expect(t, http.StatusFound, http.MethodGet, l.path(s))
	polltest.Until(t, "the third redirect is counted", func() bool { return who.getLink(t, l.ID).ClickCount == 3 })
}

// expectOneOf requests a path and returns the status, which must be one of these.
func (s *server) expectOneOf(t *testing.T, path string, statuses ...int) int {
	t.Helper()
	a := must.Value(s.get(path))(t)
	for _, status := range statuses {
		if a.status == status {
			return status
		}
	}
	t.Fatalf("%s: status %d, want one of %v", path, a.status, statuses)
	return 0
}
