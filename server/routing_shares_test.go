package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/polltest"
)

// sharedLink is a link with one rule, whose targets are named A, B and so on.
type sharedLink struct {
	t     *testing.T
	nodes []*server
	who   tenant
	view  linkView
	path  string
}

// share creates a link whose visitors are divided by the shares.
func share(t *testing.T, nodes []*server, who tenant, stickiness string, shares ...int) *sharedLink {
	t.Helper()
	l := &sharedLink{t: t, nodes: nodes, who: who}
	l.view = who.shorten(t, "https://example.com/own", "strategy", "RANDOM", "redirectStatus", 302, "routing",
		sharedRouting(stickiness, shares)).Link
	l.path = l.view.path(nodes[0])
	return l
}

// sharedRouting has a target for each share. A negative share has none.
func sharedRouting(stickiness string, shares []int) map[string]any {
	var targets []any
	for i, share := range shares {
		if name := string(rune('A' + i)); share >= 0 {
			targets = append(targets, map[string]any{"name": name, "url": "https://example.com/" + name, "share": share})
		}
	}
	return map[string]any{"rules": []any{
		map[string]any{"name": "divided", "stickiness": stickiness, "targets": targets},
	}}
}

// change changes the shares, and waits until each node applies the change: the redirect status, which
// is changed at the same time, shows it.
func (l *sharedLink) change(status int, stickiness string, shares ...int) {
	l.t.Helper()
	var data struct{ UpdateLink struct{ Errors []userError } }
	l.who.must(l.t, &data, `mutation ($in: UpdateLinkInput!) { updateLink(input: $in) { errors { code message field } } }`,
		map[string]any{"in": map[string]any{
			"id": l.view.ID, "redirectStatus": status, "routing": sharedRouting(stickiness, shares),
		}})
	if len(data.UpdateLink.Errors) > 0 {
		l.t.Fatalf("%+v", data.UpdateLink.Errors)
	}
	for _, s := range l.nodes {
		polltest.Until(l.t, "the node applies the shares", func() bool {
			a, err := s.get(l.path)
			return err == nil && a.status == status
		})
	}
}

// sharedVisitor is a network and an agent.
type sharedVisitor struct{ address, agent, cookie string }

// sharedVisitors returns distinct visitors, some with IPv6 addresses.
func sharedVisitors(n int) (all []sharedVisitor) {
	for i := range n {
		v := sharedVisitor{address: fmt.Sprintf("198.%d.%d.%d", 18+i>>16, i>>8&255, i&255), agent: desktopChrome}
		switch i % 3 {
		case 1:
			v.agent = iPhone
		case 2:
			v.address = fmt.Sprintf("2001:db8:%x:%x::1", i>>8, i&255)
		}
		all = append(all, v)
	}
	return all
}

// follow returns the name of the visitor's target at a node.
func (l *sharedLink) follow(v sharedVisitor, node *server) (target string, got answer) {
	headers := []string{"User-Agent", v.agent, "X-Forwarded-For", v.address}
	if v.cookie != "" {
		headers = append(headers, "Cookie", v.cookie)
	}
	got, err := node.get(l.path, headers...)
	if err != nil {
		l.t.Error(err)
		return "", got
	}
	target, ok := strings.CutPrefix(got.header.Get("Location"), "https://example.com/")
	if !ok || len(target) != 1 {
		l.t.Errorf("%+v: %d %q", v, got.status, got.header.Get("Location"))
	}
	return target, got
}

// followAll returns the targets of visitors. Each visits all nodes, which must agree.
func (l *sharedLink) followAll(all []sharedVisitor) []string {
	targets := make([]string, len(all))
	inParallel(len(all), func(i int) {
		for k, s := range l.nodes {
			target, _ := l.follow(all[i], s)
			if k > 0 && target != targets[i] {
				l.t.Errorf("nodes give %+v the targets %s and %s", all[i], targets[i], target)
			}
			targets[i] = target
		}
	})
	return targets
}

// wantShares tests three targets by the shares. Right shares fail once in a million tests: the
// probability that χ² with two degrees of freedom exceeds x is exp(-x/2).
func wantShares(t *testing.T, targets []string, shares ...int) {
	t.Helper()
	counts, total := map[string]int{}, 0
	for _, target := range targets {
		counts[target]++
	}
	for _, share := range shares {
		total += share
	}
	sum := 0.0
	for i, share := range shares {
		want := float64(len(targets)*share) / float64(total)
		deviation := float64(counts[string(rune('A'+i))]) - want
		sum += deviation * deviation / want
	}
	t.Logf("%d visitors by %v: %v, χ² %.2f", len(targets), shares, counts, sum)
	if bound := 2 * math.Log(1e6); sum > bound || len(shares) != 3 {
		t.Errorf("%v are not divided by %v: χ² is %.2f, more than %.2f", counts, shares, sum, bound)
	}
}

// sharedServers start servers that read the addresses of visitors from a header.
func sharedServers(t *testing.T, b backend) []*server {
	t.Helper()
	return startAll(t, b, b.nodes, "LINKFORGE_TRUSTED_PROXIES=127.0.0.1", "LINKFORGE_HIT_QUOTA=1000000000")
}

