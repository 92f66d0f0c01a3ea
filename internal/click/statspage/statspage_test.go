package statspage

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/linkforge/linkforge/internal/platform/must"
)

var first = time.Date(2025, 10, 18, 0, 0, 0, 0, time.UTC)

// example is a page with n days. Day i has i clicks, half of them visits.
func example(n int) Page {
	p := Page{
		Title: "Autumn newsletter", ShortURL: "https://lnk.example/autumn",
		Destination: "https://www.example.com/news?a=1&b=2", Zone: "UTC",
		Bots:      3,
		Referrers: []Slice{{Value: "", Clicks: 60}, {Value: "news.example.org", Clicks: 39}, {Clicks: 1, Other: true}},
		Countries: []Slice{{Value: "CI", Clicks: 998}, {Value: "", Clicks: 1}, {Value: "Q7", Clicks: 1}},
	}
	for i := range n {
		d := Day{Start: first.AddDate(0, 0, i), Clicks: int64(i), Visitors: int64(i / 2)}
		p.Days = append(p.Days, d)
		p.Clicks, p.Visitors = p.Clicks+d.Clicks, p.Visitors+d.Visitors
	}
	return p
}

func write(method string, p Page) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Write(w, httptest.NewRequest(method, "/autumn+", nil), p)
	return w
}

func body(p Page) string { return write(http.MethodGet, p).Body.String() }

// parse reads a page as a browser does.
func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	return must.Value(html.Parse(strings.NewReader(page)))(t)
}

// elements are the elements of those names, in order.
func elements(n *html.Node, names ...string) []*html.Node {
	var all []*html.Node
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && slices.Contains(names, d.Data) {
			all = append(all, d)
		}
	}
	return all
}

func words(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func TestPage_SetsHeaders(t *testing.T) {
	t.Parallel()
	w := write(http.MethodGet, example(30))
	want := http.Header{
		"Cache-Control":           {"private, max-age=60"},
		"Content-Length":          {strconv.Itoa(w.Body.Len())},
		"Content-Type":            {"text/html; charset=utf-8"},
		"Referrer-Policy":         {"no-referrer"},
		"X-Content-Type-Options":  {"nosniff"},
		"X-Robots-Tag":            {"noindex"},
		"Content-Security-Policy": {statsPage.Policy + "; form-action 'none'"},
	}
	if diff := cmp.Diff(want, w.Header()); diff != "" || w.Code != http.StatusOK {
		t.Errorf("status %d, headers (-want +got):\n%s", w.Code, diff)
	}
	head := write(http.MethodHead, example(30))
	if diff := cmp.Diff(want, head.Header()); diff != "" || head.Code != http.StatusOK || head.Body.Len() > 0 {
		t.Errorf("HEAD: status %d and %d bytes, headers (-want +got):\n%s", head.Code, head.Body.Len(), diff)
	}
}

// TestPage_CompliesWithPolicy covers elements that a browser would block silently.
func TestPage_CompliesWithPolicy(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 30, 400} {
		doc := parse(t, body(example(n)))
		if bad := elements(doc, "script", "img", "link", "iframe", "object", "embed", "form", "base", "image", "use",
			"foreignobject"); len(bad) > 0 {
			t.Errorf("%d days: there is a <%s>", n, bad[0].Data)
		}
		if got := len(elements(doc, "style")); got != 1 {
			t.Errorf("%d days: %d styles", n, got)
		}
		for d := range doc.Descendants() {
			for _, a := range d.Attr {
				if a.Key == "style" || a.Key == "src" || strings.HasPrefix(a.Key, "on") ||
					a.Key == "href" && d.Data != "a" {
					t.Errorf("%d days: <%s %s=%q>", n, d.Data, a.Key, a.Val)
				}
			}
		}
	}
}

