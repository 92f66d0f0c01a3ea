package main

import (
	"net/http"
	"slices"
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
		first, second := who.shorten(t, destination), who.shorten(t, "HTTPS://example.com:443/go?a=1&b=2")
		if diff := cmp.Diff(first.Link, second.Link); diff != "" || !first.Created || second.Created {
			t.Errorf("created %t, then %t (-first +second):\n%s", first.Created, second.Created, diff)
		}
		l := first.Link
		s.expect(t, http.StatusFound, http.MethodHead, l.path(s))
		for _, path := range []string{l.path(s), "/engines/" + l.Code} {
			a := s.expect(t, http.StatusFound, http.MethodGet, path)
			if a.header.Get("Location") != destination || a.body != "" {
				t.Errorf("%s leads to %q: %s", path, a.header.Get("Location"), a.body)
			}
		}
		s.expect(t, http.StatusNotFound, http.MethodGet, "/another/"+l.Code)
		polltest.Until(t, "both redirects are counted", func() bool { return who.getLink(t, l.ID).ClickCount >= 2 })
		statsAddUp(t, who, l.ID, 2)
		removeAndRevive(t, who, l)

		before := who.getLink(t, l.ID)
		s.stop()
		s.again()
		if diff := cmp.Diff(before, who.getLink(t, l.ID)); diff != "" {
			t.Errorf("after a restart (-before +after):\n%s", diff)
		}
		loggedIn(t, who) // the token from before, and the password
	})
}

// loggedIn logs the user in again, and queries the current user.
func loggedIn(t *testing.T, who tenant) {
	t.Helper()
	var got struct {
		Login struct {
			ExpiresAt time.Time
			User      struct{ ID string }
			Errors    []userError
		}
	}
	const login = `mutation ($email: EmailAddress!, $password: String!) {
		login(input: {email: $email, password: $password}) { expiresAt user { id } errors { code } } }`
	who.must(t, &got, login, map[string]any{"email": strings.ToUpper(who.email), "password": who.password})
	if left := time.Until(got.Login.ExpiresAt); left < 23*time.Hour || left > 25*time.Hour ||
		got.Login.User.ID != who.id {
		t.Errorf("login: %+v", got.Login)
	}
	who.must(t, &got, login, map[string]any{"email": who.email, "password": "pass phrase of another"})
	if len(got.Login.Errors) != 1 || got.Login.Errors[0].Code != "BAD_CREDENTIALS" {
		t.Errorf("login with another password: %+v", got.Login)
	}
	a := must.Value(who.run(`{ me { id email name workspaces { edges { node { id viewerRole } } } } }`, nil))(t)
	want := `{"data":{"me":{"id":"` + who.id + `","email":"` + who.email + `","name":"Person of ` + who.slug +
		`","workspaces":{"edges":[{"node":{"id":"` + who.workspaceID + `","viewerRole":"OWNER"}}]}}}}`
	if a.body != want {
		t.Errorf("the current user is %s, want %s", a.body, want)
	}
}

// statsAddUp checks all counts of the clicks. The link was not followed by HEAD.
func statsAddUp(t *testing.T, who tenant, linkID string, clicks int64) {
	t.Helper()
	var got struct {
		Link struct {
			linkView
			AverageRedirectMs float64
			Stats             struct {
				Clicks int64
				Days   []struct{ Clicks int64 }
			}
		}
	}
	who.must(t, &got, `query ($id: ID!) { link(by: {id: $id}) {
		clickCount averageRedirectMs hitQuota { limit used remaining }
		stats(timezone: "Europe/Berlin") { clicks days: series(interval: DAY) { clicks } } } }`,
		map[string]any{"id": linkID})
	l := got.Link
	if l.ClickCount != clicks || l.AverageRedirectMs <= 0 || l.Stats.Clicks != clicks || l.HitQuota.Used != clicks ||
		l.HitQuota.Limit != 10_000 || l.HitQuota.Remaining != 10_000-clicks {
		t.Errorf("%+v, want %d clicks", l, clicks)
	}
	sum := int64(0)
	for _, day := range l.Stats.Days {
		sum += day.Clicks
	}
	if n := len(l.Stats.Days); sum != clicks || n < 30 || n > 32 {
		t.Errorf("the %d days add up to %d clicks, not %d", n, sum, clicks)
	}
	polltest.Until(t, "the platform's figures are these", func() bool {
		var all struct {
			PlatformStats struct {
				TotalLinks, TotalRedirects int64
				AverageRedirectMs          float64
			}
		}
		client{server: who.server}.must(t, &all, `{ platformStats { totalLinks totalRedirects averageRedirectMs } }`,
			nil)
		p := all.PlatformStats
		return p.TotalLinks >= 1 && p.TotalRedirects == clicks && p.AverageRedirectMs > 0
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
	if !slices.Contains(statuses, a.status) {
		t.Fatalf("%s: status %d, want one of %v", path, a.status, statuses)
	}
	return a.status
}
