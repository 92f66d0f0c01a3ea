package main

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// recordedAgents returns the user agents in a file of package visitor.
func recordedAgents(t *testing.T, file string) []string {
	t.Helper()
	text := must.Value(os.ReadFile("../internal/click/visitor/testdata/" + file))(t)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// cardOf is a card with a title.
func cardOf(title string) map[string]any {
	return map[string]any{
		"title": title, "description": "A description of it", "imageUrl": "https://images.example/a.png?b=1&c=2",
		"imageAlt": "A picture",
	}
}

// metaOf returns the title and the meta elements of a page, by property or name.
func metaOf(t *testing.T, page string) map[string]string {
	t.Helper()
	root := must.Value(html.Parse(strings.NewReader(page)))(t)
	found := map[string]string{}
	for n := range root.Descendants() {
		switch {
		case n.Type == html.ElementNode && n.Data == "title":
			found["title"] = n.FirstChild.Data
		case n.Type == html.ElementNode && n.Data == "meta":
			attributes := map[string]string{}
			for _, a := range n.Attr {
				attributes[a.Key] = a.Val
			}
			found[attributes["property"]+attributes["name"]+attributes["http-equiv"]] = attributes["content"]
		}
	}
	return found
}

// elementsOf returns the elements and the names of the attributes of a page, in order.
func elementsOf(t *testing.T, page string) (elements []string) {
	t.Helper()
	root := must.Value(html.Parse(strings.NewReader(page)))(t)
	for n := range root.Descendants() {
		switch n.Type {
		case html.ElementNode:
			elements = append(elements, n.Data)
			for _, a := range n.Attr {
				elements = append(elements, n.Data+" "+a.Key)
			}
		case html.CommentNode:
			elements = append(elements, "comment")
		}
	}
	return elements
}

// TestCard_IsShownToPreviewCrawlers compares recorded agents of crawlers and browsers. Cards consume
// nothing; redirects are counted as before. A domain's card names the domain.
func TestCard_IsShownToPreviewCrawlers(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_LINK_RATE=0")
		who := s.tenant(t, "sharing")
		const destination = "https://secret.example/page"
		l := who.shorten(t, destination, "strategy", "CUSTOM", "customCode", "shared", "routing",
			map[string]any{"card": cardOf("A title")}).Link
		crawlers, browsers := recordedAgents(t, "crawlers.txt"), recordedAgents(t, "browsers.txt")
		for _, agent := range crawlers {
			a := s.expect(t, 200, http.MethodGet, l.path(s), "User-Agent", agent)
			if head := s.expect(t, 200, http.MethodHead, l.path(s), "User-Agent", agent); head.body != "" ||
				head.header.Get("Content-Length") != a.header.Get("Content-Length") {
				t.Errorf("HEAD of %s: %v", agent, head.header)
			}
			if strings.Contains(a.body+http.Header.Get(a.header, "Location"), "secret.example") {
				t.Errorf("the card reveals the destination: %s", a.body)
			}
		}
		a := s.expect(t, 200, http.MethodGet, l.path(s), "User-Agent", crawlers[0])
		site := must.Value(url.Parse(l.ShortURL))(t).Hostname()
		same(t, "the card", metaOf(t, a.body), map[string]string{
			"": "", "title": "A title", "description": "A description of it", "og:type": "website",
			"og:site_name": site, "og:url": l.ShortURL, "og:title": "A title",
			"og:description": "A description of it", "og:image": "https://images.example/a.png?b=1&c=2",
			"og:image:alt": "A picture", "twitter:card": "summary_large_image", "twitter:title": "A title",
			"twitter:description": "A description of it", "twitter:image": "https://images.example/a.png?b=1&c=2",
			"twitter:image:alt": "A picture",
		})
		a.header.Del("Date")
		a.header.Del("Content-Length")
		same(t, "its headers", a.header, http.Header{
			"Cache-Control": {"private, no-store"}, "Content-Type": {"text/html; charset=utf-8"},
			"Content-Security-Policy": {"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors " +
				"'none'; sandbox"},
			"Referrer-Policy": {"no-referrer"}, "Vary": {"User-Agent"}, "X-Content-Type-Options": {"nosniff"},
			"X-Robots-Tag": {"noindex"},
		})
		for _, agent := range browsers {
			a := s.expect(t, 302, http.MethodGet, l.path(s), "User-Agent", agent)
			if a.header.Get("Location") != destination {
				t.Errorf("%s is redirected to %q", agent, a.header.Get("Location"))
			}
		}
		for agent, want := range map[string]string{crawlers[0]: "CARD", browsers[0]: "URL", "curl/8": "URL"} {
			e := who.explain(t, l.ShortURL, map[string]any{"userAgent": agent})
			step := e.Steps[6]
			if e.Reason != want || step.Step != "AUTOMATION" || (step.Outcome == "APPLIED") != (want == "CARD") {
				t.Errorf("%s is explained as %+v", agent, e)
			}
		}
		polltest.Until(t, "the redirects are counted", func() bool {
			return who.getLink(t, l.ID).ClickCount >= int64(len(browsers))
		})
		if total, sums, rows := clicksOf(t, b, l.ID); total != 200 || sums != 200 || rows != 200 {
			t.Errorf("%d, %d and %d clicks, want those of the browsers", total, sums, rows)
		}

		who.verifiedDomain(t, b, "links.example.com")
		who.route(t, l.ID, map[string]any{"card": map[string]any{"title": "B"}})
		r := must.Value(s.newRequest(http.MethodGet, "/shared?a=b", "", "User-Agent", "Twitterbot/1.0"))(t)
		r.Host = "links.example.com"
		a = must.Value(s.deliver(r))(t)
		same(t, "the card at the domain", metaOf(t, a.body), map[string]string{
			"": "", "title": "B", "og:type": "website", "og:site_name": "links.example.com", "og:title": "B",
			"og:url": "https://links.example.com/shared", "twitter:card": "summary", "twitter:title": "B",
		})
	})
}

