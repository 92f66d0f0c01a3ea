package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// modelVisit is a visit with its known properties, so that the model reads no header.
type modelVisit struct {
	agent, device, os, browser, language, referrer string
	query, path, address, country                  string
	// pathRefused means that no link forwards the path.
	pathRefused           bool
	bot, private          bool
	head, atRoot          bool
	cookieRule, cookieFor string
	// at is the instant.
	at time.Time
}

// modelAgents are user agents with their properties.
var modelAgents = []modelVisit{
	{agent: iPhone, device: "mobile", os: "iOS", browser: "Safari"},
	{agent: desktopChrome, device: "desktop", os: "Windows", browser: "Chrome"},
	{agent: "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0", device: "desktop", os: "Linux",
		browser: "Firefox"},
	{agent: "curl/8.10.1", bot: true},
}

// modelCountries is the content of the country database.
var modelCountries = map[string]string{"192.0.2.0/25": "DE", "2001:db8::/33": "NP"}

// modelAddresses are addresses with their countries.
var modelAddresses = [][2]string{
	{"192.0.2.1", "DE"}, {"192.0.2.100", "DE"}, {"192.0.2.200", ""}, {"2001:db8::1", "NP"}, {"2001:db8::2", "NP"},
	{"2001:db8:8000::1", ""},
}

// modelQueries are queries of visitors.
var modelQueries = []string{
	"", "a+b=1", "x=2&a+b=1", "a+b=2", "ab=1", "a=9&c=1&c=2", "%61=7&d", "utm_source=visitor&utm_medium=m&a%20b=1",
	"a%20b=5&&z&", "q=ü\"'&next=//evil.example", "x=%zz&=e", "c=%26&b=%3D",
	"qr=flyer&a=1", "x=2&%71r=poster%2d2", "qr=other&qr=flyer&qr=poster-2", "QR=flyer&qr",
	"x=" + strings.Repeat("y", 3000),
}

// modelPaths are paths after the code. The model does not parse them.
var modelPaths = []struct {
	path      string
	isRefused bool
}{
	{"/a", false}, {"/a/b.html", false}, {"/a%2Fb", false}, {"/a%20b", false}, {"/%C3%BC", false}, {"/a;b=1", false},
	{"/a:b@c/d", false}, {"/a%3Fb%23c", false}, {"/...", false}, {"/a%252Fb", false},
	{"/", false}, {"//a", true}, {"/a//b", true}, {"/a/", false}, {"/a//", true}, {"/./a", true}, {"/a/..",
		true}, {"/%2e%2E/a", true},
	{"/a%5Cb", true}, {"/a%00", true}, {"/a%0Ab", true}, {"/%252e%252e", true}, {"/a%2F..", true},
}

// anyVisit returns a random visit of the link. The caller sets its time.
func anyVisit(random *rand.Rand, l *modelLink) modelVisit {
	one := func(values ...string) string { return values[random.IntN(len(values))] }
	v := modelAgents[random.IntN(len(modelAgents))]
	v.language = one("", "de-AT", "de", "pt-BR", "pt", "en")
	v.referrer = one("", "news.example", "example.org", "a.example.org", "myexample.org")
	v.query = one(modelQueries...)
	from := modelAddresses[random.IntN(len(modelAddresses))]
	v.address, v.country = from[0], from[1]
	if random.IntN(3) == 0 {
		path := modelPaths[random.IntN(len(modelPaths))]
		v.path, v.pathRefused = path.path, path.isRefused
	}
	v.private, v.head, v.atRoot = random.IntN(6) == 0, random.IntN(6) == 0, random.IntN(6) == 0
	if r := l.anyRule(random); r != nil && random.IntN(2) == 0 {
		v.cookieRule, v.cookieFor = r.id, r.targets[random.IntN(len(r.targets))].id
	}
	return v
}

// request returns the HTTP request of the visit to a link, whose bytes are sent as they are.
func (v *modelVisit) request(s *server, l *modelLink) *http.Request {
	r := &http.Request{
		Method: http.MethodGet, Header: http.Header{},
		URL: &url.URL{Scheme: "http", Host: s.address, Opaque: l.shortPath(v) + v.path, RawQuery: v.query},
	}
	if v.head {
		r.Method = http.MethodHead
	}
	r.Header.Set("User-Agent", v.agent)
	r.Header.Set("X-Forwarded-For", v.address)
	if v.language != "" {
		r.Header.Set("Accept-Language", v.language+",en-GB;q=0.4")
	}
	if v.referrer != "" {
		r.Header.Set("Referer", "https://"+v.referrer+"/page")
	}
	if v.private {
		r.Header.Set("DNT", "1")
	}
	if v.cookieRule != "" {
		r.Header.Set("Cookie", "lf_t_"+v.cookieRule+"="+v.cookieFor)
	}
	return r
}

// sample returns the VisitSampleInput of the visit.
func (v *modelVisit) sample() map[string]any {
	sample := map[string]any{
		"userAgent": v.agent, "address": v.address, "query": v.query, "path": v.path, "private": v.private,
	}
	for name, value := range map[string]string{"country": v.country, "targetId": v.cookieFor} {
		if value != "" {
			sample[name] = value
		}
	}
	if v.language != "" {
		sample["acceptLanguage"] = v.language + ",en-GB;q=0.4"
	}
	if v.referrer != "" {
		sample["referrer"] = "https://" + v.referrer + "/page"
	}
	if !v.at.IsZero() {
		sample["at"] = v.at.Format(time.RFC3339Nano)
	}
	return sample
}

// modelCondition is a condition with its meaning.
type modelCondition struct {
	input map[string]any
	holds func(v *modelVisit) bool
}

