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
	var got struct {
		UpdateWorkspace struct {
			Workspace struct{ Inspectable bool }
			Errors    []userError
		}
	}
	w.must(t, &got, `mutation ($w: ID!, $to: Boolean) { updateWorkspace(input: {id: $w, inspectable: $to}) {
		workspace { inspectable } errors { code message field } } }`, map[string]any{"w": w.workspaceID, "to": to})
	if errs := got.UpdateWorkspace.Errors; len(errs) > 0 || got.UpdateWorkspace.Workspace.Inspectable != (to == true) {
		t.Fatalf("%+v", got)
	}
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
		target := func(url string, more ...any) map[string]any {
			of := map[string]any{"url": url}
			for i := 0; i < len(more); i += 2 {
				of[more[i].(string)] = more[i+1]
			}
			return of
		}
		l := who.shorten(t, "https://www.Example.com/a b?c=<d>&e", "strategy", "RANDOM", "routing", map[string]any{
			"pendingUrl": "https://pending.example/", "endedUrl": "https://ended.example/",
			"rules": []any{
				map[string]any{"enabled": false, "targets": []any{target("https://disabled.example/")}},
				map[string]any{"when": []any{map[string]any{"country": []string{"DE"}}}, "targets": []any{
					target("https://de.example/x"), target("https://paused.example/", "share", 0),
					map[string]any{"url": nil},
				}},
				map[string]any{"targets": []any{target("https://de.example/y"),
					target("https://xn--pypal-4ve.example/z"),
					target("https://www.example.com/other")}},
			},
		}).Link
		private := s.expect(t, 404, http.MethodGet, l.path(s)+"+", "Accept", "text/html")
		if unknown := s.expect(t, 404, http.MethodGet, "/nothing-here+", "Accept",
			"text/html"); unknown.body != private.body {
			t.Error("a link that is not inspectable looks unlike an unknown one")
		}
		who.setInspectable(t, true)
		a := s.expect(t, 200, http.MethodGet, l.path(s)+"+", "Accept", "text/html", "Accept-Language", "de-AT,en;q=0.5")
		if got := textOf(t, a.body, "h1"); !slices.Equal(got, []string{"www.example.com"}) {
			t.Errorf("the heading is %q", got)
		}
		want := []string{"de.example", "pаypal.example (xn--pypal-4ve.example)"}
		if got := textOf(t, a.body, "li"); !slices.Equal(got, want) {
			t.Errorf("the other hosts are %q, want %q", got, want)
		}
		for _, part := range []string{
			`<html lang="de">`, "Dieser Kurzlink führt zu", html.EscapeString("https://www.Example.com/a%20b?c=<d>&e"),
			`<bdi>` + l.ShortURL + `</bdi>`, `<time datetime="20`,
			`href="` + s.public + "/abuse?link=" + url.QueryEscape(l.ShortURL) + `"`,
		} {
			if !strings.Contains(a.body, part) {
				t.Errorf("the page has no %q: %s", part, a.body)
			}
		}
		if strings.Contains(a.body, `class="totals"`) || strings.Contains(a.body, "<script") {
			t.Errorf("the page has stats or a script: %s", a.body)
		}
		who.publish(t, l.ID)
		a = s.expect(t, 200, http.MethodGet, l.path(s)+"+")
		if !strings.Contains(a.body, `class="totals"`) || !strings.Contains(a.body, `<h1 class="host">`) {
			t.Errorf("public stats do not follow: %s", a.body)
		}
		who.setInspectable(t, nil)
		a = s.expect(t, 200, http.MethodGet, l.path(s)+"+")
		if !strings.Contains(a.body, `class="totals"`) || strings.Contains(a.body, `class="host"`) {
			t.Errorf("the page of public stats is another one: %s", a.body)
		}
	})
}

