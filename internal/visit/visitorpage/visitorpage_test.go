package visitorpage

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// message is a handler that answers with a page of these words.
func message(title, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		WriteEnglish(w, r, http.StatusGone, title, text)
	})
}

// serve answers one request, made by edit from a GET.
func serve(h http.Handler, target string, edit func(*http.Request)) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil)
	if edit != nil {
		edit(r)
	}
	h.ServeHTTP(w, r)
	return w
}

func accepting(media string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Accept", media) }
}

// TestMessage_ServesWhatIsAccepted: HTML to browsers, text to others, and to HEAD the same headers.
func TestMessage_ServesWhatIsAccepted(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{browser, "", "*/*", "application/json", "text/plain"} {
		w := serve(message("This link is over", "Ask the sender."), "/", accepting(accept))
		body := w.Body.String()
		want := http.Header{
			"Cache-Control":          {"no-store"},
			"Content-Length":         {strconv.Itoa(len(body))},
			"Content-Type":           {"text/plain; charset=utf-8"},
			"Referrer-Policy":        {"no-referrer"},
			"Vary":                   {"Accept"},
			"X-Content-Type-Options": {"nosniff"},
			"X-Robots-Tag":           {"noindex, nofollow"},
		}
		words := []string{"This link is over. Ask the sender.\n"}
		if accept == browser {
			want.Set("Content-Type", "text/html; charset=utf-8")
			want.Set("Content-Security-Policy", messages.Policy)
			words = []string{
				"<!doctype html>", "<title>This link is over</title>", "<h1>This link is over</h1>",
				"<p>Ask the sender.</p>",
			}
		}
		for _, want := range words {
			if !strings.Contains(body, want) {
				t.Errorf("%q: %s is missing from %s", accept, want, body)
			}
		}
		if diff := cmp.Diff(want, w.Header()); diff != "" || w.Code != http.StatusGone {
			t.Errorf("%q: status %d, headers (-want +got):\n%s", accept, w.Code, diff)
		}
		head := serve(message("This link is over", "Ask the sender."), "/", func(r *http.Request) {
			r.Method = http.MethodHead
			r.Header.Set("Accept", accept)
		})
		if diff := cmp.Diff(want, head.Header()); diff != "" || head.Code != w.Code || head.Body.Len() > 0 {
			t.Errorf("%q: HEAD is answered %d with %d bytes, headers (-want +got):\n%s", accept, head.Code,
				head.Body.Len(), diff)
		}
	}
}

func TestMessage_EscapesValues(t *testing.T) {
	t.Parallel()
	evil := `</title><script>alert("1")</script><img src=x onerror='alert(2)'>&amp;`
	body := serve(message(evil, evil), "/", accepting(browser)).Body.String()
	if strings.Contains(body, "<script") || strings.Contains(body, "<img") {
		t.Errorf("markup came through: %s", body)
	}
	if strings.Count(body, "&lt;script&gt;") != 3 || strings.Count(body, "&amp;amp;") != 3 {
		t.Errorf("the words are not all there, as they were written: %s", body)
	}
}

func TestMessage_AddsToVary(t *testing.T) {
	t.Parallel()
	w := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Cache-Control", "public, max-age=60")
		WriteEnglish(w, r, http.StatusNotFound, "Nothing", "Here.")
	}), "/", nil)
	if diff := cmp.Diff([]string{"Origin", "Accept"}, w.Header().Values("Vary")); diff != "" {
		t.Errorf("Vary (-want +got):\n%s", diff)
	}
	if got := w.Header().Values("Cache-Control"); !slices.Equal(got, []string{"no-store"}) {
		t.Errorf("Cache-Control: %v among %v", got, slices.Sorted(maps.Keys(w.Header())))
	}
}

func TestMessage_IsInWantedLanguage(t *testing.T) {
	t.Parallel()
	for wanted, want := range map[string]string{
		"":                       "en",
		"de":                     "de",
		"de-AT, en;q=0.9":        "de",
		"EN;q=0.5, fr-CA":        "fr",
		"ja, de;q=0.9":           "en", // only the most wanted language counts
		"pt-BR":                  "pt",
		"es;q=0":                 "en",
		"../texts, \"onload=1\"": "en",
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Write(w, r, http.StatusGone, Expired) })
		w := serve(h, "/", func(r *http.Request) {
			r.Header.Set("Accept", browser)
			r.Header.Set("Accept-Language", wanted)
		})
		title := Language(want).T("expired.title")
		if body := w.Body.String(); !strings.Contains(body, `<html lang="`+want+`">`) ||
			!strings.Contains(body, title) {
			t.Errorf("%q is answered in another language than %s: %s", wanted, want, body)
		}
		if diff := cmp.Diff([]string{"Accept-Language", "Accept"}, w.Header().Values("Vary")); diff != "" {
			t.Errorf("%q: Vary (-want +got):\n%s", wanted, diff)
		}
	}
}

