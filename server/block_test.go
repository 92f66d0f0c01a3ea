package main

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestBlockDisable_FindsEveryURL covers each field with a URL: of links, rules, workspaces and domains.
// Each change has an entry in the audit log, and links without the host stay.
func TestBlockDisable_FindsEveryURL(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		s, last := nodes[0], nodes[b.nodes-1]
		who, other := s.tenant(t, "careless"), s.tenant(t, "careful")
		rules := func(url string) map[string]any {
			return map[string]any{"rules": []any{
				map[string]any{"enabled": false, "targets": []any{map[string]any{"url": "https://example.com/first"}}},
				map[string]any{"targets": []any{map[string]any{"url": "https://example.com/"},
					map[string]any{"url": url}}},
			}}
		}
		const host = "careless.example.com"
		domainID := who.verifiedDomain(t, b, host)
		const evil, good = "https://evil.example/{code}", "https://example.com/{code}"
		who.setWorkspace(t, map[string]any{"notFoundUrl": evil, "endedUrl": good})
		who.setDomain(t, domainID, map[string]any{"rootUrl": "https://evil.example/", "notFoundUrl": good,
			"endedUrl": evil, "faviconUrl": "https://evil.example/i.png"})
		other.setWorkspace(t, map[string]any{"notFoundUrl": good, "endedUrl": "https://www.evil.example/"})
		links := map[string]struct {
			url, find string
			routing   map[string]any
		}{
			"own":    {"https://evil.example/own", "https://evil.example/own", nil},
			"target": {"", "http://sub.evil.example:8080/target", rules("http://sub.evil.example:8080/target")},
			"pending": {"", "https://evil.example/pending/{code}",
				map[string]any{"pendingUrl": "https://evil.example/pending/{code}"}},
			"ended": {"", "evil.example/ended", map[string]any{"endedUrl": "https://EVIL.example/ended?{host}"}},
			"card": {"", "https://evil.example/card.png", map[string]any{"card": map[string]any{"title": "A title",
				"imageUrl": "https://evil.example/card.png"}}},
			"other": {"", "notevil.example", rules("https://notevil.example/target")},
		}
		for name, c := range links {
			url := cmp.Or(c.url, "https://example.com/"+name)
			l := who.shorten(t, url, "strategy", "CUSTOM", "customCode", name, "routing", c.routing).Link
			rows := rowsOf(t, s.env, "links", "find", c.find)
			if !slices.ContainsFunc(rows, func(row map[string]any) bool { return row["id"] == l.ID }) {
				t.Errorf("links find %s does not find the link %s: %v", c.find, name, rows)
			}
		}
		succeed(t, s.env, "block", "add", "evil.example")
		for _, want := range []string{"disabled 5 links\nremoved 5 URLs from settings of workspaces and domains\n",
			"disabled 0 links\n"} {
			same(t, "block disable", succeed(t, s.env, "block", "disable", "evil.example"), want)
		}
		for name := range links {
			status := http.StatusGone
			if name == "other" {
				status = http.StatusFound
			}
			polltest.Until(t, fmt.Sprint("the link ", name, " responds ", status), func() bool {
				return last.askHost(t, http.MethodGet, host, "/"+name).status == status
			})
		}
		for path, want := range map[string]string{"/": "", "/unknown": "https://example.com/unknown",
			"/favicon.ico": ""} {
			polltest.Until(t, path+" leads to "+want, func() bool {
				return last.askHost(t, http.MethodGet, host, path).header.Get("Location") == want
			})
		}
		refuses(t, "a blocked host", who.refusal(t, "updateDomain", "UpdateDomainInput",
			map[string]any{"id": domainID, "rootUrl": evil}), "UNSAFE_URL", "rootUrl")
		events := append(who.operatorEvents(t), other.operatorEvents(t)...)
		slices.Sort(events)
		same(t, "the audit logs", events, []string{
			`DOMAIN_UPDATED {"fields":["rootUrl","endedUrl","faviconUrl"],"host":"careless.example.com"}`,
			"LINK_DISABLED {}", "LINK_DISABLED {}", "LINK_DISABLED {}", "LINK_DISABLED {}", "LINK_DISABLED {}",
			`WORKSPACE_UPDATED {"endedUrl":null}`, `WORKSPACE_UPDATED {"notFoundUrl":null}`,
		})
		if out := succeed(t, s.env, "block", "enable", "evil.example"); !strings.HasPrefix(out, "enabled 5 links;") {
			t.Errorf("block enable: %q", out)
		}
	})
}
