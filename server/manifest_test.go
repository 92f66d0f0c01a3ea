package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// coded is a workspace whose links are those of a manifest.
type coded struct {
	tenant
	key  client
	file string
	// at is the address of the server for commands.
	at string
}

func (s *server) coded(t *testing.T) *coded {
	t.Helper()
	c := &coded{tenant: s.tenant(t, "ada"), file: filepath.Join(t.TempDir(), "links.yaml"), at: "http://" + s.address}
	c.key, _ = c.tenant.key(t, "LINKS_WRITE", "DOMAINS_READ", "MEMBERS_READ")
	return c
}

// write writes the manifest.
func (c *coded) write(t *testing.T, links ...string) {
	t.Helper()
	text := "version: 1\nowner: site\ndefaults: {tags: [site]}\nlinks:\n"
	for _, l := range links {
		text += "  - " + l + "\n"
	}
	if len(links) == 0 {
		text = strings.TrimSuffix(text, "\n") + " []\n"
	}
	must.NoError(t, os.WriteFile(c.file, []byte(text), 0o600))
}

// run runs a command of links on the manifest.
func (c *coded) run(t *testing.T, verb string, flags ...string) (out string, status int) {
	t.Helper()
	args := append([]string{"links", verb, "--server", c.at}, flags...)
	if verb != "pull" {
		args = append(args, "-f", c.file)
	}
	stdout, stderr, status := command(t, []string{"LINKFORGE_API_KEY=" + c.key.token}, "", args...)
	return stdout + stderr, status
}

// expectRun runs a command that must end with a status and print texts.
func (c *coded) expectRun(t *testing.T, status int, verb string, flags []string, texts ...string) string {
	t.Helper()
	out, got := c.run(t, verb, flags...)
	if got != status {
		t.Errorf("%s %q: exit status %d, want %d:\n%s", verb, flags, got, status, out)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("%s %q does not print %q:\n%s", verb, flags, text, out)
		}
	}
	return out
}

// update changes the link with a key by the API.
func (c *coded) update(t *testing.T, key string, fields map[string]any) {
	t.Helper()
	found := c.ask(t, `query ($w: ID!, $id: String!) {
		link(by: {external: {workspaceId: $w, externalId: $id}}) { id } }`,
		map[string]any{"w": c.workspaceID, "id": "site/" + key})
	fields["id"] = found.at("link.id")
	c.do(t, "updateLink", fields)
}

var revertCall = regexp.MustCompile(`mutation \{ revertOperation.*`)

// undo runs the calls that an apply has printed.
func (c *coded) undo(t *testing.T, out string) {
	t.Helper()
	for _, call := range revertCall.FindAllString(out, -1) {
		polltest.Until(t, "all is undone", func() bool {
			return c.ask(t, call, nil).text("revertOperation.remaining") == "0"
		})
	}
}

const (
	docsLink = `{key: docs, url: "https://example.com/docs", code: handbook, title: Documentation, note: A note, ` +
		`redirectStatus: 301}`
	blogLink = `{key: blog, url: "HTTPS://Example.com:443/blog ", strategy: DETERMINISTIC, routing: {query: {mode:
     ADD}}}`
)