// TestWrite_KeepsPagesApart: a page that was written before is that of the same message, language
// and minutes.
func TestWrite_KeepsPagesApart(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 2 {
		for _, language := range []string{"en", "de"} {
			for _, m := range []Message{Unavailable, Throttled, ManyAttempts} {
				for _, minutes := range []string{"5", "6"} {
					h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						Write(w, r, http.StatusTooManyRequests, m, "minutes", minutes)
					})
					body := serve(h, "/", func(r *http.Request) {
						r.Header.Set("Accept", browser)
						r.Header.Set("Accept-Language", language)
					}).Body.String()
					seen[body] = true
					text := Language(language).T(string(m)+".text", "minutes", minutes)
					if !strings.Contains(body, text) {
						t.Errorf("%q is missing from %s", text, body)
					}
				}
			}
		}
	}
	if len(seen) != 2*(1+1+2) {
		t.Errorf("%d pages", len(seen))
	}
}

// form answers with a form in English, to a browser.
func form(f Form, status int) *httptest.ResponseRecorder {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { WriteForm(w, r, status, f) })
	return serve(h, "/", accepting(browser))
}

func TestForm_HasFieldsOfItsKind(t *testing.T) {
	t.Parallel()
	const password, confirm = `name="password" type="password"`, `name="confirm" type="hidden" value="1"`
	const protected, wrong = "This link is protected by a password", "The password is wrong."
	for name, c := range map[string]struct {
		form       Form
		title      string
		has, lacks []string
	}{
		"password": {
			Form{NeedsPassword: true}, protected, []string{password}, []string{confirm, wrong},
		},
		"wrong password": {
			Form{NeedsPassword: true, IsWrong: true}, protected,
			[]string{password, wrong, `aria-describedby="error"`}, []string{confirm},
		},
		"notice": {
			Form{Notice: "Internal <b>use</b> only."}, "Before you continue",
			[]string{confirm, "Internal &lt;b&gt;use&lt;/b&gt; only."}, []string{password, "<b>"},
		},
		"password and notice": {
			Form{Notice: "Internal", NeedsPassword: true}, protected, []string{password, "Internal"}, []string{confirm},
		},
		"confirmation": {
			Form{}, "Do you want to open this link?", []string{confirm, "Press the button"}, []string{password},
		},
	} {
		c.form.ShortURL = "sho.rt/<code>"
		w := form(c.form, http.StatusOK)
		body := w.Body.String()
		for _, want := range append(c.has, "<title>"+c.title+"</title>", `<form method="post">`, "sho.rt/&lt;code&gt;",
			">Continue</button>") {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %s is missing from %s", name, want, body)
			}
		}
		for _, not := range append(c.lacks, "<script") {
			if strings.Contains(body, not) {
				t.Errorf("%s: %s is in %s", name, not, body)
			}
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "form-action") {
			t.Errorf("%s: the policy is %s", name, policy)
		}
	}
}

func TestForm_TellsProgramsHowToPass(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]Form{
		"This link is protected by a password\nSend the password in the header X-Link-Password.\n": {
			NeedsPassword: true},
		"This link is protected by a password\nInternal\nThe password is wrong. Check it, then try again.\n" +
			"Send the password in the header X-Link-Password.\n": {NeedsPassword: true, IsWrong: true,
			Notice: "Internal"},
		"Do you want to open this link?\nSend a POST request with confirm=1 to continue.\n": {},
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { WriteForm(w, r, http.StatusForbidden, f) })
		if w := serve(h, "/", accepting("*/*")); w.Body.String() != want || w.Code != http.StatusForbidden {
			t.Errorf("answered %d %q, want %q", w.Code, w.Body, want)
		}
	}
}

func TestReportForm_KeepsWhatWasEntered(t *testing.T) {
	t.Parallel()
	form := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		WriteReportForm(w, r, http.StatusBadRequest, ReportForm{
			ShortURL: `https://sho.rt/a"><script>`, Reason: "MALWARE", Details: "</textarea><script>",
			Error:   "report.refused",
			Reasons: []string{"SPAM", "MALWARE"},
		})
	})
	w := serve(form, "/abuse", accepting(browser))
	body := w.Body.String()
	for _, want := range []string{
		`action="/abuse"`, `value="https://sho.rt/a&#34;&gt;&lt;script&gt;"`,
		"&lt;/textarea&gt;&lt;script&gt;</textarea>",
		`<option value="MALWARE" selected>Its destination distributes harmful software</option>`, `role="alert"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing from %s", want, body)
		}
	}
	if w.Header().Get("Referrer-Policy") != "same-origin" {
		t.Errorf("browsers hide the origin of the form: %v", w.Header())
	}
	if strings.Contains(body, "<script") ||
		!strings.HasSuffix(w.Header().Get("Content-Security-Policy"), "form-action 'self'") {
		t.Errorf("%v: %s", w.Header(), body)
	}
	plain := serve(form, "/abuse", accepting("*/*")).Body.String()
	if !strings.HasPrefix(plain, "Report a short link\nThe report was not accepted.") || strings.Contains(plain, "<") {
		t.Errorf("the plain form is %q", plain)
	}
}
