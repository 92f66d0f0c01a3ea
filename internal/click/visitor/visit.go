// Package visitor derives the visitor's fields of a click: origin, device and language. It neither
// stores nor returns anything that identifies a user: no address, no user agent, no path of a
// referrer, no cookie. Campaign texts come from the short URL or its destination. It is pure;
// package redirect calls it before the click is recorded.
package visitor

import (
	"net/http"
	"net/netip"
	"strings"
)

// Visit has the recorded properties of a visitor. Empty texts are unknown. Texts may share memory
// with the request that they were read from: encode or clone values that outlive it.
type Visit struct {
	// Referrer is the host that the visitor came from, in lower case, without port, user and a
	// leading "www.": at most 253 bytes of a-z, 0-9, ".", "-" and "_", or an IPv6 address in
	// brackets. It is empty for direct visits and for headers that cannot be parsed. For an app it
	// is the package name.
	Referrer string
	// Country is ISO 3166-1 alpha-2, in upper case.
	Country string
	// Device is one of the devices below.
	Device string
	// Browser and OS are names as their makers write them: "Chrome", "macOS". Of an app that shows
	// pages itself, Browser is the app: "Instagram".
	Browser string
	OS      string `bun:"os"`
	// Language is the primary subtag of the most preferred language, in lower case, from 2 to 8
	// letters: "en".
	Language string
	// Source, Medium, Campaign, Term and Content are utm_source to utm_content, each of the
	// request's own query, else of the destination's: trimmed, valid UTF-8 without control
	// characters, at most 100 bytes.
	Source   string `bun:"utm_source"`
	Medium   string `bun:"utm_medium"`
	Campaign string `bun:"utm_campaign"`
	Term     string `bun:"utm_term"`
	Content  string `bun:"utm_content"`
	// Bot reports whether the request is automated: a crawler, a link preview, monitoring, an HTTP
	// library, a prefetch, or a request without a user agent.
	Bot bool
}

// The devices. Bots are none.
const (
	Desktop = "desktop"
	Mobile  = "mobile"
	Tablet  = "tablet"
	TV      = "tv"
	Console = "console" // for games
	Other   = "other"   // a browser that does not report its device, or another device: a headset, a car
)

// Reader reads visits from requests. Its memory is bounded for any sequence of requests.
type Reader struct {
	countries *Countries
	agents    *agents
}

// NewReader creates a reader. With nil countries, visits have no country.
func NewReader(countries *Countries) *Reader {
	return &Reader{countries: countries, agents: newAgents()}
}

// Reading has the properties of a visitor that the response to a request depends on. What may be
// recorded is Stored.
type Reading struct {
	// Visit is without campaign.
	Visit
	// Private visitors have opted out of profiling.
	Private bool
}

// Read returns the Reading of a request from an address.
func (r *Reader) Read(req *http.Request, address netip.Addr) Reading {
	h := req.Header
	v := r.readHeaders(first(h, "User-Agent"), first(h, "Accept-Language"), first(h, "Referer"))
	v.Bot = v.Bot || IsPrefetch(h)
	v.Country, v.Private = r.countries.CountryCode(address), IsPrivate(h)
	return v
}

// Sample returns the Reading of headers. Without an agent, it is a browser of no known name.
func (r *Reader) Sample(agent *string, acceptLanguage, referrer string) Reading {
	if agent != nil {
		return r.readHeaders(*agent, acceptLanguage, referrer)
	}
	v := r.readHeaders("", acceptLanguage, referrer)
	v.Bot = false
	return v
}

func (r *Reader) readHeaders(userAgent, acceptLanguage, from string) (v Reading) {
	agent := r.agents.classify(userAgent)
	v.Bot, v.Device, v.Browser, v.OS = agent.bot, agent.device, agent.browser, agent.os
	v.Referrer = referrer(from)
	v.Language = PreferredLanguage(acceptLanguage)
	return v
}

// IsPrefetch reports whether a browser sent the request before its user followed the link.
func IsPrefetch(h http.Header) bool {
	const prefetch = "prefetch" // a prefix: the value may be "prefetch;prerender"
	for _, name := range [...]string{"Sec-Purpose", "Purpose", "X-Moz"} {
		if s := first(h, name); len(s) >= len(prefetch) && strings.EqualFold(s[:len(prefetch)], prefetch) {
			return true
		}
	}
	return false
}

// first is http.Header.Get for a name in canonical form.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}
