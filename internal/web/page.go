package web

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Page answers with a small page for people: HTML for browsers, one line of text for everything
// else. It is never cached and never indexed.
func Page(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Add("Vary", "Accept")
	var body strings.Builder
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri "+
			"'none'; form-action 'none'")
		_ = pageTemplate.Execute(&body, struct {
			Status      int
			Title, Text string
		}{status, title, text}) // three plain values into a builder: there is nothing to fail
	} else {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(&body, "%s. %s\n", title, text)
	}
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(body.String())) // the client may have disconnected
	}
}