// anyCondition chooses a condition at random. Times are relative to an instant, at least an hour away
// from it.
func anyCondition(random *rand.Rand, now time.Time) modelCondition {
	pick := func(values ...string) []string {
		random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		return values[:1+random.IntN(len(values))]
	}
	list := func(field string, values []string, read func(v *modelVisit) string) modelCondition {
		return modelCondition{input: map[string]any{field: values}, holds: func(v *modelVisit) bool {
			return slices.ContainsFunc(values, func(value string) bool { return strings.EqualFold(value, read(v)) })
		}}
	}
	switch random.IntN(11) {
	case 0:
		return list("device", pick("mobile", "desktop", ""), func(v *modelVisit) string { return v.device })
	case 1:
		return list("os", pick("ios", "Windows", "Linux"), func(v *modelVisit) string { return v.os })
	case 2:
		return list("browser", pick("Safari", "CHROME", ""), func(v *modelVisit) string { return v.browser })
	case 3:
		return list("country", pick("DE", "NP", "AT", ""), func(v *modelVisit) string { return v.country })
	case 4:
		values := pick("de", "pt-BR", "")
		return modelCondition{input: map[string]any{"language": values}, holds: func(v *modelVisit) bool {
			return slices.ContainsFunc(values, func(value string) bool {
				return strings.EqualFold(v.language, value) || value != "" && strings.HasPrefix(v.language, value+"-")
			})
		}}
	case 5:
		values := pick("news.example", ".example.org", "")
		return modelCondition{input: map[string]any{"referrer": values}, holds: func(v *modelVisit) bool {
			return slices.ContainsFunc(values, func(value string) bool {
				return v.referrer == value || value != "" && value[0] == '.' && strings.HasSuffix("."+v.referrer, value)
			})
		}}
	case 6:
		return queryCondition(random)
	case 7:
		network := pick("192.0.2.0/25", "2001:db8::/33", "192.0.2.200/32", "2001:db8::1/128", "2001:db8::/127")[0]
		return modelCondition{input: map[string]any{"network": []string{network}}, holds: func(v *modelVisit) bool {
			return netip.MustParsePrefix(network).Contains(netip.MustParseAddr(v.address))
		}}
	case 8:
		return modelCondition{input: map[string]any{"bot": true}, holds: func(v *modelVisit) bool { return v.bot }}
	case 9:
		return duringCondition(random, now)
	}
	return weeklyCondition(random, now)
}

func queryCondition(random *rand.Rand) modelCondition {
	name := []string{"a b", "a", "z", "d"}[random.IntN(4)]
	input, want := map[string]any{"name": name}, ""
	if random.IntN(2) == 0 {
		want = "1"
		input["value"] = want
	}
	return modelCondition{input: map[string]any{"query": input}, holds: func(v *modelVisit) bool {
		return slices.ContainsFunc(strings.Split(v.query, "&"), func(piece string) bool {
			key, value, _ := strings.Cut(piece, "=")
			return piece != "" && decoded(key) == name && (want == "" || decoded(value) == want)
		})
	}}
}

func duringCondition(random *rand.Rand, now time.Time) modelCondition {
	from := now.Add(time.Duration(random.IntN(2)*4-2) * time.Hour)
	to := from.Add(3 * time.Hour)
	input := map[string]any{"from": from.Format(time.RFC3339), "to": to.Format(time.RFC3339)}
	switch random.IntN(3) {
	case 0:
		from = time.Time{}
		delete(input, "from")
	case 1:
		to = time.Time{}
		delete(input, "to")
	}
	return modelCondition{input: map[string]any{"during": input}, holds: func(v *modelVisit) bool {
		return (from.IsZero() || !v.at.Before(from)) && (to.IsZero() || v.at.Before(to))
	}}
}

// weeklyCondition is read with a clock that is a text, and days that are texts.
func weeklyCondition(random *rand.Rand, now time.Time) modelCondition {
	zone, err := time.LoadLocation([]string{"UTC", "Europe/Berlin", "Asia/Kathmandu",
		"America/New_York"}[random.IntN(4)])
	if err != nil {
		panic(err)
	}
	offset := func(hours int) string { return now.Add(time.Duration(hours) * time.Hour).In(zone).Format("15:04") }
	from, to := offset(-2-random.IntN(9)), offset(2+random.IntN(9))
	if random.IntN(3) == 0 {
		from, to = to, from
	}
	var days []string
	for day := range 7 {
		if random.IntN(3) > 0 || len(days) == 0 && day == 6 {
			days = append(days, strings.ToUpper(time.Weekday(day).String()))
		}
	}
	input := map[string]any{"timezone": zone.String(), "days": days, "from": from, "to": to}
	return modelCondition{input: map[string]any{"weekly": input}, holds: func(v *modelVisit) bool {
		local := v.at.In(zone)
		clock, today := local.Format("15:04"), strings.ToUpper(local.Weekday().String())
		yesterday := strings.ToUpper(((local.Weekday() + 6) % 7).String())
		if from < to {
			return from <= clock && clock < to && slices.Contains(days, today)
		}
		return from <= clock && slices.Contains(days, today) || clock < to && slices.Contains(days, yesterday)
	}}
}

var encodedByte = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// decoded decodes a name or a value of a query.
func decoded(text string) string {
	return encodedByte.ReplaceAllStringFunc(strings.ReplaceAll(text, "+", " "), func(code string) string {
		c, err := strconv.ParseUint(code[1:], 16, 8)
		if err != nil {
			panic(fmt.Sprint(code, err))
		}
		return string([]byte{byte(c)})
	})
}
