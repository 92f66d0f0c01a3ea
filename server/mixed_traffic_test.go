package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// mixedRequests is the number of requests of the mixed traffic.
var mixedRequests = suitetest.Size(2000, 100_000)

// trafficLink is a link under mixed traffic, with the responses that its clients saw.
type trafficLink struct {
	id, path, kind string
	allowed        string // the statuses that a GET may have
	maxClicks      int64
	fallback       string // the location of redirects that consume nothing
	isUsedUp       bool   // all clicks of its capped targets are granted at the end
	destinations   map[string]*trafficTarget
	losesCharges   bool // Redis may have lost leases, or have them in another month

	seen   atomic.Int64 // redirects to a destination that a client received for a GET
	unsure atomic.Int64 // GETs that were sent, perhaps by a retry of the client, and ended without a response
}

// newTrafficLink returns a link whose only destination is its own URL.
func newTrafficLink(made linkView, path, kind, allowed string) *trafficLink {
	return &trafficLink{
		id: made.ID, path: path, kind: kind, allowed: allowed,
		destinations: map[string]*trafficTarget{made.OriginalURL: {}},
	}
}

// trafficTarget is a destination of a link: its own URL, or a target of a rule.
type trafficTarget struct {
	id        string // empty for the link's own URL
	maxClicks int64

	seen, seenPrivate atomic.Int64 // redirects that other and private visitors received for a GET
}

// TestMixedTraffic_CountsEachRedirectOnce sends requests of all kinds of visitors for all kinds of
// links to all nodes, and kills a node halfway. For each link, redirects to a destination equal clicks,
// monthly hits and grants. For each target, they equal grants and, without private visitors, clicks.
// Fallback redirects consume nothing.
func TestMixedTraffic_CountsEachRedirectOnce(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nextMonth(t)
		quota := max(20, mixedRequests/100)
		nodes := startAll(t, b.inProcesses(), b.nodes, fmt.Sprint("LINKFORGE_HIT_QUOTA=", quota))
		links := trafficLinks(t, b, nodes[0], int64(quota))

		var sent atomic.Int64
		var all sync.WaitGroup
		killed := make(chan struct{})
		client := newClient()
		for range 32 {
			all.Go(func() {
				for n := sent.Add(1); n <= int64(mixedRequests); n = sent.Add(1) {
					if n == int64(mixedRequests)/2 {
						close(killed)
					}
					l := links[rand.IntN(len(links))]
					for isAway(l.request(t, client, nodes[rand.IntN(len(nodes))].address)) {
						_ = poll.Wait(t.Context(), pollEvery) // the node is restarting, or busy
					}
				}
			})
		}
		<-killed
		nodes[0].killAndRestart()
		all.Wait()
		polltest.Until(t, "the click log of the killed process is ingested", func() bool {
			var seen int64
			for _, l := range links {
				seen += l.seen.Load()
			}
			return b.countClicks(t, "") >= seen
		})
		for _, node := range nodes {
			node.stop()
		}
		var seen, unsure, clicks int64
		for _, l := range links {
			clicks += l.check(t, b)
			seen += l.seen.Load()
			unsure += l.unsure.Load()
		}
		t.Logf("%d requests: %d redirects seen, %d GETs without a response, %d clicks", mixedRequests, seen, unsure,
			clicks)
	})
}

// trafficKind describes links under mixed traffic.
type trafficKind struct {
	name      string
	owner     tenant
	maxClicks int64
	allowed   string
	suffix    string // of the requested path
	routing   map[string]any
	isExpired bool
	isPending bool
	isUsedUp  bool // its capped targets get more visitors than their maximum
}

