// Package statspage reads and renders the page of a short URL with a + at its end: the public stats of
// a link, and its destination. The server checks who may see what.
package statspage

import (
	"bytes"
	_ "embed"
	"net/http"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/platform/web"
)

var (
	//go:embed style.css
	style string
	//go:embed page.html
	pageContent string
	//go:embed inspect.html
	inspectContent string
	//go:embed stats.html
	statsContent string
)

var (
	statsPage   = web.NewPage(style, pageContent, statsContent)
	inspectPage = web.NewPage(style, inspectContent, statsContent)
)

// Page has the contents of the page.
type Page struct {
	Title       string // Title may be empty: then the short URL is the heading.
	ShortURL    string
	Destination string // Destination is the redirect's Location, linked if it is http or https; empty hides it.
	Zone        string // Zone is the name of the time zone that the days are of, such as "UTC".
	Days        []Day  // Days are in order of time, without gaps: 1 to 400 of them.

	// Clicks, Visitors and Bots are sums over the days. A bot's click is among the clicks.
	Clicks, Visitors, Bots int64

	// IsDBIP says that the countries are known from a database of DB-IP.
	IsDBIP bool
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
	respond(w, r, statsPage, newView(p))
}

func respond(w http.ResponseWriter, r *http.Request, page web.Page, view any) {
	var body bytes.Buffer
	body.Grow(32 << 10)           // an estimate
	_ = page.Execute(&body, view) // plain values into a buffer: there is nothing to fail
	h := w.Header()
	h.Set("Cache-Control", "private, max-age=60")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Content-Security-Policy", page.Policy+"; form-action 'none'")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes()) // the client has disconnected
	}
}
