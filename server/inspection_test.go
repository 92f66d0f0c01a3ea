package main

import (
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	htmlnode "golang.org/x/net/html"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// setInspectable changes the setting of the workspace.
func (w tenant) setInspectable(t *testing.T, to any) {
	t.Helper()
	w.setWorkspace(t, map[string]any{"inspectable": to})
}

// textOf returns the texts of the elements of a page with a name.
func textOf(t *testing.T, page, element string) (texts []string) {
	t.Helper()
	root := must.Value(htmlnode.Parse(strings.NewReader(page)))(t)
	for n := range root.Descendants() {
		if n.Type != htmlnode.ElementNode || n.Data != element {
			continue
		}
		var text strings.Builder
		for child := range n.Descendants() {
			if child.Type == htmlnode.TextNode {
				text.WriteString(child.Data)
			}
		}
		texts = append(texts, strings.TrimSpace(text.String()))
	}
	return texts
}

func TestInspection_ShowsWhereALinkLeads(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "open")
		target := func(url any) map[string]any { return map[string]any{"url": url} }
		paused := map[string]any{"url": "https://paused.example/", "share": 0}
		l := who.shorten(t, "https://www.Example.com/a b?c=<d>&e", "strategy", "RANDOM", "routing", map[string]any{
			"pendingUrl": "https://pending.example/", "endedUrl": "https://ended.example/",
			"rules": []any{
				map[string]any{"enabled": false, "targets": []any{target("https://disabled.example/")}},
				map[string]any{"when": []any{map[string]any{"country": []string{"DE"}}},
					"targets": []any{target("https://de.example/x"), paused, target(nil)}},
				map[string]any{"targets": []any{target("https://de.example/y"),
					target("https://xn--pypal-4ve.example/z"), target("https://www.example.com/other")}},
			},
		}).Link
		page := l.path(s) + "+"
		private := s.expect(t, 404, http.MethodGet, page, "Accept", "text/html")
		unknown := s.expect(t, 404, http.MethodGet, "/nothing-here+", "Accept", "text/html")
		same(t, "a link that is not inspectable, like an unknown one", private.body, unknown.body)
		who.setInspectable(t, true)
		a := s.expect(t, 200, http.MethodGet, page, "Accept", "text/html", "Accept-Language", "de-AT,en;q=0.5")
		if got := textOf(t, a.body, "h1"); !slices.Equal(got, []string{"www.example.com"}) {
			t.Errorf("the heading is %q", got)
		}
		want := []string{"de.example", "pаypal.example (xn--pypal-4ve.example)"}
		if got := textOf(t, a.body, "li"); !slices.Equal(got, want) {
			t.Errorf("the other hosts are %q, want %q", got, want)
		}
		hasTexts(t, "the page", a.body, `<html lang="de">`, "Dieser Kurzlink führt zu", `<time datetime="20`,
			html.EscapeString("https://www.Example.com/a%20b?c=<d>&e"), `<bdi>`+l.ShortURL+`</bdi>`,
			`href="`+s.public+"/abuse?link="+url.QueryEscape(l.ShortURL)+`"`)
		has := func(body, what, part string, want bool) {
			t.Helper()
			if strings.Contains(body, part) != want {
				t.Errorf("%s: %s is on the page: %t", what, part, !want)
			}
		}
		has(a.body, "inspectable", `class="totals"`, false)
		has(a.body, "inspectable", "<script", false)
		who.publish(t, l.ID)
		a = s.expect(t, 200, http.MethodGet, page)
		has(a.body, "and with public stats", `class="totals"`, true)
		has(a.body, "and with public stats", `<h1 class="host">`, true)
		who.setInspectable(t, nil)
		a = s.expect(t, 200, http.MethodGet, page)
		has(a.body, "with public stats", `class="totals"`, true)
		has(a.body, "with public stats", `class="host"`, false)
	})
}

