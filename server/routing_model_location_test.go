package main

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
)

// modelForwarding is how a link forms its locations.
type modelForwarding struct {
	mode         string
	only, except []string
	utm          [][2]string
	forwardPath  bool
	qrSources    []string
}

// modelDestinations are forms of destinations. The name of one takes the place of NAME.
var modelDestinations = []string{
	"https://example.com/NAME", "https://example.com/NAME", "https://example.com/NAME/", "https://NAME.example.com",
	"https://NAME.example.com/", "https://example.com/NAME?a=1&b=2", "https://example.com/NAME#part?x=1",
	"https://example.com/NAME?utm_source=own&%61=1#part", "https://example.com/NAME?", "https://example.com/NAME?c=3&",
	"https://example.com/NAME?q=why?", "https://example.com/NAME?a%20b=1&sig=%2f+#f",
	"https://example.com/NAME?long=" + strings.Repeat("z", 6000),
}

// anyDestination chooses the form of a destination. At most one target of a link may be long: its rules
// are limited to 16 KiB.
func anyDestination(random *rand.Rand, name string, isLong bool) string {
	form := modelDestinations[random.IntN(len(modelDestinations))]
	if len(form) > 1000 && !isLong {
		form = modelDestinations[0]
	}
	return strings.Replace(form, "NAME", name, 1)
}

func anyForwarding(random *rand.Rand) (f modelForwarding) {
	f.mode = []string{"OFF", "ADD", "REPLACE"}[random.IntN(3)]
	switch random.IntN(4) {
	case 0:
		f.only = []string{"a", "a b", "utm_source", "x"}
	case 1:
		f.except = []string{"next", "c", "a b"}
	}
	if random.IntN(2) == 0 {
		f.utm = [][2]string{{"source", "news letter"}, {"medium", "e&mail=ü+%#;"}, {"term", "one"}}[random.IntN(3):]
	}
	f.forwardPath = random.IntN(3) > 0
	if random.IntN(3) == 0 {
		f.qrSources = []string{"flyer", "poster-2"}[random.IntN(2):]
	}
	return f
}

// addTo adds the fields of a LinkRoutingInput.
func (f *modelForwarding) addTo(input map[string]any) {
	query := map[string]any{"mode": f.mode}
	if f.only != nil {
		query["only"] = f.only
	}
	if f.except != nil {
		query["except"] = f.except
	}
	input["query"], input["forwardPath"] = query, f.forwardPath
	if f.qrSources != nil {
		input["qrSources"] = f.qrSources
	}
	if f.utm != nil {
		utm := map[string]any{}
		for _, pair := range f.utm {
			utm[pair[0]] = pair[1]
		}
		input["utm"] = utm
	}
}

// location adds UTM values, query and path of a visit to a destination.
func (f *modelForwarding) location(destination string, v *modelVisit) string {
	path := v.path
	if !f.forwardPath { // it is a slash at most
		path = ""
	}
	location := f.form(destination, v.query, path)
	if len(location) > 8192 {
		location = f.form(destination, "", "")
	}
	return location
}

func (f *modelForwarding) form(destination, visitorQuery, path string) string {
	rest, fragment, hasFragment := strings.Cut(destination, "#")
	base, query, hasQuery := strings.Cut(rest, "?")
	own := parameters(query)
	var added []string
	for _, pair := range f.utm {
		if name := "utm_" + pair[0]; !hasName(own, name) {
			added = append(added, name+"="+strings.ReplaceAll(url.QueryEscape(pair[1]), "+", "%20"))
		}
	}
	var forwarded []string
	for _, p := range parameters(visitorQuery) {
		if f.source(p) != "" {
			continue
		}
		name := nameOf(p)
		isAllowed := (f.only == nil || slices.Contains(f.only, name)) && !slices.Contains(f.except, name)
		isTaken := f.mode == "ADD" && (hasName(own, name) || hasName(added, name))
		if f.mode != "OFF" && isAllowed && !isTaken {
			forwarded = append(forwarded, printable(p))
		}
	}
	if f.mode == "REPLACE" {
		isReplaced := func(p string) bool { return hasName(forwarded, nameOf(p)) }
		if slices.ContainsFunc(own, isReplaced) {
			query = strings.Join(slices.DeleteFunc(own, isReplaced), "&")
			hasQuery = query != ""
		}
		added = slices.DeleteFunc(added, isReplaced)
	}
	for _, p := range append(added, forwarded...) {
		if query != "" && !strings.HasSuffix(query, "&") {
			query += "&"
		}
		query, hasQuery = query+p, true
	}
	location := base
	if path != "" {
		location = strings.TrimSuffix(base, "/") + path
	}
	if hasQuery {
		location += "?" + query
	}
	if hasFragment {
		location += "#" + fragment
	}
	return location
}

// source returns the declared name of a QR code in a parameter.
func (f *modelForwarding) source(parameter string) string {
	_, value, _ := strings.Cut(parameter, "=")
	if nameOf(parameter) != "qr" || !slices.Contains(f.qrSources, decoded(value)) {
		return ""
	}
	return decoded(value)
}

// parameters returns the parameters of a query, encoded.
func parameters(query string) []string {
	return slices.DeleteFunc(strings.Split(query, "&"), func(p string) bool { return p == "" })
}

// nameOf returns the decoded name of a parameter.
func nameOf(parameter string) string {
	name, _, _ := strings.Cut(parameter, "=")
	return decoded(name)
}

func hasName(parameters []string, name string) bool {
	return slices.ContainsFunc(parameters, func(p string) bool { return nameOf(p) == name })
}

// printable percent-encodes the bytes that are not printable ASCII.
func printable(text string) string {
	b := new(strings.Builder)
	for _, c := range []byte(text) {
		if c <= 0x20 || c >= 0x7f {
			fmt.Fprintf(b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
