// Package statspage reads and renders the page of a short URL with a + at its end: the public stats of
// a link, and its destination. The server checks who may see what.
package statspage

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"
)

//go:embed page.html
var pageHTML string

// statsText is the part of the page with the numbers, styleText the style.
var (
	//go:embed stats.html
	statsText string
	//go:embed style.css
	styleText string
)

var (
	pageText     = strings.Replace(pageHTML, "/*style*/\n", styleText, 1)
	pageTemplate = newTemplate("page", pageText)
	policy       = policyOf(pageText)
)

// policyOf lets a page have its own style and nothing else: no script, no picture, no frame, no
// form.
func policyOf(page string) string {
	return "default-src 'none'; style-src '" + hash(style(page)) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// Page has the contents of the page.
type Page struct {
	Title       string // Title may be empty: then the short URL is the heading.
	ShortURL    string
	Destination string // Destination is the redirect's Location, linked if it is http or https; empty hides it.
	Zone        string // Zone is the name of the time zone that the days are of, such as "UTC".
	Days        []Day  // Days are in order of time, without gaps: 1 to 400 of them.

	// Clicks, Visitors and Bots are sums over the days. A bot's click is among the clicks.
	Clicks, Visitors, Bots int64

	// Referrers and Countries begin with the most clicks. The empty value means unknown.
	Referrers, Countries []Slice
}

// Day is what happened on one day.
type Day struct {
	Start            time.Time // Start is in the zone of the page: the page shows its date as it is.
	Clicks, Visitors int64
}

// Slice is the clicks of one referrer or one country, an ISO 3166 code of two letters.
type Slice struct {
	Value  string
	Clicks int64
	Other  bool // Other marks a last slice that sums up the rest; its value is not shown.
}

// Write answers with the page.
func Write(w http.ResponseWriter, r *http.Request, p Page) {
	respond(w, r, pageTemplate, policy, newView(p))
}

func respond(w http.ResponseWriter, r *http.Request, page *template.Template, policy string, view any) {
	var body bytes.Buffer
	body.Grow(32 << 10)           // an estimate
	_ = page.Execute(&body, view) // plain values into a buffer: there is nothing to fail
	h := w.Header()
	h.Set("Cache-Control", "private, max-age=60")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes()) // the client has disconnected
	}
}

// style is what stands between the tags of the page's style. There is no comment in it: the
// template would drop it, and the hash would be of something else.
func style(page string) string {
	_, page, _ = strings.Cut(page, "<style>")
	page, _, _ = strings.Cut(page, "</style>")
	return page
}

// hash names a style as a Content-Security-Policy does.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
