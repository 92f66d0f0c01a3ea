package main

import (
	"encoding/csv"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestStatsPage_IsServed: it is public once the owner has set that, and before for members only. The destination
// and the title of a private link are for those who may read links.
func TestStatsPage_IsServed(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who, stranger := s.tenant(t, "owner"), s.tenant(t, "stranger")
		l := who.shorten(t, "https://example.com/campaign?<script>", "title", "Confidential title").Link
		for range 3 {
			s.expect(t, http.StatusFound, http.MethodGet, l.path(s), "Referer", "https://news.example/story")
		}
		polltest.Until(t, "the clicks are counted", func() bool { return who.getLink(t, l.ID).ClickCount == 3 })
		page := l.path(s) + "+"
		browser := []string{"Accept", "text/html"}
		private := s.expect(t, http.StatusNotFound, http.MethodGet, page, browser...)
		unknown := s.expect(t, http.StatusNotFound, http.MethodGet, "/nothing-here+", browser...)
		same(t, "a link whose stats are private, like one that does not exist", private.body, unknown.body)
		s.expect(t, http.StatusNotFound, http.MethodGet, page, "Authorization", "Bearer "+stranger.token)
		statsKey, _ := who.key(t, "STATS_READ")
		bothKey, _ := who.key(t, "STATS_READ", "LINKS_READ")
		shows := func(reader, token string, want bool) {
			t.Helper()
			a := s.expect(t, http.StatusOK, http.MethodGet, page, "Authorization", "Bearer "+token)
			for _, text := range []string{"https://example.com/campaign", "Confidential title", "Leads to"} {
				if strings.Contains(a.body, text) != want {
					t.Errorf("%s sees %q: %t, want %t", reader, text, !want, want)
				}
			}
		}
		shows("a member", who.token, true)
		shows("a key with STATS_READ", statsKey.token, false)
		shows("a key with STATS_READ and LINKS_READ", bothKey.token, true)
		who.publish(t, l.ID)
		shows("a key with STATS_READ, on the public page,", statsKey.token, true)
		a := s.expect(t, http.StatusOK, http.MethodGet, page, browser...)
		hasTexts(t, "the page", a.body, "news.example", "<svg", "https://example.com/campaign?&lt;script&gt;", "3 ")
		if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
			strings.Contains(a.body, "<script") {
			t.Errorf("the page may run scripts: %q", policy)
		}
		same(t, "clicks after looking at stats", who.getLink(t, l.ID).ClickCount, 3)
		who.remove(t, l.ID)
		s.expect(t, http.StatusNotFound, http.MethodGet, page, browser...)
	})
}

// TestClicks_AreExported: the bearer of a signed URL downloads the clicks that its member may read.
func TestClicks_AreExported(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "owner")
		l, other := who.shorten(t, "https://example.com/a").Link, who.shorten(t, "https://example.com/b").Link
		for range 5 {
			s.expect(t, http.StatusFound, http.MethodGet,
				l.path(s)+"?utm_campaign=%3Dcmd&utm_term=%E2%80%8B%EF%BC%9Dcmd", "User-Agent", chromeOnWindows)
		}
		s.expect(t, http.StatusFound, http.MethodGet, other.path(s))
		polltest.Until(t, "the clicks are counted", func() bool {
			return who.getLink(t, l.ID).ClickCount+who.getLink(t, other.ID).ClickCount == 6
		})
		path := who.exportURL(t, who.workspaceID, "linkId", l.ID, "filter", map[string]any{"browser": "Chrome"})
		rows, err := csv.NewReader(strings.NewReader(s.expect(t, http.StatusOK, http.MethodGet, path).body)).ReadAll()
		if err != nil || len(rows) != 6 || rows[0][0] != "id" || rows[1][1] != l.ID || rows[1][10] != "Chrome" ||
			rows[1][15] != "'=cmd" || rows[1][16] != "'＝cmd" {
			t.Errorf("%v: %v", rows, err)
		}
		path = who.exportURL(t, who.workspaceID, "format", "JSON_LINES")
		lines := s.expect(t, http.StatusOK, http.MethodGet, path).body
		if ids := regexp.MustCompile(`"id":"clk_`).FindAllString(lines, -1); len(ids) != 6 {
			t.Errorf("%d clicks of 6: %s", len(ids), lines)
		}
		s.expect(t, http.StatusNotFound, http.MethodGet, path[:len(path)-2])
		s.expect(t, http.StatusNotFound, http.MethodGet, strings.Replace(path, "token=ey", "token=ez", 1))
		s.expect(t, http.StatusNotFound, http.MethodGet, "/export/clicks")
	})
}