func TestPage_EscapesValues(t *testing.T) {
	t.Parallel()
	evil := `</title></style><script>alert("1")</script><img src=x onerror='alert(2)'>&amp;`
	p := example(3)
	p.Title, p.ShortURL, p.Destination, p.Zone = evil, evil, evil, evil
	p.Referrers, p.Countries = []Slice{{Value: evil, Clicks: 1}}, []Slice{{Value: evil, Clicks: 1}}
	page := body(p)
	doc := parse(t, page)
	if bad := elements(doc, "script", "img", "a"); len(bad) > 0 {
		t.Errorf("markup came through: %s", page)
	}
	if got := strings.Count(words(doc), evil); got != 8 {
		t.Errorf("the words are there %d times as they were written, want 8: %s", got, page)
	}
}

func TestPage_IsolatesBidirectionalText(t *testing.T) {
	t.Parallel()
	p := example(3)
	p.Title = "in\u202evoice\u2066 \xff"
	page := body(p)
	if strings.ContainsAny(page, "\u202e\u2066") || !strings.Contains(page, "invoice \ufffd") {
		t.Errorf("the text is not tame: %s", page)
	}
}

func TestPage_ShowsDestination(t *testing.T) {
	t.Parallel()
	for destination, linked := range map[string]bool{
		"https://www.example.com/a?b=c&d=e#f":                                 true,
		"https://example.com/(a)'b'/100%/{c|d}^\"<>`%2f%zz?[e]=+~!*;,@$#(g)'": true,
		"https://xn--fiqs8s.example/":                                         true,
		"http://example.com":                                                  true,
		"HTTPS://example.com/":                                                true,
		"javascript:alert(1)":                                                 false,
		"data:text/html,<b>hello</b>":                                         false,
		"mailto:someone@example.com":                                          false,
		"myapp://open/this":                                                   false,
		"https:/example.com":                                                  false,
		"//example.com/":                                                      false,
		"http://[::1":                                                         false,
		"":                                                                    false,
	} {
		p := example(1)
		p.Destination = destination
		doc := parse(t, body(p))
		links := elements(doc, "a")
		if got := len(links) == 1; got != linked ||
			strings.Contains(words(doc), "Leads to "+destination) != (destination != "") {
			t.Errorf("%q is a link: %t, want %t", destination, got, linked)
		}
		if linked && (attribute(links[0], "href") != destination ||
			attribute(links[0], "rel") != "nofollow noopener noreferrer") {
			t.Errorf("%q is linked as %v", destination, links[0].Attr)
		}
	}
}

func TestPage_HeadingFallsBackToShortURL(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{"Autumn": "Autumn", "": "https://lnk.example/autumn",
		" \u202e ": "https://lnk.example/autumn"} {
		p := example(1)
		p.Title = title
		doc := parse(t, body(p))
		if got := words(elements(doc, "h1")[0]); got != want ||
			strings.Count(words(elements(doc, "main")[0]), p.ShortURL) != 1 {
			t.Errorf("%q: the heading is %q, want %q, and the short URL once", title, got, want)
		}
	}
}

func TestPage_IsAccessible(t *testing.T) {
	t.Parallel()
	doc := parse(t, body(example(30)))
	var headings []string
	for _, h := range elements(doc, "h1", "h2", "h3", "h4", "h5", "h6") {
		headings = append(headings, h.Data+" "+words(h))
	}
	if diff := cmp.Diff([]string{"h1 Autumn newsletter", "h2 Clicks per day", "h2 Referrers", "h2 Countries"},
		headings); diff != "" {
		t.Errorf("headings (-want +got):\n%s", diff)
	}
	if got := attribute(elements(doc, "html")[0], "lang"); got != "en" {
		t.Errorf("the language is %q", got)
	}
	ids := map[string]string{}
	for _, named := range elements(doc, "title", "desc") {
		ids[attribute(named, "id")] = words(named)
	}
	if ids["chart-title"] != "Clicks per day" ||
		ids["chart-desc"] != "Bar chart, 18 October 2025 – 16 November 2025. The most on one day: 29 clicks, on 16 "+
			"November 2025." {
		t.Errorf("the chart is described as %q, %q", ids["chart-title"], ids["chart-desc"])
	}
	for _, svg := range elements(doc, "svg") {
		role, hidden := attribute(svg, "role"), attribute(svg, "aria-hidden")
		if named := role == "img" && attribute(svg, "aria-labelledby") == "chart-title chart-desc"; !named &&
			hidden != "true" {
			t.Errorf("a drawing has neither a name nor is it hidden: %v", svg.Attr)
		}
	}
}

