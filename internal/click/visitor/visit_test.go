package visitor

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 " +
	"Safari/537.36"

// request is one for a short URL, with a query and headers.
func request(query string, headers map[string]string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/abc?"+query, nil)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r
}

// read returns the recorded fields of a request for a link to a location.
func (r *Reader) read(req *http.Request, address netip.Addr, location string) Visit {
	v := r.Read(req, address)
	return v.Stored(req.URL.RawQuery, location)
}

var visitor = netip.MustParseAddr("81.2.69.142")

func TestRead_KeepsAnonymousData(t *testing.T) {
	t.Parallel()
	countries, _ := openCountries(t, writeCountries(t, map[string]string{"81.2.69.0/24": "GB"}))
	got := NewReader(countries).read(request("utm_source=flyer&secret=1", map[string]string{
		"User-Agent": chrome, "Referer": "https://www.example.com/inbox?user=jo", "Accept-Language": "en-GB,en;q=0.9",
		"Cookie": "a=b", "Authorization": "Bearer c",
	}), visitor, "https://shop.example/?utm_campaign=spring")
	want := Visit{
		Referrer: "example.com", Country: "GB", Device: Desktop, Browser: "Chrome", OS: "Windows", Language: "en",
		Source: "flyer", Campaign: "spring",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("visit (-want +got):\n%s", diff)
	}
}

func TestRead_RespectsDoNotTrack(t *testing.T) {
	t.Parallel()
	countries, _ := openCountries(t, writeCountries(t, map[string]string{"81.2.69.0/24": "GB"}))
	r := NewReader(countries)
	for _, tt := range []struct {
		name, header, value, agent string
		isPrivate                  bool
		want                       Visit
	}{
		{"DNT", "DNT", "1", chrome, true, Visit{}},
		{"GPC", "Sec-GPC", "1", chrome, true, Visit{}},
		{"a bot", "DNT", "1", "curl/8.10.1", true, Visit{Bot: true}},
		{"DNT: 0", "DNT", "0", chrome, false, Visit{
			Referrer: "example.com", Country: "GB", Device: Desktop, Browser: "Chrome", OS: "Windows", Language: "en",
			Source: "flyer"}},
	} {
		req := request("utm_source=flyer", map[string]string{
			"User-Agent": tt.agent, "Referer": "https://example.com/", "Accept-Language": "en", tt.header: tt.value,
		})
		if got := IsPrivate(req.Header); got != tt.isPrivate {
			t.Errorf("%s: private is %v", tt.name, got)
		}
		if diff := cmp.Diff(tt.want, r.read(req, visitor, "")); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestRead_TreatsPrefetchesAsBots(t *testing.T) {
	t.Parallel()
	r := NewReader(nil)
	for _, tt := range []struct {
		header, value string
		want          bool
	}{
		{"Purpose", "prefetch", true},
		{"Sec-Purpose", "prefetch;prerender", true},
		{"Sec-Purpose", "Prefetch;anonymous-client-ip", true},
		{"X-Moz", "prefetch", true},
		{"Purpose", "", false},
		{"Purpose", "pre", false},
		{"X-Other", "prefetch", false},
	} {
		got := r.read(request("", map[string]string{"User-Agent": chrome, tt.header: tt.value}), visitor, "")
		if got.Bot != tt.want || got.Browser != "Chrome" {
			t.Errorf("%s: %s is read as %+v", tt.header, tt.value, got)
		}
	}
}

func TestRead_KnownAgentAllocatesNothing(t *testing.T) {
	if suitetest.Race {
		t.Skip("the race detector allocates")
	}
	r, req := NewReader(nil), commonRequest()
	r.read(req, visitor, "")
	key, crawlers, long := Key{1}, strings.Split(crawlerAgents, "\n"), strings.Repeat("a", 600)
	if n := testing.AllocsPerRun(100, func() {
		r.read(req, visitor, "https://shop.example/?utm_source=mail")
		key.Visitor("lnk_01h455vb4pex5vsknk084sn02q", "2001:db8::1", long)
		for _, agent := range crawlers {
			IsPreviewCrawler(agent)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(chrome, "https://www.example.com/", "en-GB,en;q=0.9", "prefetch", "utm_source=a%20b",
		"https://e.com/?utm_term=%ff", []byte{81, 2, 69, 1})
	f.Add("curl/8", "android-app://a.b/", "*;q=0.1", "", "utm_medium=%E2%82%AC", "?#", []byte{})
	f.Add("Mozilla/5.0 (iPad; CPU OS 17_7 like Mac OS X) 1.a é-_", "https://[::1]:8/", "x", "P", "utm_content=+", "#?",
		make([]byte, 16))
	countries, _ := openCountries(f, writeCountries(f, map[string]string{"81.2.69.0/24": "GB", "2001:218::/32": "JP"}))
	r := NewReader(countries)
	f.Fuzz(func(t *testing.T, agent, from, languages, purpose, query, location string, ip []byte) {
		address, _ := netip.AddrFromSlice(ip)
		req := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{
			"User-Agent": {agent}, "Referer": {from}, "Accept-Language": {languages}, "Purpose": {purpose}, "X-Moz": {},
		}}
		v := r.read(req, address, location)
		if len(v.Referrer) > 253 || strings.Trim(v.Referrer, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") != "" {
			t.Errorf("referrer %q", v.Referrer)
		}
		if n := len(v.Language); n == 1 || n > 8 || strings.Trim(v.Language, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("language %q", v.Language)
		}
		if v.Country != "" && !isCode(v.Country) {
			t.Errorf("country %q", v.Country)
		}
		switch v.Device {
		case "", Desktop, Mobile, Tablet, TV, Console, Other:
		default:
			t.Errorf("device %q", v.Device)
		}
		for _, text := range []string{v.Source, v.Medium, v.Campaign, v.Term, v.Content} {
			if len(text) > 100 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) ||
				strings.TrimSpace(text) != text {
				t.Errorf("campaign %q", text)
			}
		}
		var k Key
		if k.Visitor(query, location, agent) == 0 {
			t.Error("got visitor hash 0")
		}
	})
}

func commonRequest() *http.Request {
	return request("", map[string]string{
		"User-Agent": chrome, "Referer": "https://www.example.com/articles/1", "Accept-Language": "en-GB,en;q=0.9",
		"Accept": "text/html", "Accept-Encoding": "gzip, br", "Sec-Fetch-Mode": "navigate",
		"Upgrade-Insecure-Requests": "1",
	})
}
