package main

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestServer_RefusesOwnHostsInEveryField covers each field of a URL, and each way to spell the instance in one of
// them: by its public host, a loopback address, a name of LINKFORGE_HOSTS, and a verified domain.
func TestServer_RefusesOwnHostsInEveryField(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes, "LINKFORGE_PUBLIC_URL=https://go.example.com",
			"LINKFORGE_HOSTS=internal.example")
		s := nodes[0]
		who, other := s.tenant(t, "circles"), s.tenant(t, "neighbor")
		domainID := who.verifiedDomain(t, b, "circles.example.com")
		other.verifiedDomain(t, b, "neighbor.example.com")
		l := who.shorten(t, "https://example.com/", "strategy", "RANDOM").Link
		_, port, err := net.SplitHostPort(s.address)
		must.NoError(t, err)
		inDomain := func(field string) func(url string) []userError {
			return func(url string) []userError {
				return who.refusal(t, "updateDomain", "UpdateDomainInput", map[string]any{"id": domainID, field: url})
			}
		}
		inWorkspace := func(field string) func(url string) []userError {
			return func(url string) []userError {
				return who.refusal(t, "updateWorkspace", "UpdateWorkspaceInput", map[string]any{
					"id": who.workspaceID, field: url,
				})
			}
		}
		ofURL := func(url string) []userError {
			made := must.Value(who.create(url, "strategy", "RANDOM"))(t)
			return made.Errors
		}
		routings := map[string]func(url string) map[string]any{
			"routing.pendingUrl": func(url string) map[string]any { return map[string]any{"pendingUrl": url} },
			"routing.endedUrl":   func(url string) map[string]any { return map[string]any{"endedUrl": url} },
			"routing.card.imageUrl": func(url string) map[string]any {
				image := "https" + url[strings.Index(url, ":"):]
				return map[string]any{"card": map[string]any{"title": "A title", "imageUrl": image}}
			},
			"routing.rules.1.targets.2.url": func(url string) map[string]any {
				rule := func(urls ...string) map[string]any {
					var targets []any
					for _, one := range urls {
						targets = append(targets, map[string]any{"url": one})
					}
					return map[string]any{"targets": targets}
				}
				return map[string]any{"rules": []any{
					rule("https://example.com/a"), rule("https://example.com/b", "https://example.com/c", url),
				}}
			},
		}
		fields := map[string]func(url string) []userError{
			"notFoundUrl of a workspace": inWorkspace("notFoundUrl"), "endedUrl of a workspace": inWorkspace(
				"endedUrl"),
			"rootUrl of a domain": inDomain("rootUrl"), "notFoundUrl of a domain": inDomain("notFoundUrl"),
			"endedUrl of a domain": inDomain("endedUrl"), "faviconUrl of a domain": inDomain("faviconUrl"),
			"url of a link": ofURL,
		}
		for field, routing := range routings {
			fields[field+" of a new link"] = func(url string) []userError {
				made := must.Value(who.create("https://example.com/", "strategy", "RANDOM", "routing", routing(url)))(t)
				return made.Errors
			}
			fields[field+" of a link"] = func(url string) []userError {
				return who.refusal(t, "updateLink", "UpdateLinkInput",
					map[string]any{"id": l.ID, "routing": routing(url)})
			}
		}
		for i, name := range slices.Sorted(maps.Keys(fields)) {
			set := fields[name]
			path, _, _ := strings.Cut(name, " ")
			spellings := []string{
				"https://go.example.com/x", "http://GO.example.com.:PORT/x", "http://127.0.0.1:PORT/x",
				"https://internal.example/x", "http://neighbor.example.com:PORT/x", "https://go.example.com:9443/x",
			}
			url := strings.ReplaceAll(spellings[i%len(spellings)], "PORT", port)
			refused := set(url)
			if len(refused) != 1 || refused[0].Code != "UNSAFE_URL" || strings.Join(refused[0].Field, ".") != path {
				t.Errorf("%s, %s: %+v, want UNSAFE_URL at %s", name, url, refused, path)
			}
			if refused := set(fmt.Sprintf("https://other.example/%s", path)); len(refused) > 0 {
				t.Errorf("%s refuses another host: %+v", name, refused)
			}
		}
	})
}