// TestInspection_HidesWhatARedirectProtects covers limited links, and links that are not active.
func TestInspection_HidesWhatARedirectProtects(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "open")
		who.setInspectable(t, true)
		rules := []any{map[string]any{"targets": []any{map[string]any{"url": "https://secret.example/target"}}}}
		link := func(more ...any) linkView {
			more = append([]any{"strategy", "RANDOM", "title", "A title",
				"routing", map[string]any{"rules": rules}}, more...)
			return who.shorten(t, "https://secret.example/own", more...).Link
		}
		page := func(l linkView, status int, headers ...string) string {
			t.Helper()
			a := s.expect(t, status, http.MethodGet, l.path(s)+"+", append(headers, "Accept", "text/html")...)
			if strings.Contains(a.body, "secret.example") {
				t.Errorf("the page reveals the destination: %s", a.body)
			}
			return a.body
		}
		gate := map[string]any{"rules": rules, "gate": map[string]any{"confirm": true}}
		for _, l := range []linkView{link("routing", gate), link("maxClicks", 5)} {
			who.publish(t, l.ID)
			for _, isInspectable := range []any{false, true} {
				who.setInspectable(t, isInspectable)
				page(l, 200)
			}
		}
		pending, ended, deleted, disabled := link("startsAt", "2100-01-01T00:00:00Z"), link(), link(), link()
		execute(t, b, "UPDATE links SET expires_at = ? WHERE id = ?", db.Instant(time.Now().Add(-time.Hour)), ended.ID)
		who.remove(t, deleted.ID)
		succeed(t, s.env, "links", "disable", disabled.ID)
		page(pending, 200, "Authorization", "Bearer "+who.token)
		for _, l := range []linkView{pending, ended, deleted, disabled} {
			page(l, 404)
		}
		limited := link("maxClicks", 1)
		if got := textOf(t, page(limited, 200), "h1"); !slices.Equal(got,
			[]string{"This short link does not show where it leads"}) {
			t.Errorf("the heading of a limited link is %q", got)
		}
		page(limited, 200, "Authorization", "Bearer "+who.token)
		s.expect(t, 302, http.MethodGet, limited.path(s))
		page(limited, 404) // it is exhausted
		who.publish(t, limited.ID)
		if body := page(limited, 200); strings.Contains(body, "Short link") ||
			!strings.Contains(body, `class="totals"`) {
			t.Errorf("an ended link with public stats: %s", body)
		}
		if n := who.getLink(t, limited.ID).ClickCount; n > 1 {
			t.Errorf("pages were counted: %d clicks", n)
		}
	})
}

// TestInspection_CoversAnonymousLinks: they need no setting, and their page leads to a form that reports
// them.
func TestInspection_CoversAnonymousLinks(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		l := s.anonymous(t, "https://Bücher.example/ä").Link
		a := s.expect(t, 200, http.MethodGet, l.path(s)+"+")
		want := []string{"bücher.example xn--bcher-kva.example"}
		if got := textOf(t, a.body, "h1"); !slices.Equal(got, want) {
			t.Errorf("the heading is %q, want %q", got, want)
		}
		form := s.expect(t, 200, http.MethodGet, "/abuse?link="+url.QueryEscape(l.ShortURL), "Accept", "text/html")
		if !strings.Contains(form.body, `value="`+l.ShortURL+`"`) {
			t.Errorf("the form does not name the link: %s", form.body)
		}
		const details = `"><script>alert(1)</script>`
		post := func(status int, link, reason, details string, headers ...string) answer {
			t.Helper()
			values := url.Values{"link": {link}, "reason": {reason}, "details": {details}}
			a := must.Value(s.request(http.MethodPost, "/abuse", values.Encode(),
				append(headers, "Content-Type", formType, "Accept", "text/html")...))(t)
			wantStatus(t, reason, a, status)
			return a
		}
		post(200, l.ShortURL, "PHISHING", details)
		post(400, l.ShortURL, "PHISHING", details, "Origin", "https://evil.example")
		post(400, l.ShortURL, "NONE", "")
		post(400, l.ShortURL, "SPAM", strings.Repeat("d", 2001))
		post(400, strings.Repeat("d", 65<<10), "SPAM", "")
		unknown := post(404, s.public+"/nothing", "SPAM", details)
		if strings.Contains(unknown.body, "<script") || !strings.Contains(unknown.body, html.EscapeString(details)) {
			t.Errorf("the form lost the details: %s", unknown.body)
		}
		rows := succeed(t, s.env, "reports")
		if strings.Count(rows, "\n") != 1 || !strings.Contains(rows, "PHISHING") ||
			!strings.Contains(rows, strconv.Quote(details)) {
			t.Errorf("the stored reports are %q", rows)
		}
	})
}