// TestLinksAsCode_AppliesRestoresAndPrunes follows one manifest through its life.
func TestLinksAsCode_AppliesRestoresAndPrunes(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		c := start(t, b).coded(t)
		c.write(t, docsLink, blogLink)
		c.expectRun(t, 2, "plan", nil, `+ "site/docs"`, `title: "Documentation"`, "2 to create, 0 to update")
		c.expectRun(t, 1, "apply", nil, "--yes is needed")
		c.expectRun(t, 2, "plan", nil, "2 to create")
		c.expectRun(t, 0, "apply", []string{"--yes"}, "upsertLinks: 2 links, operation opn_", "revertOperation")
		c.expectRun(t, 0, "apply", nil, "2 unchanged")
		c.expect(t, http.StatusMovedPermanently, http.MethodGet, "/ada/handbook")

		c.update(t, "docs", map[string]any{"title": "By hand", "tags": []string{},
			"metadata": []any{map[string]any{"key": "x", "value": "\x1b[31m\u202e\u009b"}}})
		out := c.expectRun(t, 2, "plan", nil, `~ "site/docs", last changed 20`, `by "Person of ada"`, `"Documentation"`,
			`tags: null -> ["site"]`,
			`metadata: [{"key":"x","value":"\u001b[31m\u202e\u009b"}] -> [{"key":"owner","value":"site"}]`,
			"1 to update")
		if strings.ContainsAny(out, "\u202e\x1b\u009b") {
			t.Errorf("the plan controls the terminal: %q", out)
		}
		c.undo(t, c.expectRun(t, 0, "apply", []string{"--yes"}))
		c.expectRun(t, 2, "plan", []string{"--json"}, `"action": "UPDATE"`, `"field": "metadata"`,
			`"by": "Person of ada"`)
		c.expectRun(t, 0, "apply", []string{"--yes"})

		c.write(t, `{key: docs, url: "https://example.com/docs", code: handbook}`, blogLink)
		c.expectRun(t, 2, "plan", nil, `title: "Documentation" -> null`, `note: "A note" -> null`,
			"redirectStatus: 301 -> 302")
		c.expectRun(t, 0, "apply", []string{"--yes"})

		c.write(t, blogLink)
		c.expectRun(t, 0, "plan", nil, "1 links of the owner are not in the manifest")
		c.expectRun(t, 2, "plan", []string{"--prune"}, `- "site/docs"`, "1 to delete")
		out = c.expectRun(t, 0, "apply", []string{"--prune", "--yes"}, "deleteLinks: 1 links")
		c.expectRun(t, 0, "plan", []string{"--prune"}, "1 unchanged")
		c.expect(t, http.StatusNotFound, http.MethodGet, "/ada/handbook")
		c.undo(t, out)
		c.expect(t, http.StatusFound, http.MethodGet, "/ada/handbook")
	})
}

// TestLinksAsCode_ReplacesRenamesAndAdopts checks the changes that need more than an upsert.
func TestLinksAsCode_ReplacesRenamesAndAdopts(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		c := start(t, b).coded(t)
		c.shorten(t, "https://example.com/old", "strategy", "CUSTOM", "customCode", "adopted")
		c.write(t, docsLink, blogLink, `{key: adopted, url: "https://example.com/new", code: Adopted}`)
		c.expectRun(t, 2, "plan", nil, "2 to create, 1 to update", `externalId: null -> "site/adopted"`,
			`"https://example.com/old" -> "https://example.com/new"`)
		c.expectRun(t, 0, "apply", []string{"--yes"})
		c.expectRun(t, 0, "plan", nil, "3 unchanged")

		c.write(t, strings.Replace(docsLink, "key: docs", "key: manual", 1), blogLink)
		c.expectRun(t, 2, "plan", nil, `externalId: "site/docs" -> "site/manual"`, "1 to update")
		out := c.expectRun(t, 0, "apply", []string{"--yes"}, "updateLinks: 1 links")
		c.expectRun(t, 0, "plan", nil, "2 unchanged")
		c.undo(t, out)

		// Two links exchange their codes, and one has another URL.
		c.write(t, strings.Replace(docsLink, "code: handbook", "code: adopted", 1),
			`{key: blog, url: "https://example.com/blog2", strategy: DETERMINISTIC}`,
			`{key: adopted, url: "https://example.com/new", code: handbook}`)
		c.expectRun(t, 2, "plan", nil, `-/+ "site/docs"`, `code: "handbook" -> "adopted"`, "3 to replace")
		c.expectRun(t, 1, "apply", []string{"--yes"}, "nothing was changed: --replace")
		c.expectRun(t, 2, "plan", nil, "3 to replace")
		out = c.expectRun(t, 0, "apply", []string{"--yes", "--replace"})
		c.expectRun(t, 0, "plan", []string{"--prune"}, "3 unchanged")
		c.expect(t, http.StatusMovedPermanently, http.MethodGet, "/ada/adopted")
		c.expect(t, http.StatusFound, http.MethodGet, "/ada/handbook")
		c.undo(t, out)
		c.write(t, docsLink, blogLink, `{key: adopted, url: "https://example.com/new", code: adopted}`)
		c.expectRun(t, 0, "apply", []string{"--yes", "--replace"})
		c.expectRun(t, 0, "plan", []string{"--prune"}, "3 unchanged")

		c.write(t, docsLink, `{key: second, url: "https://example.com/", code: Handbook}`)
		c.expectRun(t, 1, "plan", nil, `"docs" and "second" have the same code`)
		c.write(t, docsLink, `{key: bad, url: "https://localhost:1/", foo: 1}`)
		c.expectRun(t, 1, "plan", nil, `6:45: unknown field "foo"`)
	})
}

