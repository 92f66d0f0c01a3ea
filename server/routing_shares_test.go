package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
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
			targets = append(targets,
				map[string]any{"name": name, "url": "https://example.com/" + name, "share": share})
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
	l.who.must(l.t, &data,
		`mutation ($in: UpdateLinkInput!) { updateLink(input: $in) { errors { code message field } } }`,
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

// sharedServers start servers that read the addresses of visitors from a header.
func sharedServers(t *testing.T, b backend) []*server {
	t.Helper()
	return startAll(t, b, b.nodes, "LINKFORGE_TRUSTED_PROXIES=127.0.0.1", "LINKFORGE_HIT_QUOTA=1000000000")
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

// TestStickiness_CookieOutlivesTheNetwork divides visitors by their networks, and then by cookies:
// it changes address and agent of visitors with cookies, and then removes the target that some of
// them have.
func TestStickiness_CookieOutlivesTheNetwork(t *testing.T) {
	t.Parallel()
	const n = 60
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := sharedServers(t, b)
		l := share(t, nodes, nodes[0].tenant(t, "remembered"), "VISITOR", 10, 10, 5)
		all, targets := sharedVisitors(n), make([]string, n)
		found := slices.Sorted(slices.Values(l.followAll(all)))
		if got := slices.Compact(found); !slices.Equal(got, []string{"A", "B", "C"}) {
			t.Errorf("visitors get %q", got)
		}

		l.change(308, "COOKIE", 10, 10, 5)
		inParallel(n, func(i int) {
			var got answer
			targets[i], got = l.follow(all[i], nodes[i%len(nodes)])
			all[i].cookie, _, _ = strings.Cut(got.header.Get("Set-Cookie"), ";")
			all[i].address, all[i].agent = fmt.Sprint("203.0.113.", i), fmt.Sprint(desktopChrome, " ", i)
		})
		for i, target := range l.followAll(all) {
			if target != targets[i] {
				t.Errorf("%+v gets %s, its cookie holds %s", all[i], target, targets[i])
			}
		}
		l.wantBots("A") // the first among equals

		l.change(307, "COOKIE", 10, 10, -1)
		inParallel(n, func(i int) {
			target, got := l.follow(all[i], nodes[i%len(nodes)])
			isRemoved := targets[i] == "C"
			if !isRemoved && target != targets[i] || target == "C" || isRemoved && got.header.Get("Set-Cookie") == "" {
				t.Errorf("%+v had %s, and gets %s with %v after the removal of C", all[i], targets[i], target,
					got.header)
			}
		})
	})
}
