package web

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// page is a handler that answers with a page of these words.
func page(title, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Page(w, r, http.StatusGone, title, text) })
}

func accepting(media string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Accept", media) }
}

func TestPage_ServesHTMLToBrowsers(t *testing.T) {
	t.Parallel()
	w := serve(page("This link is over", "Ask the sender."), "/", accepting(browser))
	body := w.Body.String()
	for _, want := range []string{
		"<!doctype html>", "<title>This link is over</title>", "<h1>This link is over</h1>", "<p>Ask the sender.</p>",
		">410<",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing from %s", want, body)
		}
	}
	want := http.Header{
		"Cache-Control":          {"no-store"},
		"Content-Length":         {strconv.Itoa(len(body))},
		"Content-Type":           {"text/html; charset=utf-8"},
		"Referrer-Policy":        {"no-referrer"},
		"Vary":                   {"Accept"},
		"X-Content-Type-Options": {"nosniff"},
		"X-Robots-Tag":           {"noindex, nofollow"},
		"Content-Security-Policy": {
			"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
		},
	}
	if diff := cmp.Diff(want, w.Header()); diff != "" || w.Code != http.StatusGone {
		t.Errorf("status %d, headers (-want +got):\n%s", w.Code, diff)
	}
}

func TestPage_ServesTextToOthers(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"", "*/*", "application/json", "text/plain"} {
		w := serve(page("This link is over", "Ask the sender."), "/", accepting(accept))
		if got := w.Body.String(); w.Code != http.StatusGone || got != "This link is over. Ask the sender.\n" {
			t.Errorf("%q is answered %d, %q", accept, w.Code, got)
		}
		want := http.Header{
			"Cache-Control":          {"no-store"},
			"Content-Length":         {strconv.Itoa(w.Body.Len())},
			"Content-Type":           {"text/plain; charset=utf-8"},
			"Referrer-Policy":        {"no-referrer"},
			"Vary":                   {"Accept"},
			"X-Content-Type-Options": {"nosniff"},
			"X-Robots-Tag":           {"noindex, nofollow"},
		}
		if diff := cmp.Diff(want, w.Header()); diff != "" {
			t.Errorf("%q: headers (-want +got):\n%s", accept, diff)
		}
	}
}

func TestPage_EscapesValues(t *testing.T) {
	t.Parallel()
	evil := `</title><script>alert("1")</script><img src=x onerror='alert(2)'>&amp;`
	body := serve(page(evil, evil), "/", accepting(browser)).Body.String()
	if strings.Contains(body, "<script") || strings.Contains(body, "<img") {
		t.Errorf("markup came through: %s", body)
	}
	if strings.Count(body, "&lt;script&gt;") != 3 || strings.Count(body, "&amp;amp;") != 3 {
		t.Errorf("the words are not all there, as they were written: %s", body)
	}
}

func TestPage_HasNoBodyForHEAD(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"*/*", browser} {
		get := serve(page("This link is over", "Ask."), "/", accepting(accept))
		head := serve(page("This link is over", "Ask."), "/", func(r *http.Request) {
			r.Method = http.MethodHead
			r.Header.Set("Accept", accept)
		})
		if head.Code != get.Code || head.Body.Len() != 0 {
			t.Errorf("%q: HEAD is answered %d with %d bytes", accept, head.Code, head.Body.Len())
		}
		if diff := cmp.Diff(get.Header(), head.Header()); diff != "" {
			t.Errorf("%q: headers (-GET +HEAD):\n%s", accept, diff)
		}
	}
}

func TestPage_AddsToVary(t *testing.T) {
	t.Parallel()
	w := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Cache-Control", "public, max-age=60")
		Page(w, r, http.StatusNotFound, "Nothing", "Here.")
	}), "/", nil)
	if diff := cmp.Diff([]string{"Origin", "Accept"}, w.Header().Values("Vary")); diff != "" {
		t.Errorf("Vary (-want +got):\n%s", diff)
	}
	if got := w.Header().Values("Cache-Control"); !slices.Equal(got, []string{"no-store"}) {
		t.Errorf("Cache-Control: %v among %v", got, slices.Sorted(maps.Keys(w.Header())))
	}
}