// everyField are links that use every field that a manifest has.
var everyField = []string{
	`{key: "x: é #", url: "https://example.com/é?a=b#c", title: "301", note: "two\nlines", tags: [b, a, b, "é"],
     startsAt: 2026-01-02T03:04:05.123456789+02:00,
     expiresAt: 2126-01-02T03:04:05Z, maxClicks: 7, redirectStatus: 308, archived: true, statsPublic: true,
     metadata: [{key: b, value: "1"}, {key: a, value: ""}]}`,
	`{key: routed, url: "https://example.com/r", strategy: COUNTER, routing: {forwardPath: true, query: {mode:
     REPLACE, only: [x, "é"]}, bots: CONFIRM, qrSources: [poster, door],
     utm: {source: s, medium: m, campaign: c, term: t, content: n}, pendingUrl: "https://example.com/{code}",
     endedUrl: "https://example.com/?h={host}",
     card: {title: T, description: D, imageUrl: "HTTPS://example.com/i.png", imageAlt: A}, gate: {notice:
     "Read\nthis", confirm: true},
     rules: [{name: all, enabled: false, stickiness: COOKIE, when: [{country: [DE, ""]}, {device: [mobile]}, {os:
     [Android]}, {browser: [Firefox]}, {language: [de, pt-BR]},
     {referrer: [www.Example.com, .example.org]}, {query: {name: "a", value: ""}}, {query: {name: b}}, {during:
     {from: 2026-01-01T00:00:00.5+01:00}}, {network: ["192.0.2.1/24", "2001:DB8::1"]}],
     unless: [{bot: true}, {weekly: {timezone: Europe/Berlin, days: [MONDAY], from: "22:00", to: "06:00"}}],
     targets: [{name: one, url: "HTTPS://example.com/1", share: 3, maxClicks: 9}, {share: 0}, {}]}, {targets: [{url:
     "https://example.com/2"}]}],
     tests: [{name: t, visit: {at: 2026-05-01T00:00:00Z, country: DE, userAgent: "Mozilla/5.0 (X11; Linux x86_64;
     rv:140.0) Gecko/20100101 Firefox/140.0", acceptLanguage: de, referrer: "https://example.com/", query: "x=1",
     path: "/a", address: "192.0.2.1", private: true, gatePassed: true}, status: 302}, {visit: {gatePassed: false},
     status: 200}]}}`,
	`{key: off, url: "https://example.com/off", routing: {query: {mode: "OFF", except: [a]}, bots: REDIRECT,
     forwardPath: false, rules: [], gate: {confirm: false}}}`,
	`{key: off2, url: "https://example.com/off", routing: {query: {mode: "OFF", except: [a]}, bots: BLOCK}, tags:
     null}`,
}

// TestLinksAsCode_PullIsThePlan: a pulled manifest equals its links, which use every field. A
// second pull writes the same file.
func TestLinksAsCode_PullIsThePlan(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		c := start(t, b).coded(t)
		domainID := c.claim(t, map[string]any{"host": "own.example", "codeSpace": "OWN", "caseSensitive": false})
		folderID := c.folder(t, "F")
		c.write(t, append(slices.Clone(everyField),
			fmt.Sprintf(`{key: own, url: "https://example.com/own", code: Straße/É, domainId: %s, folderId: %s}`,
				domainID, folderID))...)
		c.expectRun(t, 0, "apply", []string{"--yes"}, "5 to create")
		c.expectRun(t, 0, "plan", nil, "5 unchanged")
		c.update(t, "off", map[string]any{"routing": map[string]any{"gate": map[string]any{"password": "a password"}},
			"title": "\u0085\u00ad- x: \"y\" #"})
		pulled, _ := c.run(t, "pull", "--owner", "site")
		must.NoError(t, os.WriteFile(c.file, []byte(pulled), 0o600))
		c.expectRun(t, 0, "plan", []string{"--prune"}, "5 unchanged")
		if !strings.Contains(pulled, `gate: {"hasPassword":true`) {
			t.Errorf("the file hides that a link has a password:\n%s", pulled)
		}
		c.run(t, "pull", "--owner", "site", "-o", c.file)
		same(t, "a second pull", readFile(t, c.file), pulled)
		must.NoError(t,
			os.WriteFile(c.file, []byte(strings.ReplaceAll(pulled, "owner: \"site\"", "owner: \"other\"")), 0o600))
		c.expectRun(t, 1, "plan", nil, "hasPassword demands a password")
		c.write(t, `{key: off, url: "https://example.com/off"}`)
		c.expectRun(t, 0, "apply", []string{"--yes"})
		pulled, _ = c.run(t, "pull", "--owner", "site")
		if !strings.Contains(pulled, `{"hasPassword":true`) {
			t.Errorf("apply has removed the password:\n%s", pulled)
		}
		none, _ := c.run(t, "pull", "--owner", "nobody")
		same(t, "links of nobody", none, "version: 1\nowner: \"nobody\"\nlinks: []\n")
	})
}