// TestStickiness_VisitorMovesOnlyByShares has each visitor follow a link on every node, before and
// after changes of the shares.
func TestStickiness_VisitorMovesOnlyByShares(t *testing.T) {
	t.Parallel()
	const n = 400
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := sharedServers(t, b)
		l := share(t, nodes, nodes[0].tenant(t, "divided"), "VISITOR", 10, 10, 5)
		all := sharedVisitors(n)
		before := l.followAll(all)
		wantShares(t, before, 10, 10, 5)
		l.wantNetworks(all[:min(n, 60)], before)
		l.wantBots("A") // the first among equals

		l.change(307, "VISITOR", 10, 20, 5)
		raised, moved := l.followAll(all), 0
		for i, target := range raised {
			if target != before[i] {
				moved++
			}
			if target != before[i] && target != "B" {
				t.Errorf("%+v moved from %s to %s when the share of B was raised", all[i], before[i], target)
			}
		}
		t.Logf("%d visitors moved into B", moved)
		wantShares(t, raised, 10, 20, 5)
		l.wantBots("B")

		l.change(308, "VISITOR", 10, 20, -1)
		for i, target := range l.followAll(all) {
			if target != raised[i] && raised[i] != "C" || target == "C" {
				t.Errorf("%+v moved from %s to %s when C was removed", all[i], raised[i], target)
			}
		}
	})
}

// wantNetworks checks that visitors with IPv6 addresses of one network have one target.
func (l *sharedLink) wantNetworks(all []sharedVisitor, targets []string) {
	l.t.Helper()
	for i, v := range all {
		if network, ok := strings.CutSuffix(v.address, "::1"); ok {
			v.address = network + ":1:2:3:4"
			if target, _ := l.follow(v, l.nodes[i%len(l.nodes)]); target != targets[i] {
				l.t.Errorf("%+v gets %s, and another address of its network %s", v, target, targets[i])
			}
		}
	}
}

// wantBots checks that each bot gets the target.
func (l *sharedLink) wantBots(want string) {
	l.t.Helper()
	for i := range 40 {
		bot := sharedVisitor{address: fmt.Sprint("198.51.100.", i), agent: "curl/8.10.1"}
		if got, _ := l.follow(bot, l.nodes[i%len(l.nodes)]); got != want {
			l.t.Errorf("a bot gets %s, want %s", got, want)
		}
	}
}

// TestStickiness_NoneDrawsEachVisit has one visitor follow a link often.
func TestStickiness_NoneDrawsEachVisit(t *testing.T) {
	t.Parallel()
	const n = 400
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := sharedServers(t, b)
		l := share(t, nodes, nodes[0].tenant(t, "drawn"), "NONE", 10, 20, 5)
		targets := make([]string, n)
		inParallel(n, func(i int) { targets[i], _ = l.follow(sharedVisitors(1)[0], nodes[i%len(nodes)]) })
		wantShares(t, targets, 10, 20, 5)
		l.wantBots("B")
	})
}

// TestStickiness_CookieOutlivesTheNetwork changes address and agent of visitors with cookies, and then
// removes the target that some of them have.
func TestStickiness_CookieOutlivesTheNetwork(t *testing.T) {
	t.Parallel()
	const n = 400
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := sharedServers(t, b)
		l := share(t, nodes, nodes[0].tenant(t, "remembered"), "COOKIE", 10, 10, 5)
		all, targets := sharedVisitors(n), make([]string, n)
		inParallel(n, func(i int) {
			var got answer
			targets[i], got = l.follow(all[i], nodes[i%len(nodes)])
			all[i].cookie, _, _ = strings.Cut(got.header.Get("Set-Cookie"), ";")
			all[i].address, all[i].agent = fmt.Sprint("203.0.113.", i%200), fmt.Sprint(desktopChrome, " ", i)
		})
		wantShares(t, targets, 10, 10, 5)
		for i, target := range l.followAll(all) {
			if target != targets[i] {
				t.Errorf("%+v gets %s, its cookie holds %s", all[i], target, targets[i])
			}
		}
		l.wantBots("A")

		l.change(307, "COOKIE", 10, 10, -1)
		inParallel(n, func(i int) {
			target, got := l.follow(all[i], nodes[i%len(nodes)])
			isRemoved := targets[i] == "C"
			if !isRemoved && target != targets[i] || target == "C" || isRemoved && got.header.Get("Set-Cookie") == "" {
				t.Errorf("%+v had %s, and gets %s with %v after the removal of C", all[i], targets[i], target, got.header)
			}
		})
	})
}

// TestTargetMaxClicks_AreExact has many visitors at once, on three nodes if they can share a database,
// of a target with a maximum. The next rule has the others.
func TestTargetMaxClicks_AreExact(t *testing.T) {
	t.Parallel()
	const visits = 400
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, min(3, 2*b.nodes-1))
		who := nodes[0].tenant(t, "capped")
		most := visits / 4
		l := who.shorten(t, "https://example.com/own", "strategy", "RANDOM", "routing", map[string]any{"rules": []any{
			map[string]any{"targets": []any{map[string]any{"url": "https://example.com/few", "maxClicks": most}}},
			map[string]any{"targets": []any{map[string]any{"url": "https://example.com/rest"}}},
		}}).Link
		locations := make(chan string, visits)
		for i := range visits {
			go func() {
				a, err := nodes[i%len(nodes)].visitPath(l.path(nodes[0]))
				if err != nil {
					t.Error(err)
					locations <- ""
					return
				}
				locations <- a.header.Get("Location")
			}()
		}
		got := map[string]int{}
		for range visits {
			got[<-locations]++
		}
		t.Logf("%d visits of %d nodes: %v", visits, len(nodes), got)
		if got["https://example.com/few"] != most || got["https://example.com/rest"] != visits-most {
			t.Errorf("%v, want %d of the target with a maximum", got, most)
		}
	})
}