// trafficKinds returns the kinds of links. The workspace small has a monthly quota that the traffic
// uses up, and the workspace large has none that matters. "{}" in a URL is replaced by that of the
// link.
func trafficKinds(small, large tenant, quota int64) []trafficKind {
	type fields = map[string]any
	rule := func(stickiness string, targets ...any) fields {
		return fields{"targets": targets, "stickiness": stickiness}
	}
	first, second := fields{"url": "{}/first"}, fields{"url": "{}/second"}
	capped := func(url string, maxClicks int64) fields { return fields{"url": url, "maxClicks": maxClicks} }
	endedURL := fields{"endedUrl": "{}/fallback"}
	return []trafficKind{
		{name: "unlimited", owner: large, allowed: "302"},
		{name: "limited", owner: large, maxClicks: quota * 2, allowed: "302 410"},
		{name: "over quota", owner: small, allowed: "302 429"},
		{name: "exhausted below its quota", owner: small, maxClicks: quota - 10, allowed: "302 410"},
		{name: "over quota below its limit", owner: small, maxClicks: quota + 10, allowed: "302 410 429"},
		{name: "expired", owner: small, allowed: "410", isExpired: true},
		{name: "unknown code", owner: large, allowed: "404", suffix: "-unknown"},
		{name: "refused path", owner: large, allowed: "404", suffix: "/refused"},
		{name: "capped target", owner: large, allowed: "302", isUsedUp: true, routing: fields{"rules": []any{
			rule("NONE", capped("{}/first", quota)), rule("NONE", second),
		}}},
		{name: "drawn capped targets", owner: large, allowed: "302", isUsedUp: true, routing: fields{"rules": []any{
			rule("VISITOR", capped("{}/first", quota/2), capped("{}/second", quota/4)),
		}}},
		{name: "capped target of a limited link", owner: small, maxClicks: quota + 10, allowed: "302 410 429",
			routing: fields{"rules": []any{
				rule("NONE", capped("{}/first", quota/2)), rule("NONE", second),
			}}},
		{name: "capped target above the limit of its link", owner: large, maxClicks: quota, allowed: "302 410",
			routing: fields{"rules": []any{rule("NONE", capped("{}/first", quota*2))}}},
		{name: "cookie", owner: large, allowed: "302", routing: fields{"rules": []any{
			rule("COOKIE", first, second),
		}}},
		{name: "password", owner: large, allowed: "302 200",
			routing: fields{"gate": fields{"password": "correct horse"}}},
		{name: "bots", owner: large, allowed: "302 200", routing: fields{"bots": "CONFIRM"}},
		{name: "pending with a fallback", owner: small, allowed: "302", isPending: true,
			routing: fields{"pendingUrl": "{}/fallback"}},
		{name: "expired with a fallback", owner: small, allowed: "302", isExpired: true, routing: endedURL},
		{name: "exhausted with a fallback", owner: small, maxClicks: quota - 10, allowed: "302", routing: endedURL},
		{name: "over quota with a fallback", owner: small, allowed: "302 429", routing: endedURL},
	}
}

// trafficLinks creates two links of each kind.
func trafficLinks(t *testing.T, b backend, s *server, quota int64) (links []*trafficLink) {
	t.Helper()
	small, large := s.tenant(t, "small"), s.tenant(t, "large")
	execute(t, b, "UPDATE workspaces SET hit_quota = 1000000 WHERE id = ?", large.workspaceID)
	for _, kind := range trafficKinds(small, large, quota) {
		for n := range 2 {
			links = append(links, kind.create(t, b, n))
		}
	}
	return links
}

// create creates the nth link of the kind.
func (k *trafficKind) create(t *testing.T, b backend, n int) *trafficLink {
	t.Helper()
	own := fmt.Sprintf("https://example.com/%s/%d", strings.ReplaceAll(k.name, " ", "-"), n)
	more := []any{"strategy", "RANDOM"}
	if k.maxClicks > 0 {
		more = append(more, "maxClicks", k.maxClicks)
	}
	if k.isPending {
		more = append(more, "startsAt", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}
	made := k.owner.shorten(t, own, more...).Link
	l := newTrafficLink(made, "/"+k.owner.slug+"/"+made.Code+k.suffix, k.name, k.allowed+" 503")
	if l.maxClicks, l.isUsedUp = k.maxClicks, k.isUsedUp; k.maxClicks > 0 {
		l.allowed += " 403" // to prefetches
	}
	if k.routing != nil {
		l.fallback = own + "/fallback"
		l.route(t, k.owner, inLink(k.routing, own).(map[string]any))
	}
	if k.isExpired {
		execute(t, b, "UPDATE links SET expires_at = ? WHERE id = ?", db.Instant(time.Now().Add(-time.Hour)), l.id)
	}
	return l
}

// inLink returns a copy of a part of a routing with the URL of a link in place of "{}".
func inLink(part any, own string) any {
	switch part := part.(type) {
	case string:
		return strings.ReplaceAll(part, "{}", own)
	case []any:
		all := slices.Clone(part)
		for i := range all {
			all[i] = inLink(all[i], own)
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for name := range part {
			all[name] = inLink(part[name], own)
		}
		return all
	}
	return part
}

// route sets the routing of the link, and stores the ids of its targets.
func (l *trafficLink) route(t *testing.T, owner tenant, routing map[string]any) {
	t.Helper()
	routed := owner.route(t, l.id, routing)
	rules, _ := routing["rules"].([]any)
	for i := range rules {
		targets := rules[i].(map[string]any)["targets"].([]any)
		for k := range targets {
			fields := targets[k].(map[string]any)
			target := &trafficTarget{id: routed.Routing.Rules[i].Targets[k].ID}
			target.maxClicks, _ = fields["maxClicks"].(int64)
			l.destinations[fields["url"].(string)] = target
		}
	}
}

// What request returns instead of a status.
const (
	notListening = -1
	noResponse   = 0
)

// isAway reports whether a request has consumed nothing, so that its visitor comes again.
func isAway(status int) bool {
	return status == notListening || status == http.StatusServiceUnavailable
}

// trafficHeaders are added to the user agent of a browser, or replace it. Only the last two are of
// private visitors.
var trafficHeaders = [...][2]string{
	{"Accept", "*/*"}, {"Accept-Language", "de"}, {"Sec-Purpose", "prefetch"}, {"Purpose", "prefetch"},
	{"X-Link-Password", "correct horse"}, {"User-Agent", googlebot}, {"DNT", "1"}, {"Sec-GPC", "1"},
}

// request sends one GET or, now and then, a HEAD, which consumes nothing. It returns the status.
func (l *trafficLink) request(t *testing.T, client *http.Client, address string) (status int) {
	method := http.MethodGet
	if rand.IntN(5) == 0 {
		method = http.MethodHead
	}
	r, err := http.NewRequest(method, "http://"+address+l.path, nil)
	if err != nil {
		t.Error(err)
		return noResponse
	}
	header := rand.IntN(len(trafficHeaders))
	r.Header.Set("User-Agent", fmt.Sprint(desktopChrome, " ", rand.IntN(20)))
	r.Header.Set(trafficHeaders[header][0], trafficHeaders[header][1])
	var sent atomic.Int64 // the client sends a GET again if the connection ends before a response
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent.Add(1) }}
	response, err := client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	if err == nil {
		sent.Add(-1)
	}
	if method == http.MethodGet {
		l.unsure.Add(max(0, sent.Load()))
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return notListening
	}
	if err != nil {
		return noResponse
	}
	l.receive(t, response, method == http.MethodHead, header >= len(trafficHeaders)-2)
	return response.StatusCode
}