// TestCard_KeepsMarkupAsText shows texts that try to leave their place in the page.
func TestCard_KeepsMarkupAsText(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	who := s.tenant(t, "sharing")
	l := who.shorten(t, "https://example.com/", "strategy", "RANDOM").Link
	show := func(text string) string {
		who.route(t, l.ID, map[string]any{"card": map[string]any{
			"title": text, "description": text, "imageAlt": text, "imageUrl": "https://images.example/?" + text,
		}})
		return s.expect(t, 200, http.MethodGet, l.path(s), "User-Agent", "Twitterbot/1.0").body
	}
	want := elementsOf(t, show("plain"))
	for _, text := range []string{
		`"><script>alert(1)</script>`, `' onload='alert(1)`, `" onload="alert(1)`, `</title><script>alert(1)</script>`,
		`<meta http-equiv="refresh" content="0;url=//evil.example">`, `0;url=javascript:alert(1)`, `<!--`, `--><b>`,
		`]]><b>`, `<![CDATA[`, `&lt;script&gt;`, `&quot;><b>`, `&#60;b&#62;`, `{{.ShortURL}}`, `{{template "x"}}`,
		"`onerror=alert(1)", `\"><b>`, `javascript:alert(1)`, `<base href="//evil.example">`, `<plaintext>`,
		`<noscript><b>`,
	} {
		page := show(text)
		same(t, "the page with "+text, elementsOf(t, page), want)
		meta := metaOf(t, page)
		for _, name := range strings.Fields("title description og:title og:description og:image:alt twitter:title " +
			"twitter:description twitter:image:alt") {
			if meta[name] != text {
				t.Errorf("%s of %q is %q", name, text, meta[name])
			}
		}
		if image := meta["og:image"]; !strings.HasPrefix(image, "https://images.example/?") ||
			image != meta["twitter:image"] {
			t.Errorf("the image of %q is %q", text, image)
		}
	}
}