var spoken = regexp.MustCompile(`<g><title>(\w+ \d+ \w+ \d+): ([\d,]+) clicks?, ([\d,]+) visitors?</title>`)

func TestPage_TableMatchesChart(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 62, 63, 400} {
		p := example(n)
		page := body(p)
		var chart, table []string
		for _, m := range spoken.FindAllStringSubmatch(page, -1) {
			chart = append(chart, strings.Join(m[1:], " | "))
		}
		doc := parse(t, page)
		var clicks, visitors int64
		for _, row := range elements(elements(doc, "tbody")[0], "tr") {
			cells := elements(row, "th", "td")
			table = append(table, words(cells[0])+" | "+words(cells[1])+" | "+words(cells[2]))
			clicks, visitors = clicks+number(t, words(cells[1])), visitors+number(t, words(cells[2]))
		}
		if diff := cmp.Diff(chart, table); diff != "" || len(table) != n {
			t.Errorf("%d days (-chart +table):\n%s", n, diff)
		}
		foot := elements(elements(doc, "tfoot")[0], "td")
		if got := []int64{number(t, words(foot[0])), number(t, words(foot[1])), clicks,
			visitors}; !slices.Equal(got, []int64{p.Clicks, p.Visitors, p.Clicks, p.Visitors}) {
			t.Errorf("%d days: sums %v, want %d and %d twice", n, got, p.Clicks, p.Visitors)
		}
	}
}

func number(t *testing.T, grouped string) int64 {
	t.Helper()
	return must.Value(strconv.ParseInt(strings.ReplaceAll(grouped, ",", ""), 10, 64))(t)
}

func TestPage_ListsDimensions(t *testing.T) {
	t.Parallel()
	doc := parse(t, body(example(1)))
	var got []string
	for _, li := range elements(doc, "li") {
		got = append(got, strings.Join(strings.Fields(words(li)), " ")+" "+attribute(elements(li, "rect")[1], "width"))
	}
	want := []string{
		"Direct / unknown 60 60% 60%", "news.example.org 39 39% 39%", "All others 1 1% 1%",
		"Côte d’Ivoire 998 >99% 99.8%", "Unknown 1 <1% 0.1%", "Q7 1 <1% 0.1%",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	p := example(1)
	p.Referrers, p.Countries = nil, []Slice{{Value: "de"}}
	if text := words(parse(t, body(p))); !strings.Contains(text, "Nothing yet.") ||
		!strings.Contains(text, "Germany 0 0%") {
		t.Errorf("lists of nothing: %s", text)
	}
}

func TestPage_WithoutDays(t *testing.T) {
	t.Parallel()
	if doc := parse(t, body(example(0))); len(elements(doc, "table")) > 0 || len(elements(doc, "h1")) != 1 {
		t.Error("no days make a chart, or no page")
	}
}

func TestGroups_SeparateThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		-5: "0", 0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345", 999999: "999,999", 1000000: "1,000,000",
		1<<63 - 1: "9,223,372,036,854,775,807",
	} {
		if got := group(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
	if got := string(appendGrouped([]byte("12"), 3456)); got != "123,456" {
		t.Errorf("appended: %s", got)
	}
}

func TestCountries_HaveNames(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(countryText), "\n")
	if !slices.IsSorted(lines) || len(lines) != len(countries) || len(lines) < 249 {
		t.Errorf("%d lines, %d countries, sorted: %t", len(lines), len(countries), slices.IsSorted(lines))
	}
	for _, line := range lines {
		if !regexp.MustCompile(`^[A-Z]{2} \S.*\S$`).MatchString(line) {
			t.Errorf("%q is no country", line)
		}
	}
}
