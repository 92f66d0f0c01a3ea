package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

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

// figures are a Stats as these tests see it: a breakdown says for each value, "(other)" for all
// others, the clicks, visitors and bots.
type figures struct {
	Clicks, Visitors, Bots int64
	Latency                *struct{ MeanMs, P50Ms, P99Ms float64 }
	Series                 []struct{ Clicks, Visitors, Bots int64 }

	Referrer, Country, Device, Browser, OS, Language, Source, Medium, Campaign, Term, Content, Status, Link []figure
}

type figure struct {
	Value                  string
	IsOther                bool
	Link                   *struct{ ID string }
	Clicks, Visitors, Bots int64
}

// statsFields are a fragment that reads figures.
var statsFields = func() string {
	fields := "clicks visitors bots latency { meanMs p50Ms p99Ms } series(interval: HOUR) { clicks visitors bots }"
	for name, dimension := range map[string]string{
		"referrer": "REFERRER", "country": "COUNTRY", "device": "DEVICE", "browser": "BROWSER", "os": "OS",
		"language": "LANGUAGE", "source": "UTM_SOURCE",
		"medium": "UTM_MEDIUM", "campaign": "UTM_CAMPAIGN", "term": "UTM_TERM", "content": "UTM_CONTENT",
		"status": "STATUS",
		"link":   "LINK",
	} {
		fields += fmt.Sprintf(" %s: breakdown(by: %s, first: 5) { value isOther link { id } clicks visitors bots }",
			name,
			dimension)
	}
	return " fragment figures on Stats { " + fields + " }"
}()

// formatFigures formats counts as "value clicks/visitors/bots", in the order of the values.
func formatFigures(all []figure) (lines []string) {
	for _, f := range all {
		value := cmp.Or(f.Value, "-")
		if f.IsOther {
			value = "(other)"
		}
		lines = append(lines, fmt.Sprintf("%s %d/%d/%d", value, f.Clicks, f.Visitors, f.Bots))
	}
	slices.Sort(lines)
	return lines
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

		var got struct {
			Link struct {
				Stats, People figures
				Clicks        struct {
					Edges []struct {
						Cursor string
						Node   map[string]any
					}
					PageInfo struct{ HasNextPage bool }
				}
			}
			Workspace struct{ Stats, Second figures }
		}
		ask := func() bool {
			who.must(t, &got, `query ($id: ID!, $w: ID!) {
				link(by: {id: $id}) {
					stats { ...figures }
					people: stats(filter: {bots: false, device: "desktop"}) { ...figures }
					clicks(first: 20) { edges { cursor node { link { id } at status bot referrer country device
					browser os
					language
						utmSource utmMedium utmCampaign utmTerm utmContent } } pageInfo { hasNextPage } }
				}
				workspace(by: {id: $w}) { stats { ...figures } second: stats(tag: "second") { ...figures } }
			}`+statsFields, map[string]any{"id": l.ID, "w": who.workspaceID})
			return got.Workspace.Stats.Clicks >= 10
		}
		polltest.Until(t, "the clicks are counted", ask)
		ask() // again: parts of the first response were read before the clicks were written
		stats := got.Link.Stats
		if stats.Clicks != 9 || stats.Visitors != 3 || stats.Bots != 3 || got.Workspace.Stats.Clicks != 10 ||
			got.Workspace.Stats.Visitors != 4 {
			t.Errorf("%d clicks, %d visitors, %d bots; of the workspace %d clicks, %d visitors", stats.Clicks,
				stats.Visitors,
				stats.Bots,
				got.Workspace.Stats.Clicks, got.Workspace.Stats.Visitors)
		}
		for name, one := range map[string]struct {
			got  []figure
			want []string
		}{
			"referrer": {stats.Referrer, []string{"- 7/1/3", "com.slack 1/1/0", "news.example 1/1/0"}},
			// Loopback has no country.
			"country":  {stats.Country, []string{"- 9/3/3"}},
			"device":   {stats.Device, []string{"- 4/0/2", "desktop 4/2/1", "mobile 1/1/0"}},
			"browser":  {stats.Browser, []string{"- 4/0/2", "Chrome 4/2/1", "Safari 1/1/0"}},
			"os":       {stats.OS, []string{"- 4/0/2", "Windows 4/2/1", "iOS 1/1/0"}},
			"language": {stats.Language, []string{"- 7/1/3", "fr 1/1/0", "ne 1/1/0"}},
			"source":   {stats.Source, []string{"- 2/0/0", "newsletter 1/1/0", "overridden 6/2/3"}},
			"medium":   {stats.Medium, []string{"- 2/0/0", "mail 7/3/3"}},
			"campaign": {stats.Campaign, []string{"- 8/2/3", "früh & spät 1/1/0"}},
			"term":     {stats.Term, []string{"- 9/3/3"}},
			"content":  {stats.Content, []string{"- 9/3/3"}},
			"status":   {stats.Status, []string{"302 9/3/3"}},
			"link":     {stats.Link, []string{l.ID + " 9/3/3"}},
			"links":    {got.Workspace.Stats.Link, []string{l.ID + " 9/3/3", other.ID + " 1/1/0"}},
			"tagged":   {got.Workspace.Second.Link, []string{other.ID + " 1/1/0"}},
			"people":   {got.Link.People.Referrer, []string{"- 2/1/0", "news.example 1/1/0"}},
		} {
			t.Run(name, func(t *testing.T) {
				slices.Sort(one.want)
				if diff := gocmp.Diff(one.want, formatFigures(one.got)); diff != "" {
					t.Errorf("by %s (-want +got):\n%s", name, diff)
				}
			})
		}
		for _, one := range []figures{stats, got.Link.People, got.Workspace.Stats, got.Workspace.Second} {
			var clicks, visitors, bots int64
			for _, p := range one.Series {
				clicks, visitors, bots = clicks+p.Clicks, visitors+p.Visitors, bots+p.Bots
			}
			if clicks != one.Clicks || visitors != one.Visitors || bots != one.Bots {
				t.Errorf("the series adds up to %d, %d, %d, want %d, %d, %d", clicks, visitors, bots, one.Clicks,
					one.Visitors,
					one.Bots)
			}
			if one.Latency == nil || one.Latency.MeanMs <= 0 || one.Latency.P50Ms > one.Latency.P99Ms {
				t.Errorf("the latency is %+v", one.Latency)
			}
			for _, f := range one.Link {
				if f.Link == nil || f.Link.ID != f.Value {
					t.Errorf("the link of %q is %+v", f.Value, f.Link)
				}
			}
		}
		edges := got.Link.Clicks.Edges
		if len(edges) != 9 || got.Link.Clicks.PageInfo.HasNextPage {
			t.Fatalf("%d clicks one by one", len(edges))
		}
		known := func(i int) map[string]any {
			node := got.Link.Clicks.Edges[len(edges)-1-i].Node
			for _, always := range []string{"at", "link", "status"} {
				delete(node, always)
			}
			return node
		}
		first := map[string]any{"bot": false, "referrer": "news.example", "country": nil, "device": "desktop",
			"browser": "Chrome", "os": "Windows", "language": "ne",
			"utmSource": "newsletter", "utmMedium": "mail", "utmCampaign": "früh & spät", "utmTerm": nil,
			"utmContent": nil}
		if diff := gocmp.Diff(first, known(0)); diff != "" {
			t.Errorf("the first click (-want +got):\n%s", diff)
		}
		for _, i := range []int{4, 5} {
			for name, value := range known(i) {
				if value != nil && value != false {
					t.Errorf("a visitor who opted out: got %s %v, want none", name, value)
				}
			}
		}
	})
}