// receive counts a response.
func (l *trafficLink) receive(t *testing.T, response *http.Response, isHead, isPrivate bool) {
	if cookie := response.Header.Get("Set-Cookie"); cookie != "" && (isHead || isPrivate) {
		t.Errorf("%s: the cookie %q for HEAD (%t) or a private visitor (%t)", l.kind, cookie, isHead, isPrivate)
	}
	if isHead {
		return
	}
	if !strings.Contains(l.allowed, fmt.Sprint(response.StatusCode)) {
		t.Errorf("%s: status %d, want one of %s", l.kind, response.StatusCode, l.allowed)
	}
	if response.StatusCode != http.StatusFound {
		return
	}
	location := response.Header.Get("Location")
	if location == l.fallback {
		return
	}
	target := l.destinations[location]
	if target == nil {
		t.Errorf("%s: location %q", l.kind, location)
		return
	}
	l.seen.Add(1)
	if isPrivate {
		target.seenPrivate.Add(1)
	} else {
		target.seen.Add(1)
	}
}

// check compares the counts of a link after all nodes have stopped, and returns its clicks.
func (l *trafficLink) check(t *testing.T, b backend) int64 {
	t.Helper()
	total, rollups, rows := clicksOf(t, b, l.id)
	seen, unsure := l.seen.Load(), l.unsure.Load()
	if total != rollups || total != rows || total < seen || total > seen+unsure {
		t.Errorf("%s: %d clicks in total, %d in rollups and %d rows, of %d redirects seen and %d GETs without a "+
			"response",
			l.kind, total, rollups, rows, seen, unsure)
	}
	if hits := chargedOf(t, b, l.id); !l.losesCharges && hits != total {
		t.Errorf("%s: %d hits are charged, want the %d clicks", l.kind, hits, total)
	}
	granted, leases := numberOf(t, b, "SELECT coalesce(sum(granted), 0) FROM grants WHERE subject_id = ?", l.id),
		openLeases(t, b, l.id)
	if l.maxClicks > 0 && (granted < total || granted > total+unsure) || leases != 0 && !l.losesCharges {
		t.Errorf("%s: %d of %d clicks are granted and %d leases are open, want %d, up to %d more, and 0", l.kind,
			granted,
			l.maxClicks, leases, total, unsure)
	}
	for location, target := range l.destinations {
		if target.id != "" {
			target.check(t, b, l.kind+": "+location, unsure, l.isUsedUp)
		}
	}
	return total
}

// check compares the counts of a target after all nodes have stopped.
func (c *trafficTarget) check(t *testing.T, b backend, name string, unsure int64, isUsedUp bool) {
	t.Helper()
	seen, private := c.seen.Load(), c.seenPrivate.Load()
	clicks := numberOf(t, b, "SELECT count(*) FROM clicks WHERE target_id = ?", c.id)
	if clicks < seen || clicks > seen+unsure {
		t.Errorf("%s: %d clicks, of %d redirects seen and %d GETs without a response", name, clicks, seen, unsure)
	}
	if c.maxClicks == 0 {
		return
	}
	granted := numberOf(t, b, "SELECT granted FROM grants WHERE subject_id = ?", c.id)
	if granted < seen+private || granted > min(seen+private+unsure, c.maxClicks) {
		t.Errorf("%s: %d of %d clicks are granted, want %d of private and %d of other visitors, and at most %d more",
			name,
			granted, c.maxClicks, private, seen, unsure)
	}
	if isUsedUp && granted != c.maxClicks {
		t.Errorf("%s: %d clicks are granted, want %d", name, granted, c.maxClicks)
	}
}

// numberOf returns the number that a query selects.
func numberOf(t *testing.T, b backend, query string, args ...any) (n int64) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	if err := d.NewRaw(query, args...).Scan(db.AsSystem(t.Context()), &n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