// TestInspection_HidesWhatARedirectProtects covers limited links, and links that are not active.
func TestInspection_HidesWhatARedirectProtects(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "open")
		who.setInspectable(t, true)
		routing := map[string]any{"rules": []any{
			map[string]any{"targets": []any{map[string]any{"url": "https://secret.example/target"}}},
		}}
		link := func(more ...any) linkView {
			more = append([]any{"strategy", "RANDOM", "title", "A title", "routing", routing}, more...)
			return who.shorten(t, "https://secret.example/own", more...).Link
		}
		limited, pending, ended := link("maxClicks", 1), link("startsAt", "2100-01-01T00:00:00Z"), link()
		deleted, disabled := link(), link()
		execute(t, b, "UPDATE links SET expires_at = ? WHERE id = ?", db.Instant(time.Now().Add(-time.Hour)), ended.ID)
		who.remove(t, deleted.ID)
		succeed(t, s.env, "links", "disable", disabled.ID)
		page := func(l linkView, status int, headers ...string) string {
			t.Helper()
			a := s.expect(t, status, http.MethodGet, l.path(s)+"+", append(headers, "Accept", "text/html")...)
			if strings.Contains(a.body, "secret.example") {
				t.Errorf("the page reveals the destination: %s", a.body)
			}
			return a.body
		}
		gated := who.shorten(t, "https://secret.example/gated", "strategy", "RANDOM", "routing", map[string]any{
			"rules": routing["rules"], "gate": map[string]any{"confirm": true},
		}).Link
		capped := link("maxClicks", 5)
		for _, l := range []linkView{gated, capped} {
			who.publish(t, l.ID)
			for _, isInspectable := range []any{true, false} {
				who.setInspectable(t, isInspectable)
				page(l, 200)
			}
		}
		page(pending, 200, "Authorization", "Bearer "+who.token)
		who.setInspectable(t, true)
		hidden := page(limited, 200)
		if got := textOf(t, hidden, "h1"); !slices.Equal(got,
			[]string{"This short link does not show where it leads"}) {
			t.Errorf("the heading of a limited link is %q", got)
		}
		page(limited, 200, "Authorization", "Bearer "+who.token)
		for _, l := range []linkView{pending, ended, deleted, disabled} {
			page(l, 404)
		}
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
		made := s.anonymous(t, "https://Bücher.example/ä")
		l := made.Link
		a := s.expect(t, 200, http.MethodGet, l.path(s)+"+")
		want := []string{"bücher.example xn--bcher-kva.example"}
		if got := textOf(t, a.body, "h1"); !slices.Equal(got, want) {
			t.Errorf("the heading is %q, want %q", got, want)
		}
		form := s.expect(t, 200, http.MethodGet, "/abuse?link="+url.QueryEscape(l.ShortURL), "Accept", "text/html")
		if !strings.Contains(form.body, `value="`+l.ShortURL+`"`) {
			t.Errorf("the form does not name the link: %s", form.body)
		}
		post := func(status int, values url.Values, headers ...string) answer {
			t.Helper()
			headers = append(headers, "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html")
			a, err := s.request(http.MethodPost, "/abuse", values.Encode(), headers...)
			if err != nil || a.status != status {
				t.Errorf("%v: status %d, want %d, %v: %s", values, a.status, status, err, a.body)
			}
			return a
		}
		const details = `"><script>alert(1)</script>`
		report := url.Values{"link": {l.ShortURL}, "reason": {"PHISHING"}, "details": {details}}
		post(200, report)
		stored := func() []string { return strings.Split(strings.TrimSpace(succeed(t, s.env, "reports")), "\n") }
		if rows := stored(); len(rows) != 1 || !strings.Contains(rows[0], "PHISHING") ||
			!strings.Contains(rows[0], strconv.Quote(details)) {
			t.Errorf("the stored reports are %q", rows)
		}
		post(400, report, "Origin", "https://evil.example")
		post(400, url.Values{"link": {l.ShortURL}, "reason": {"NONE"}})
		post(400, url.Values{"link": {l.ShortURL}, "reason": {"SPAM"}, "details": {strings.Repeat("d", 2001)}})
		post(400, url.Values{"link": {strings.Repeat("d", 65<<10)}, "reason": {"SPAM"}})
		unknown := post(404, url.Values{"link": {s.public + "/nothing"}, "reason": {"SPAM"}, "details": {details}})
		if strings.Contains(unknown.body, "<script") || !strings.Contains(unknown.body, html.EscapeString(details)) {
			t.Errorf("the form lost the details: %s", unknown.body)
		}
		if rows := stored(); len(rows) != 1 {
			t.Errorf("refused reports were stored: %q", rows)
		}
	})
}
