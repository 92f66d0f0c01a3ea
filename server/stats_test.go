package main

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click/visitor/visitortest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// User agents.
const (
	chromeOnWindows = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/126.0.0.0 Safari/537.36"
	safariOnIPhone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like " +
		"Gecko) " +
		"Version/17.5 Mobile/15E148 Safari/604.1"
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

// figure has the clicks, visitors and bots of a Stats, or of a value in a breakdown.
type figure struct {
	Value                  string
	Clicks, Visitors, Bots int64
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
		other := who.shorten(t, "https://example.com/other", "tags", []string{"second"}).Link
		path := l.path(s)

		// A visitor who returns, the second time with fewer headers.
		s.visit(t, http.MethodGet, path+"?utm_source=newsletter&utm_campaign=fr%C3%BCh+%26%20sp%C3%A4t", "127.0.0.2",
			"User-Agent", chromeOnWindows,
			"Accept-Language", "ne,en;q=0.8", "Referer", "https://www.News.example:8443/a/page?of=hers")
		s.visit(t, http.MethodGet, path, "127.0.0.2", "User-Agent", chromeOnWindows)
		// Another address that claims to be the first one, and another browser at the first address.
		s.visit(t, http.MethodGet, path, "127.0.0.3", "User-Agent", chromeOnWindows, "X-Forwarded-For",
			"127.0.0.2, 8.8.8.8",
			"Forwarded", "for=127.0.0.2",
			"Accept-Language", "de-AT;q=0.5, fr-CH")
		s.visit(t, http.MethodGet, path, "127.0.0.2", "User-Agent", safariOnIPhone, "Referer",
			"android-app://com.slack/")
		// Visitors who opted out of tracking.
		for _, wish := range []string{"DNT", "Sec-GPC"} {
			s.visit(t, http.MethodGet, path+"?utm_source=private&utm_term=private&utm_content=private", "127.0.0.4",
				"User-Agent", safariOnIPhone,
				wish, "1", "Accept-Language", "pt", "Referer", "https://private.example/")
		}
		// Two bots by user agent, a prefetch, and a HEAD request.
		s.visit(t, http.MethodGet, path, "127.0.0.5", "User-Agent", googlebot)
		s.visit(t, http.MethodGet, path, "127.0.0.5", "User-Agent", "curl/8.5.0")
		s.visit(t, http.MethodGet, path, "127.0.0.5", "User-Agent", chromeOnWindows, "Sec-Purpose",
			"prefetch;prerender")
		s.visit(t, http.MethodHead, path, "127.0.0.6", "User-Agent", chromeOnWindows)
		s.visit(t, http.MethodGet, other.path(s), "127.0.0.2", "User-Agent", chromeOnWindows)

		type breakdowns struct {
			figure
			Referrer, Country, Browser, Source, Status []figure
			Series                                     []figure
			Latency                                    *struct{ MeanMs, P50Ms, P99Ms float64 }
		}
		var got struct {
			Link struct {
				Stats  breakdowns
				People figure
				Clicks struct{ Nodes []map[string]any }
			}
			Workspace struct{ Stats, Second figure }
		}
		ask := func() bool {
			who.must(t, &got, `query ($id: ID!, $w: ID!) {
				link(by: {id: $id}) {
					stats { ...f latency { meanMs p50Ms p99Ms } series(interval: HOUR) { clicks visitors bots }
						referrer: breakdown(by: REFERRER, first: 5) { ...v }
						country: breakdown(by: COUNTRY, first: 5) { ...v }
						browser: breakdown(by: BROWSER, first: 5) { ...v }
						source: breakdown(by: UTM_SOURCE, first: 5) { ...v }
						status: breakdown(by: STATUS, first: 5) { ...v } }
					people: stats(filter: {bots: false, device: "desktop"}) { ...f }
					clicks(first: 20) { nodes { bot referrer country device browser os language utmSource utmMedium
						utmCampaign utmTerm utmContent } }
				}
				workspace(by: {id: $w}) { stats { ...f } second: stats(tag: "second") { ...f } }
			} fragment f on Stats { clicks visitors bots } fragment v on StatsSlice { value clicks visitors bots }`,
				map[string]any{"id": l.ID, "w": who.workspaceID})
			return got.Workspace.Stats.Clicks >= 10
		}
		polltest.Until(t, "the clicks are counted", ask)
		ask() // again: parts of the first response were read before the clicks were written
		stats := got.Link.Stats
		byValue := func(all []figure) []figure {
			slices.SortFunc(all, func(a, b figure) int { return strings.Compare(a.Value, b.Value) })
			return all
		}
		for name, one := range map[string]struct{ got, want []figure }{
			"link, people, workspace, tag": {
				[]figure{stats.figure, got.Link.People, got.Workspace.Stats, got.Workspace.Second},
				[]figure{{"", 9, 3, 3}, {"", 3, 2, 0}, {"", 10, 4, 3}, {"", 1, 1, 0}},
			},
			"referrer": {byValue(stats.Referrer), []figure{{"", 7, 1, 3}, {"com.slack", 1, 1, 0},
				{"news.example", 1, 1, 0}}},
			"country": {byValue(stats.Country), []figure{{"", 9, 3, 3}}}, // loopback has none
			"browser": {byValue(stats.Browser), []figure{{"", 4, 0, 2}, {"Chrome", 4, 2, 1}, {"Safari", 1, 1, 0}}},
			"source": {byValue(stats.Source), []figure{{"", 2, 0, 0}, {"newsletter", 1, 1, 0},
				{"overridden", 6, 2, 3}}},
			"status": {byValue(stats.Status), []figure{{"302", 9, 3, 3}}},
		} {
			if diff := cmp.Diff(one.want, one.got); diff != "" {
				t.Errorf("by %s (-want +got):\n%s", name, diff)
			}
		}
		sum := figure{}
		for _, p := range stats.Series {
			sum.Clicks, sum.Visitors, sum.Bots = sum.Clicks+p.Clicks, sum.Visitors+p.Visitors, sum.Bots+p.Bots
		}
		if l := stats.Latency; sum != stats.figure || l == nil || l.MeanMs <= 0 || l.P50Ms > l.P99Ms {
			t.Errorf("the series adds up to %+v, want %+v; latency %+v", sum, stats.figure, l)
		}
		clicks := got.Link.Clicks.Nodes
		if len(clicks) != 9 {
			t.Fatalf("%d clicks one by one", len(clicks))
		}
		slices.Reverse(clicks)
		first := map[string]any{"bot": false, "referrer": "news.example", "country": nil, "device": "desktop",
			"browser": "Chrome", "os": "Windows", "language": "ne",
			"utmSource": "newsletter", "utmMedium": "mail", "utmCampaign": "früh & spät", "utmTerm": nil,
			"utmContent": nil}
		if diff := cmp.Diff(first, clicks[0]); diff != "" {
			t.Errorf("the first click (-want +got):\n%s", diff)
		}
		for _, i := range []int{4, 5} {
			for name, value := range clicks[i] {
				if value != nil && value != false {
					t.Errorf("a visitor who opted out: got %s %v, want none", name, value)
				}
			}
		}
	})
}
