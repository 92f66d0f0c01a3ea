package main

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestStatsPage_IsServed: it is public once the owner has set that, and before for members only.
func TestStatsPage_IsServed(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := startAll(t, b, 1)[0]
		who, stranger := s.tenant(t, "owner"), s.tenant(t, "stranger")
		l := who.shorten(t, "https://example.com/campaign?<script>").Link
		for range 3 {
			s.expect(t, http.StatusFound, http.MethodGet, l.path(s), "Referer", "https://news.example/story")
		}
		polltest.Until(t, "the clicks are counted", func() bool { return who.getLink(t, l.ID).ClickCount == 3 })
		page := l.path(s) + "+"
		browser := []string{"Accept", "text/html"}
		private := s.expect(t, http.StatusNotFound, http.MethodGet, page, browser...)
		unknown := s.expect(t, http.StatusNotFound, http.MethodGet, "/nothing-here+", browser...)
		if private.body != unknown.body {
			t.Error("a link whose stats are private looks unlike one that does not exist")
		}
		s.expect(t, http.StatusNotFound, http.MethodGet, page, "Authorization", "Bearer "+stranger.token)
		s.expect(t, http.StatusOK, http.MethodGet, page, "Authorization", "Bearer "+who.token)
		who.must(t, new(any),
			`mutation ($id: ID!) { updateLink(input: {id: $id, statsPublic: true}) { link { statsPublic
			} errors { code } } }`, map[string]any{"id": l.ID})
		a := s.expect(t, http.StatusOK, http.MethodGet, page, browser...)
		for _, part := range []string{"news.example", "<svg", "https://example.com/campaign?&lt;script&gt;", "3 "} {
			if !strings.Contains(a.body, part) {
				t.Errorf("the page has no %q", part)
			}
		}
		if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
			strings.Contains(a.body, "<script") {
			t.Errorf("the page may run scripts: %q", policy)
		}
		if n := who.getLink(t, l.ID).ClickCount; n != 3 {
			t.Errorf("looking at stats was counted: %d clicks", n)
		}
		who.remove(t, l.ID)
		s.expect(t, http.StatusNotFound, http.MethodGet, page, browser...)
	})
}

// TestClicks_AreExported: the bearer of a signed URL downloads the clicks that its member may read.
func TestClicks_AreExported(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := startAll(t, b, 1)[0]
		who := s.tenant(t, "owner")
		l, other := who.shorten(t, "https://example.com/a").Link, who.shorten(t, "https://example.com/b").Link
		for range 5 {
			s.expect(t, http.StatusFound, http.MethodGet,
				l.path(s)+"?utm_campaign=%3Dcmd&utm_term=%E2%80%8B%EF%BC%9Dcmd",
				"User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "+
					"Chrome/126.0.0.0 "+
					"Safari/537.36")
		}
		s.expect(t, http.StatusFound, http.MethodGet, other.path(s))
		polltest.Until(t, "the clicks are counted", func() bool {
			return who.getLink(t, l.ID).ClickCount == 5 &&
				who.getLink(t, other.ID).ClickCount == 1
		})
		path := who.exportURL(t, who.workspaceID, "linkId", l.ID, "filter", map[string]any{"browser": "Chrome"})
		rows, err := csv.NewReader(strings.NewReader(s.expect(t, http.StatusOK, http.MethodGet, path).body)).ReadAll()
		if err != nil || len(rows) != 6 || rows[0][0] != "id" || rows[1][1] != l.ID || rows[1][10] != "Chrome" ||
			rows[1][15] != "'=cmd" || rows[1][16] != "'＝cmd" {
			t.Errorf("%v: %v", rows, err)
		}
		path = who.exportURL(t, who.workspaceID, "format", "JSON_LINES")
		lines := strings.Split(strings.TrimSpace(s.expect(t, http.StatusOK, http.MethodGet, path).body), "\n")
		ids := map[string]bool{}
		for _, line := range lines {
			var one struct{ ID string }
			must.NoError(t, json.Unmarshal([]byte(line), &one))
			ids[one.ID] = true
		}
		if len(ids) != 6 {
			t.Errorf("%d clicks of 6: %v", len(ids), lines)
		}
		s.expect(t, http.StatusNotFound, http.MethodGet, path[:len(path)-2])
		s.expect(t, http.StatusNotFound, http.MethodGet, strings.Replace(path, "token=ey", "token=ez", 1))
		s.expect(t, http.StatusNotFound, http.MethodGet, "/export/clicks")
	})
}

// TestStatsPage_ShowsLinkFieldsToLinkReadersAlone reads the page of a private link with keys of
// different scopes.
func TestStatsPage_ShowsLinkFieldsToLinkReadersAlone(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := startAll(t, b, 1)[0]
		who := s.tenant(t, "owner")
		l := who.shorten(t, "https://example.com/confidential", "title", "Confidential title").Link
		statsKey, _ := who.key(t, "STATS_READ")
		bothKey, _ := who.key(t, "STATS_READ", "LINKS_READ")
		public := func(yes bool) {
			who.must(t, new(any),
				`mutation ($id: ID!, $yes: Boolean!) { updateLink(input: {id: $id, statsPublic: $yes}) {
				errors { code } } }`,
				map[string]any{"id": l.ID, "yes": yes})
		}
		for _, c := range []struct {
			name   string
			token  string
			public bool
			shown  bool
		}{
			{"member", who.token, false, true},
			{"key with STATS_READ", statsKey.token, false, false},
			{"key with STATS_READ and LINKS_READ", bothKey.token, false, true},
			{"key with STATS_READ, public page", statsKey.token, true, true},
		} {
			t.Run(c.name, func(t *testing.T) {
				public(c.public)
				a := s.expect(t, http.StatusOK, http.MethodGet, l.path(s)+"+", "Authorization", "Bearer "+c.token)
				for _, text := range []string{"https://example.com/confidential", "Confidential title"} {
					if strings.Contains(a.body, text) != c.shown {
						t.Errorf("shows %q: %t, want %t", text, !c.shown, c.shown)
					}
				}
				if strings.Contains(a.body, "Leads to") != c.shown {
					t.Errorf("the page names a destination: %t", !c.shown)
				}
			})
		}
	})
}
