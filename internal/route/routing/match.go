package routing

import (
	"net/netip"
	"strings"
	"time"
)

// Visit is what conditions see of a visit. Empty strings are unknown.
type Visit struct {
	// Country is ISO 3166-1 alpha-2. Device, OS, Browser and Referrer are as clicks store them.
	Country  string
	Device   string
	OS       string
	Browser  string
	Referrer string
	// Languages are tags, the most preferred first. They are for links that compare them. Language
	// is set by package explain: the tag that decides, see decidingLanguage.
	Languages []string
	Language  string
	// Bot means that the visit is automated.
	Bot bool
	// PreviewCrawler means that it is one of a service that shows previews.
	PreviewCrawler bool
	// Private visitors have opted out of profiling. They get no cookie.
	Private bool
	// Address and Agent are compared and hashed, and never stored.
	Address netip.Addr
	Agent   string
}

// matches reports whether a condition holds. The language is the form of the one that decides.
func matches(kind byte, values FlatReader, r *Request, language string) bool {
	switch kind {
	case onBot:
		return (values.Byte() == 1) == r.Visit.Bot
	case onCountry:
		return hasFold(values, r.Visit.Country)
	case onDevice:
		return hasFold(values, r.Visit.Device)
	case onOS:
		return hasFold(values, r.Visit.OS)
	case onBrowser:
		return hasFold(values, r.Visit.Browser)
	case onLanguage:
		return hasLanguage(values, language)
	case onReferrer:
		return hasHost(values, r.Visit.Referrer)
	case onDuring:
		at := r.Now.UnixMicro()
		return at >= int64(values.Number(8)) && at < int64(values.Number(8))
	case onQuery:
		return hasParameter(r.Query, values.Text(), values.Byte() == 1, values.Text())
	case onNetwork:
		return networkHas(values, r.Visit.Address)
	}
	return isOpen(values, r.Now)
}

// hasFold reports whether a list has the text, ignoring case.
func hasFold(values FlatReader, text string) bool {
	for len(values) > 0 {
		if strings.EqualFold(values.Text(), text) {
			return true
		}
	}
	return false
}

// hasHost reports whether a list has the host, or with a leading dot a host above it.
func hasHost(values FlatReader, host string) bool {
	for len(values) > 0 {
		value := values.Text()
		if value == host || value != "" && value[0] == '.' && (host == value[1:] || strings.HasSuffix(host, value)) {
			return true
		}
	}
	return false
}

// hasParameter reports whether a raw query has a parameter and, if needsValue, with the value.
func hasParameter(rawQuery, name string, needsValue bool, value string) bool {
	for piece := range strings.SplitSeq(rawQuery, "&") {
		encoded, text, _ := strings.Cut(piece, "=")
		if piece != "" && equalsDecoded(encoded, name) && (!needsValue || equalsDecoded(text, value)) {
			return true
		}
	}
	return false
}

// isOpen reports whether a compiled weekly schedule is open at an instant.
func isOpen(schedule FlatReader, at time.Time) bool {
	w := readWeekly(schedule)
	return w.zone != nil && w.holds(at)
}

// readWeekly returns a compiled weekly schedule. One of an unknown zone has none, and is never open.
func readWeekly(schedule FlatReader) (w weekly) {
	w.zone, w.days = LoadZone(schedule.Text()), schedule.Byte()
	w.from, w.to = int(schedule.Number(2)), int(schedule.Number(2))
	return w
}