// interrupted is a proxy before a server that ends the connection after a number of mutations.
func (c *coded) interrupted(t *testing.T, left int) *httptest.Server {
	t.Helper()
	return c.behind(t, func(n int) bool { return n < left })
}

// behind is a proxy before a server that calls a function before each mutation, with its number
// from 0, and ends the connection if that returns false.
func (c *coded) behind(t *testing.T, passes func(n int) bool) *httptest.Server {
	t.Helper()
	target := must.Value(url.Parse("http://" + c.address))(t)
	var mutations atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(target)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := must.Value(readBody(r))(t)
		if strings.Contains(body, `"query":"mutation`) && !passes(int(mutations.Add(1)-1)) {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// readBody returns the body of a request, which can still be read.
func readBody(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body), err
}

// states returns fields of the links that are not deleted, by id.
func (c *coded) states(t *testing.T, fields string) map[string]string {
	t.Helper()
	got := c.ask(t, `query ($w: ID!) { workspace(by: {id: $w}) { links(first: 100) { nodes { id `+fields+` } } } }`,
		map[string]any{"w": c.workspaceID})
	all := map[string]string{}
	for _, l := range got.at("workspace.links.nodes").([]any) {
		all[fmt.Sprint(l.(map[string]any)["id"])] = fmt.Sprint(l)
	}
	return all
}

// randomLinks returns links with distinct keys, codes and URLs.
func randomLinks(r *rand.Rand) (links []string) {
	codes, urls := r.Perm(6), r.Perm(6)
	for _, key := range r.Perm(8)[:r.IntN(7)] {
		l := fmt.Sprintf("{key: k%d", key)
		switch n := r.IntN(4); {
		case n < 2 && len(codes) > 0:
			l, codes = l+fmt.Sprintf(`, url: "https://example.com/u%d", code: c%d`, r.IntN(6), codes[0]), codes[1:]
		case n == 2 && len(urls) > 0:
			l, urls = l+fmt.Sprintf(`, url: "https://example.com/d%d", strategy: DETERMINISTIC`, urls[0]), urls[1:]
		default:
			l += fmt.Sprintf(`, url: "https://example.com/u%d"`, r.IntN(6))
		}
		for _, field := range []string{"title: T", "note: N", "tags: [x, y]", "archived: true", "redirectStatus: 307",
			"metadata: [{key: a, value: b}]", "maxClicks: 5",
			"routing: {forwardPath: true}",
			`routing: {query: {mode: ADD}, rules: [{when: [{bot: true}], targets: [{url:
				"https://example.com/bot"}]}]}`} {
			if r.IntN(4) == 0 && (!strings.HasPrefix(field, "routing") || !strings.Contains(l, "routing")) {
				l += ", " + field
			}
		}
		links = append(links, l+"}")
	}
	return links
}

// edit changes or deletes a link at random. It may fail.
func (c *coded) edit(r *rand.Rand, ids []string) error {
	in := map[string]any{"id": ids[r.IntN(len(ids))]}
	var got any
	switch r.IntN(9) {
	case 0:
		return c.try(&got, `mutation ($id: ID!) { deleteLink(input: {id: $id}) { errors { code } } }`, in)
	case 1:
		return c.try(&got, `mutation ($id: ID!) { restoreLink(input: {id: $id}) { errors { code } } }`, in)
	case 2:
		in["externalId"] = nil
	case 3:
		in["externalId"] = fmt.Sprintf("site/k%d", r.IntN(8))
	case 4:
		in["metadata"] = nil
	case 5:
		in["url"] = fmt.Sprintf("https://example.com/e%d", r.IntN(6))
	case 6:
		in["routing"] = map[string]any{"bots": "BLOCK"}
	default:
		in["title"], in["tags"] = fmt.Sprint(r.IntN(100)), []string{"edited"}
	}
	return c.try(&got, `mutation ($in: UpdateLinkInput!) { updateLink(input: $in) { errors { code } } }`,
		map[string]any{"in": in})
}

// TestLinksAsCode_ConvergesDespiteEditors changes between random manifests while others edit the
// links, and ends some runs between two calls: the next run leads to the manifest, two runs at once
// do, too, and undoing a run restores the links.
func TestLinksAsCode_ConvergesDespiteEditors(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		c := start(t, b, "LINKFORGE_RATE_LIMITS=off").coded(t)
		all := []string{"--yes", "--replace", "--prune"}
		for seed := range suitetest.Size(6, 200) {
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			c.write(t, randomLinks(r)...)
			ids := slices.Sorted(maps.Keys(c.states(t, "")))
			ctx, stop := context.WithCancel(t.Context())
			var editors sync.WaitGroup
			for n := range 2 {
				r := rand.New(rand.NewPCG(uint64(seed), uint64(n+2)))
				editors.Go(func() {
					for len(ids) > 0 && ctx.Err() == nil {
						if err := c.edit(r, ids); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			direct := c.at
			if seed%2 == 1 {
				c.at = c.interrupted(t, r.IntN(4)).URL
			}
			c.run(t, "apply", all...)
			c.at = direct
			stop()
			editors.Wait()
			if seed%3 == 0 {
				var runs sync.WaitGroup
				var outs [2]string
				var failed atomic.Int64
				for n := range outs {
					runs.Go(func() {
						out, status := c.run(t, "apply", all...)
						if outs[n] = out; status != 0 && !strings.Contains(out, "changed since you read it") {
							t.Errorf("seed %d: two runs at once: exit status %d: %s", seed, status, out)
						}
						failed.Add(int64(status))
					})
				}
				if runs.Wait(); failed.Load() > 1 {
					t.Errorf("seed %d: both of two runs failed: %q", seed, outs)
				}
				c.expectRun(t, 0, "plan", []string{"--prune"})
				continue
			}
			const urls, everything = "originalUrl code", `originalUrl code externalId title tags archived redirectStatus
				metadata { key value } routing { forwardPath query { mode } rules { name targets { url } } }`
			fields := everything
			before := map[string]map[string]string{urls: c.states(t, urls), everything: c.states(t, everything)}
			out := c.expectRun(t, 0, "apply", all)
			c.expectRun(t, 0, "plan", []string{"--prune"})
			c.undo(t, out)
			if strings.Contains(out, "updateLinks:") {
				fields = urls
			}
			if diff := cmp.Diff(before[fields], c.states(t, fields)); diff != "" {
				t.Errorf("seed %d: undoing the run (-want +got): %s\n%s", seed, diff, out)
			}
			if t.Failed() {
				text, _ := os.ReadFile(c.file)
				t.Fatalf("seed %d:\n%s", seed, text)
			}
		}
	})
}

// TestLinksAsCode_KeepsLimits: calls and pages of the largest links are as small as the server demands.
func TestLinksAsCode_KeepsLimits(t *testing.T) {
	t.Parallel()
	size, env := 10, []string{"LINKFORGE_MAX_BODY=400000", "LINKFORGE_MAX_COST=2000"}
	if suitetest.Exhaustive() { // the default limits, and responses that are too large for the client
		size, env = 90, nil
	}
	c := start(t, embedded(t), env...).coded(t)
	long := func(n int) string { return strings.Repeat("é", n) }
	var pairs, rules, links []string
	for i := range 19 {
		pairs = append(pairs, fmt.Sprintf("{key: k%d, value: %s}", i, long(500)))
	}
	for i := range 50 {
		rules = append(rules, fmt.Sprintf(`{name: r%d, when: [%s], targets: [{}]}`, i,
			strings.TrimSuffix(strings.Repeat("{bot: true}, ", 20), ", ")))
	}
	for i := range size {
		links = append(links, fmt.Sprintf(`{key: k%d, url: "https://example.com/%s", note: %s, title: %s,
     metadata: [%s], routing: {rules: [%s]}}`, i, strings.Repeat("a", 8000), long(2000), long(200),
			strings.Join(pairs, ", "), strings.Join(rules, ", ")))
	}
	c.write(t, links...)
	out, status := c.run(t, "apply", "--yes")
	if calls := strings.Count(out, "upsertLinks:"); status != 0 || calls < 2 {
		t.Errorf("exit status %d, %d calls: %s", status, calls, out[max(0, len(out)-2000):])
	}
	c.expectRun(t, 0, "plan", nil, fmt.Sprint(size, " unchanged"))
}

// TestLinksAsCode_GuideIsTrue runs the manifest of the guide, with a key of the permissions that it names.
func TestLinksAsCode_GuideIsTrue(t *testing.T) {
	t.Parallel()
	c := start(t, embedded(t)).coded(t)
	page := readFile(t, filepath.Join("..", "docs", "guide", "links-as-code.md"))
	blocks := map[string]string{}
	for _, block := range fencedBlock.FindAllStringSubmatch(page, -1) {
		blocks[block[1]] = block[2]
	}
	must.NoError(t, os.WriteFile(c.file, []byte(blocks["yaml"]), 0o600))
	owner := c.key
	c.key, _ = c.tenant.key(t, "LINKS_READ")
	c.expectRun(t, 1, "plan", nil, "DOMAINS_READ")
	c.key, _ = c.tenant.key(t, "LINKS_READ", "DOMAINS_READ")
	same(t, "the printed plan", c.expectRun(t, 2, "plan", nil), blocks["text"])
	c.expectRun(t, 1, "apply", []string{"--yes"}, "LINKS_WRITE")
	c.key = owner
	inWorkflow := regexp.MustCompile(`links (plan|apply) -f /links.yaml ([^>\n]*)`).
		FindAllStringSubmatch(deployed(t, "links-as-code.yml"), -1)
	for i, run := range inWorkflow {
		c.expectRun(t, []int{2, 0}[i], run[1], strings.Fields(run[2]))
	}
	c.expectRun(t, 0, "plan", nil, "2 unchanged")
	c.update(t, "blog", map[string]any{"title": "x"})
	c.key, _ = c.tenant.key(t, "LINKS_READ", "DOMAINS_READ")
	if out := c.expectRun(t, 2, "plan", nil, `~ "site/blog", last changed 20`); strings.Contains(out, " by ") {
		t.Errorf("the plan claims to know the author:\n%s", out)
	}
}

// TestLinksAsCode_StopsAtChangesAfterThePlan: a run neither replaces a link that was changed since,
// nor continues after a conflict.
func TestLinksAsCode_StopsAtChangesAfterThePlan(t *testing.T) {
	t.Parallel()
	c := start(t, embedded(t)).coded(t)
	direct := c.at
	c.write(t, docsLink)
	c.expectRun(t, 0, "apply", []string{"--yes"})
	c.write(t, strings.Replace(docsLink, "code: handbook", "code: other", 1))
	c.at = c.behind(t, func(int) bool {
		c.update(t, "docs", map[string]any{"title": "changed meanwhile"})
		return true
	}).URL
	c.expectRun(t, 1, "apply", []string{"--yes", "--replace"}, "changed since you read it")
	c.at = direct
	c.expect(t, http.StatusMovedPermanently, http.MethodGet, "/ada/handbook")
	c.expectRun(t, 2, "plan", nil, `title: "changed meanwhile" -> "Documentation"`, `code: "handbook" -> "other"`)

	c.write(t, blogLink)
	c.at = c.behind(t, func(n int) bool {
		if n == 0 {
			c.do(t, "upsertLink", map[string]any{"workspaceId": c.workspaceID, "link": map[string]any{
				"externalId": "crm/1", "url": "https://example.com/blog", "strategy": "DETERMINISTIC"}})
		}
		return true
	}).URL
	out := c.expectRun(t, 1, "apply", []string{"--yes", "--prune"}, `"site/blog": `)
	c.expect(t, http.StatusMovedPermanently, http.MethodGet, "/ada/handbook")
	if strings.Contains(out, "deleteLinks:") {
		t.Errorf("the run continued: %s", out)
	}
}
