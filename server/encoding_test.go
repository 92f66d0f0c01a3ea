package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestText_MustBeUTF8 on every route that compares text, and in arguments and settings.
func TestText_MustBeUTF8(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	who := s.tenant(t, "encoded")
	gated := map[string]any{"gate": map[string]any{"password": "p\ufffdsswort-lang"}}
	path := who.shorten(t, "https://example.com/", "routing", gated).Link.path(s)
	for what, a := range map[string]answer{
		"a form of a gate":   s.submit(t, path, "password=p%E4sswort-lang"),
		"a header of a gate": s.expect(t, http.StatusBadRequest, "GET", path, "X-Link-Password", "p\xe4sswort-lang"),
		"a report":           s.submit(t, "/abuse", "reason=SPAM&details=%E4&link="+url.QueryEscape(s.public+path)),
		"a form of a report": s.expect(t, http.StatusBadRequest, "GET", "/abuse?link=%E4"),
		"a domain":           s.expect(t, http.StatusBadRequest, "GET", "/domains/known?domain=%E4.example"),
		"an export":          s.expect(t, http.StatusBadRequest, "GET", "/export/clicks?token=%ff"),
		"a workspace":        s.expect(t, http.StatusBadRequest, "GET", "/export/audit/%ff"),
	} {
		if wantStatus(t, what, a, http.StatusBadRequest); !strings.Contains(a.body, "UTF-8") {
			t.Errorf("%s: %s", what, a.body)
		}
	}
	wantStatus(t, "a password in UTF-8", s.submit(t, path, "password=p%EF%BF%BDsswort-lang"), http.StatusSeeOther)
	s.expect(t, http.StatusOK, "GET", path+"?utm_source=%E4") // the text of a visitor is not compared

	got := who.ask(t, `mutation ($w: ID!) { csv: exportClicks(input: {workspaceId: $w, bom: true}) { url }
		lines: exportClicks(input: {workspaceId: $w, bom: true, format: JSON_LINES}) { url } }`,
		map[string]any{"w": who.workspaceID})
	a := s.expect(t, http.StatusOK, "GET", strings.TrimPrefix(got.text("csv.url"), s.public))
	if !strings.HasPrefix(a.body, "\ufeff") || got.at("lines.url") != nil {
		t.Errorf("%.20q, %v", a.body, got)
	}

	declined(t, nil, "UTF-8", "code", "--workspace=w\xe4", "https://example.com/")
	declined(t, nil, "UTF-8", "block", "add", "\xff.example")
	line := `"https://example.com/\ud83d"` + "\n"
	if out, _, status := command(t, nil, line, "code", "--workspace=w"); status != 1 ||
		!strings.Contains(out, "UTF-8") {
		t.Errorf("a line: %d %s", status, out)
	}
	if out, _, status := command(t, nil, "\ufeffhttps://example.com/\n", "code", "--workspace=w"); status != 0 {
		t.Errorf("a byte order mark: %d %s", status, out)
	}
}
