package redirect

import (
	"net/http/httptest"
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// TestHandler_ComparesLanguagesInOrder checks that an explanation agrees with the redirect.
func TestHandler_ComparesLanguagesInOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.HitQuota = 100
		var rules []*routing.Rule
		for _, language := range []string{"en", "zh-TW", "he", "nb"} {
			rules = append(rules, &routing.Rule{
				When:    []*routing.Condition{{Language: []string{language}}},
				Targets: []*routing.Target{{URL: new("https://example.com/" + language)}},
			})
		}
		l := b.link(t, creation.Input{URL: "https://example.com/own", CustomCode: new("shop"),
			Routing: &routing.Change{Rules: optional.Set(rules)}})
		for header, want := range map[string]struct{ path, decides string }{
			"":                                    {"own", ""},
			"*":                                   {"own", ""},
			"fr,de;q=0.5":                         {"own", "fr"},
			"zh-Hant-TW,en;q=0.9":                 {"zh-TW", "zh-Hant-TW"},
			"fr,en;q=0.7,zh-hant-tw;q=0.8":        {"zh-TW", "zh-hant-tw"},
			"zh-CN,en;q=0.9,zh-TW;q=0.8":          {"en", "en"},
			"ja;q=0.9,iw-IL;q=0.5,en;q=0":         {"he", "iw-IL"},
			"no-NO":                               {"nb", "no-NO"},
			"a b;q,;;,en;q=x,*;q=1,nb_NO;q=0.001": {"nb", "nb-NO"},
		} {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/ada/shop", nil)
			r.Header.Set("Accept-Language", header)
			b.mux.ServeHTTP(w, r)
			if got := w.Header().Get("Location"); got != "https://example.com/"+want.path {
				t.Errorf("%q is redirected to %q, want %s", header, got, want.path)
			}
			e := must.Value(b.links.Explain(t.Context(), link.Simulation{
				Link: l, Visit: &routing.Sample{AcceptLanguage: &header},
			}))(t)
			if *e.Location != w.Header().Get("Location") || e.Visit.Language != want.decides {
				t.Errorf("%q is explained by %q to %s", header, e.Visit.Language, *e.Location)
			}
		}
	})
}
