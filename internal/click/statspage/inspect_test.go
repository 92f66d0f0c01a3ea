package statspage

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// keys is a language whose texts are their keys.
type keys string

func (k keys) T(key string, pairs ...string) string {
	return strings.Join(append([]string{key}, pairs...), " ")
}

func inspect(in Inspection) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	WriteInspection(w, httptest.NewRequest(http.MethodGet, "/autumn+", nil), keys("pt"), in)
	return w
}

func TestWriteInspection_ShowsHostsAndURL(t *testing.T) {
	t.Parallel()
	stats := example(3)
	in := Inspection{
		ShortURL: "https://lnk.example/autumn", Host: "xn--pypal-4ve.example",
		URL:       "https://xn--pypal-4ve.example/?a=<b>",
		Others:    []string{"a.example", "xn--bcher-kva.example"},
		CreatedAt: time.Date(2026, 11, 25, 23, 0, 0, 0, time.UTC),
		ReportURL: "https://lnk.example/abuse?link=x",
	}
	for name, p := range map[string]*Page{"alone": nil, "with stats": &stats} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := in
			in.Stats = p
			w := inspect(in)
			doc := parse(t, w.Body.String())
			var got []string
			for _, n := range elements(doc, "title", "h1", "li", "dt", "dd", "time", "a")[:9] {
				got = append(got, n.Data+": "+words(n))
			}
			if diff := cmp.Diff([]string{
				"title: inspect.title host pаypal.example", "h1: pаypal.example xn--pypal-4ve.example",
				"li: a.example", "li: bücher.example (xn--bcher-kva.example)", "dt: inspect.shortUrl",
				"dd: https://lnk.example/autumn", "dt: inspect.created", "dd: 2026-11-25", "time: 2026-11-25",
			}, got); diff != "" {
				t.Errorf("the page (-want +got):\n%s", diff)
			}
			if !strings.Contains(words(doc), in.URL) || attribute(elements(doc, "html")[0], "lang") != "pt" {
				t.Errorf("the URL or the language is missing: %s", w.Body)
			}
			if hasStats := len(elements(doc, "table")) > 0; hasStats != (p != nil) ||
				len(elements(doc, "script", "img")) > 0 {
				t.Errorf("with stats: %t, want %t", hasStats, p != nil)
			}
			if got := w.Header().Get("Content-Security-Policy"); got != inspectPage.Policy+"; form-action 'none'" {
				t.Errorf("the policy is %q", got)
			}
		})
	}
}

func TestWriteInspection_HidesTheDestination(t *testing.T) {
	t.Parallel()
	doc := parse(t, inspect(Inspection{
		ShortURL: "https://lnk.example/autumn", ReportURL: "https://lnk.example/abuse",
	}).Body.String())
	got := words(elements(doc, "h1")[0])
	if got != "inspect.hidden.title" || len(elements(doc, "li")) > 0 ||
		!strings.Contains(words(doc), "inspect.hidden.text") {
		t.Errorf("%q: %s", got, words(doc))
	}
}

// TestNameOf_ShowsLookalikes: a host is shown in Unicode only with its ASCII form.
func TestNameOf_ShowsLookalikes(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]hostName{
		"example.com":             {Name: "example.com"},
		"192.0.2.1":               {Name: "192.0.2.1"},
		"[2001:db8::1]":           {Name: "[2001:db8::1]"},
		"xn--pypal-4ve.example":   {"pаypal.example", "xn--pypal-4ve.example"},
		"www.xn--bcher-kva.de":    {"www.bücher.de", "www.xn--bcher-kva.de"},
		"xn--invalid-.example":    {Name: "xn--invalid-.example"},
		"xn--a.example":           {Name: "xn--a.example"},
		"xn--mgberp4a5d4ar.test":  {"السعودية.test", "xn--mgberp4a5d4ar.test"},
		"a.xn--n3h.example":       {"a.☃.example", "a.xn--n3h.example"},
		"xn--www-.xn--bcher-kva2": {Name: "xn--www-.xn--bcher-kva2"},
	} {
		if got := nameOf(host); got != want {
			t.Errorf("%s is %+v, want %+v", host, got, want)
		}
	}
}
