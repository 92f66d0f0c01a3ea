package redirect

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"strconv"

	"github.com/linkforge/linkforge/internal/route/routing"
)

//go:embed card.html
var cardText string

var cardTemplate = template.Must(template.New("card").Parse(cardText))

// cardPolicy lets the card load and run nothing.
const cardPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"

// writeCard answers a preview crawler with the card: the owner's texts, at the requested short URL.
// It has nothing of the destination.
func (v *visit) writeCard(w http.ResponseWriter) {
	var body bytes.Buffer
	_ = cardTemplate.Execute(&body, struct {
		routing.CardTexts
		Site, ShortURL string
	}{v.target.Compiled.Card(), v.site(), v.shortURL()}) // plain values into a buffer: there is nothing to fail
	h := w.Header()
	h.Set("Cache-Control", "private, no-store")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Content-Security-Policy", cardPolicy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "User-Agent")
	h.Set("X-Content-Type-Options", "nosniff")
	if !v.target.Indexable {
		h["X-Robots-Tag"] = robotsTag
	}
	w.WriteHeader(http.StatusOK)
	if !v.request.Head {
		_, _ = w.Write(body.Bytes()) // the client may have disconnected
	}
}

// site returns the host of the requested short URL.
func (v *visit) site() string {
	if host := v.target.At.Host; host != "" {
		return host
	}
	return v.Resolver.PublicHost()
}

// shortURL returns the requested short URL without path and query. Of the hosts of the instance it
// has that of the public URL.
func (v *visit) shortURL() string {
	at := v.target.At
	if at.Host != "" {
		return "https://" + at.Host + at.EscapedPath()
	}
	return v.Resolver.PublicURL + at.EscapedPath()
}
