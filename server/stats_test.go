package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor/visitortest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// User agents.
const (
	chromeOnWindows = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/126.0.0.0 Safari/537.36"
	googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
)

// visit requests a short URL from a loopback address; headers are alternating names and values.
func (s *server) visit(t *testing.T, method, path, from string, headers ...string) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	visitor := &server{address: s.address, public: s.public, http: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network,
			address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		}},
		CheckRedirect: s.http.CheckRedirect, Timeout: patience,
	}}
	a, err := visitor.request(method, path, "", headers...)
	if err != nil || a.status != http.StatusFound || len(a.header.Values("Set-Cookie")) > 0 {
		t.Fatalf("%s %s from %s: %+v: %v", method, path, from, a, err)
	}
}

// aWholeDay skips a test in a day's last minutes: its visitors would be those of two.
func aWholeDay(t *testing.T) {
	t.Helper()
	if now := time.Now().UTC(); now.Add(3*time.Minute).Day() != now.Day() {
		t.Skip("the day is about to end")
	}
}

// TestStats_ReportWhoFollowsALink simulates visitors of all kinds, and queries their stats.
func TestStats_ReportWhoFollowsALink(t *testing.T) {
	t.Parallel()
	aWholeDay(t)
	eachBackend(t, func(t *testing.T, b backend) {
		countries := filepath.Join(t.TempDir(), "countries.mmdb")
		must.NoError(t, visitortest.WriteCountries(countries, map[string]string{"0.0.0.0/0": "NP"}))
		s := start(t, b, "LINKFORGE_GEOIP="+countries)
		who := s.tenant(t, "counted")
		l := who.shorten(t, "https://example.com/landing?utm_medium=mail&utm_source=overridden").Link
		path := l.path(s)

		// A visitor who returns, the second time with fewer headers.
		s.visit(t, http.MethodGet, path+"?utm_source=newsletter&utm_campaign=fr%C3%BCh+%26%20sp%C3%A4t", "127.0.0.2",
			"User-Agent", chromeOnWindows, "Accept-Language", "ne,en;q=0.8",
			"Referer", "https://www.News.example:8443/a/page?of=hers")
		s.visit(t, http.MethodGet, path, "127.0.0.2", "User-Agent", chromeOnWindows)
		// Another address that claims to be the first one, and another browser at the first address.
		s.visit(t, http.MethodGet, path, "127.0.0.3", "User-Agent", chromeOnWindows, "X-Forwarded-For",
			"127.0.0.2, 8.8.8.8", "Forwarded", "for=127.0.0.2")
		s.visit(t, http.MethodGet, path, "127.0.0.2", "User-Agent", iPhone, "Referer", "android-app://com.slack/")
		// A visitor who opted out of tracking, a bot, a prefetch, and a HEAD request.
		s.visit(t, http.MethodGet, path+"?utm_source=private&utm_term=private&utm_content=private", "127.0.0.4",
			"User-Agent", iPhone, "Sec-GPC", "1", "Accept-Language", "pt", "Referer", "https://private.example/")
		s.visit(t, http.MethodGet, path, "127.0.0.5", "User-Agent", googlebot)
		s.visit(t, http.MethodGet, path, "127.0.0.5", "User-Agent", chromeOnWindows, "Sec-Purpose",
			"prefetch;prerender")
		s.visit(t, http.MethodHead, path, "127.0.0.6", "User-Agent", chromeOnWindows)
		polltest.Until(t, "the clicks are counted", func() bool { return who.getLink(t, l.ID).ClickCount == 7 })

		got := who.ask(t, `query ($id: ID!, $w: ID!) {
			link(by: {id: $id}) { stats { ...f
					referrer: breakdown(by: REFERRER, first: 5) { ...v }
					country: breakdown(by: COUNTRY, first: 5) { ...v }
					browser: breakdown(by: BROWSER, first: 5) { ...v }
					source: breakdown(by: UTM_SOURCE, first: 5) { ...v }
					status: breakdown(by: STATUS, first: 5) { ...v } }
				people: stats(filter: {bots: false, device: "desktop"}) { ...f }
				clicks(first: 20) { nodes { bot referrer country device browser os language utmSource utmMedium
					utmCampaign utmTerm utmContent } } }
			workspace(by: {id: $w}) { stats { ...f } }
		} fragment f on Stats { clicks visitors bots } fragment v on StatsSlice { value clicks visitors bots }`,
			map[string]any{"id": l.ID, "w": who.workspaceID})
		figures := func(path string) string {
			all, isList := got.at(path).([]any)
			if !isList {
				all = []any{got.at(path)}
			}
			var texts []string
			for _, one := range all {
				f := one.(map[string]any)
				text := fmt.Sprintf("%v %v/%v/%v", f["value"], f["clicks"], f["visitors"], f["bots"])
				texts = append(texts, strings.TrimSpace(strings.TrimPrefix(text, "<nil>")))
			}
			slices.Sort(texts)
			return strings.Join(texts, ", ")
		}
		for path, want := range map[string]string{
			"link.stats": "7/3/2", "link.people": "3/2/0", "workspace.stats": "7/3/2",
			"link.stats.referrer": "5/1/2, com.slack 1/1/0, news.example 1/1/0",
			"link.stats.country":  "7/3/2", // loopback has none
			"link.stats.browser":  "2/0/1, Chrome 4/2/1, Safari 1/1/0",
			"link.stats.source":   "1/0/0, newsletter 1/1/0, overridden 5/2/2",
			"link.stats.status":   "302 7/3/2",
		} {
			same(t, path, figures(path), want)
		}
		first := any(map[string]any{"bot": false, "referrer": "news.example", "country": nil, "device": "desktop",
			"browser": "Chrome", "os": "Windows", "language": "ne", "utmSource": "newsletter", "utmMedium": "mail",
			"utmCampaign": "früh & spät", "utmTerm": nil, "utmContent": nil})
		same(t, "the first click", got.at("link.clicks.nodes.6"), first)
		for name, value := range got.at("link.clicks.nodes.2").(map[string]any) {
			if value != nil && value != false {
				t.Errorf("a visitor who opted out: got %s %v, want none", name, value)
			}
		}
	})
}
