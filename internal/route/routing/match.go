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

// match is whether a condition holds.
type match byte

const (
	noMatch match = iota
	matched
	undetermined // until the request has the kind of the visit
)

func matchOf(holds bool) match {
	if holds {
		return matched
	}
	return noMatch
}

// matches reports whether a condition holds. The language is the form of the one that decides.
func matches(kind byte, values FlatReader, r *Request, language string) match {
	switch kind {
	case onBot:
		return matchOf((values.Byte() == 1) == r.Visit.Bot)
	case onCountry:
		return matchOf(hasFold(values, r.Visit.Country))
	case onDevice:
		return matchOf(hasFold(values, r.Visit.Device))
	case onOS:
		return matchOf(hasFold(values, r.Visit.OS))
	case onBrowser:
		return matchOf(hasFold(values, r.Visit.Browser))
	case onLanguage:
		return matchOf(hasLanguage(values, language))
	case onReferrer:
		return matchOf(hasHost(values, r.Visit.Referrer))
	case onDuring:
		at := r.Now.UnixMicro()
		return matchOf(at >= int64(values.Number(8)) && at < int64(values.Number(8)))
	case onQuery:
		return matchOf(hasParameter(r.Query, values.Text(), values.Byte() == 1, values.Text()))
	case onNetwork:
		return matchOf(networkHas(values, r.Visit.Address))
	case onWeekly:
		return matchOf(isOpen(values, r.Now))
	}
	return matchesVisit(values.Byte() == 1, r)
}

// matchesVisit reports whether the visit is the first of its visitor on this day, or a further one.
// It is undetermined until the request has the kind of the visit. For bots, private visitors and
// HEAD it is neither.
func matchesVisit(wantsFirst bool, r *Request) match {
	switch {
	case r.Head || r.Visit.Bot || r.Visit.Private || r.VisitKind == NoKind:
		return noMatch
	case r.VisitKind == "":
		return undetermined
	}
	return matchOf((r.VisitKind == FirstToday) == wantsFirst)
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
	location := LoadZone(schedule.Text())
	if location == nil {
		return false
	}
	w := weekly{zone: location, days: schedule.Byte()}
	w.from, w.to = int(schedule.Number(2)), int(schedule.Number(2))
	return w.holds(at)
}
