package main

import (
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestServer_RefusesOwnHostsInEveryField covers each field of a URL, and each way to spell the instance in one of
// them: by its public host, a loopback address, a name of LINKFORGE_HOSTS, a verified domain, and a pending one
// of the workspace.
func TestServer_RefusesOwnHostsInEveryField(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := startAll(t, b, b.nodes, "LINKFORGE_PUBLIC_URL=https://go.example.com",
			"LINKFORGE_HOSTS=internal.example")[0]
		who := s.tenant(t, "circles")
		domainID := who.verifiedDomain(t, b, "circles.example.com")
		s.tenant(t, "neighbor").verifiedDomain(t, b, "neighbor.example.com")
		l := who.shorten(t, "https://example.com/", "strategy", "RANDOM").Link
		_, port, err := net.SplitHostPort(s.address)
		must.NoError(t, err)
		create := func(fields ...any) []userError {
			return must.Value(who.create("https://example.com/", append(fields, "strategy", "RANDOM")...))(t).Errors
		}
		fields := map[string]func(url string) []userError{
			"url of a link": func(url string) []userError { return create("url", url) },
		}
		for _, field := range []string{"notFoundUrl", "endedUrl"} {
			fields[field+" of a workspace"] = func(url string) []userError {
				return who.refusal(t, "updateWorkspace", "UpdateWorkspaceInput",
					map[string]any{"id": who.workspaceID, field: url})
			}
		}
		for _, field := range []string{"rootUrl", "notFoundUrl", "endedUrl", "faviconUrl"} {
			fields[field+" of a domain"] = func(url string) []userError {
				return who.refusal(t, "updateDomain", "UpdateDomainInput", map[string]any{"id": domainID, field: url})
			}
		}
		target := func(url string) map[string]any { return map[string]any{"url": url} }
		for field, routing := range map[string]func(url string) map[string]any{
			"routing.pendingUrl": func(url string) map[string]any { return map[string]any{"pendingUrl": url} },
			"routing.endedUrl":   func(url string) map[string]any { return map[string]any{"endedUrl": url} },
			"routing.card.imageUrl": func(url string) map[string]any {
				image := "https" + url[strings.Index(url, ":"):]
				return map[string]any{"card": map[string]any{"title": "A title", "imageUrl": image}}
			},
			"routing.rules.1.targets.2.url": func(url string) map[string]any {
				return map[string]any{"rules": []any{
					map[string]any{"targets": []any{target("https://example.com/a")}},
					map[string]any{"targets": []any{target("https://example.com/b"), target("https://example.com/c"),
						target(url)}},
				}}
			},
		} {
			fields[field+" of a new link"] = func(url string) []userError { return create("routing", routing(url)) }
			fields[field+" of a link"] = func(url string) []userError {
				return who.refusal(t, "updateLink", "UpdateLinkInput",
					map[string]any{"id": l.ID, "routing": routing(url)})
			}
		}
		const pending = "https://PENDING.example.com.:8443/x"
		who.claim(t, map[string]any{"host": "pending.example.com"})
		spellings := []string{
			"https://go.example.com/x", "http://GO.example.com.:PORT/x", "http://127.0.0.1:PORT/x",
			"https://internal.example/x", "http://neighbor.example.com:PORT/x", "https://go.example.com:9443/x",
		}
		for i, name := range slices.Sorted(maps.Keys(fields)) {
			path, _, _ := strings.Cut(name, " ")
			refuses(t, name+", a pending domain", fields[name](pending), "UNSAFE_URL", path)
			url := strings.ReplaceAll(spellings[i%len(spellings)], "PORT", port)
			refuses(t, name+", "+url, fields[name](url), "UNSAFE_URL", path)
			if refused := fields[name]("https://other.example/" + path); len(refused) > 0 {
				t.Errorf("%s refuses another host: %+v", name, refused)
			}
		}
	})
}
