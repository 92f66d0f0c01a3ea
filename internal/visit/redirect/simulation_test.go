package redirect

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/click/visitor/visitortest"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// ruleTo has a target for each path.
func ruleTo(name string, when *routing.Condition, paths ...string) *routing.Rule {
	r := &routing.Rule{Name: &name, When: []*routing.Condition{when}}
	for _, path := range paths {
		r.Targets = append(r.Targets, &routing.Target{Name: new(path), URL: new("https://example.com/" + path)})
	}
	return r
}

// rulesBefore and rulesAfter are the rules of a link before a change and after it.
func rulesBefore() []*routing.Rule {
	return []*routing.Rule{
		ruleTo("apple", &routing.Condition{OS: []string{"iOS"}}, "apple"),
		ruleTo("split", &routing.Condition{Country: []string{"DE"}}, "a", "b"),
		ruleTo("french", &routing.Condition{Language: []string{"fr"}}, "french"),
	}
}

func rulesAfter() []*routing.Rule {
	rules := rulesBefore()
	rules[0].Unless = []*routing.Condition{{Referrer: []string{".example.org"}}}
	rules[1].Targets[1].Share = new(3)
	office := ruleTo("office", &routing.Condition{Weekly: &routing.WeeklySchedule{Timezone: "Europe/Berlin",
		Days: routing.Weekdays[1:6], From: "09:00", To: "17:30"}}, "office")
	office.When = append(office.When, &routing.Condition{Language: []string{"de"}})
	swiss := ruleTo("swiss", &routing.Condition{Country: []string{"CH"}}, "swiss")
	swiss.When = append(swiss.When, &routing.Condition{Query: &routing.QueryCondition{Name: "ref"}})
	return append([]*routing.Rule{office, rules[0], swiss}, append(rules[1:],
		ruleTo("bots", &routing.Condition{Bot: new(true)}, "bots"))...)
}

// loaded is a visit of the load.
type loaded struct {
	header                  http.Header
	address, query, country string
	isPrivate               bool
	before, after           string // locations
}

const (
	iPhone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 " +
		"Mobile/15E148 Safari/604.1"
	windows = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36"
	curl    = "curl/8.10.1"
)

// drawLoad chooses visits at random.
func drawLoad(random *rand.Rand, n int) (all []*loaded) {
	one := func(values ...string) string { return values[random.IntN(len(values))] }
	addresses := map[string]string{
		"DE": "192.0.2.1:1", "CH": "198.51.100.1:1", "FR": "203.0.113.1:1", "": "192.88.99.1:1",
	}
	for range n {
		v := &loaded{country: one("DE", "CH", "FR", ""), header: http.Header{}}
		v.query = one("", "?ref=mail", "?utm_source=x")
		v.address = addresses[v.country]
		agent := one(iPhone, windows, curl)
		v.header.Set("User-Agent", agent)
		v.header.Set("Accept-Language", one("", "de-AT,de;q=0.8", "fr,de;q=0.8", "en;q=0.5,fr"))
		v.header.Set("Referer", one("", "https://news.example/", "https://www.example.org/page",
			"https://a.example.org/"))
		if v.isPrivate = agent != curl && random.IntN(10) == 0; v.isPrivate {
			v.header.Set("Sec-GPC", "1")
		}
		all = append(all, v)
	}
	return all
}

// TestSimulation_IsWhatHappens sends the same load to a link before a change of its rules and to one
// after it. The simulation of the change with the clicks of the first has the flows that happened,
// but for draws and for visits of which clicks store too little.
func TestSimulation_IsWhatHappens(t *testing.T) {
	each(t, func(t *testing.T, b *bundle, d *db.DB) {
		const visits = 5000
		path := filepath.Join(t.TempDir(), "countries.mmdb")
		must.NoError(t, visitortest.WriteCountries(path, map[string]string{
			"192.0.2.0/24": "DE", "198.51.100.0/24": "CH", "203.0.113.0/24": "FR",
		}))
		countries := must.Value(visitor.OpenCountries(path, false, slog.New(slog.DiscardHandler)))(t)
		b.Visits, b.HitQuota = visitor.NewReader(countries), 1<<40
		create := func(rules []*routing.Rule) *link.Link {
			change := optional.Set(&routing.Change{Rules: optional.Set(rules)})
			return b.link(t, creation.Input{URL: "https://example.com/", Strategy: new(link.Random),
				Fields: linkfield.Change{Routing: change}})
		}
		first, second, start := create(rulesBefore()), create(rulesAfter()), b.now
		load := drawLoad(rand.New(rand.NewPCG(3, 9)), visits)
		for _, v := range load {
			b.turnTo(b.now.Add(2 * time.Minute))
			visit := func(l *link.Link) string {
				return b.visitWith(t, v.address, http.MethodGet, "/"+l.Code+v.query, v.header).Header().Get("Location")
			}
			v.before, v.after = visit(first), visit(second)
		}
		if n := b.clicks(t, first); n != visits {
			t.Fatalf("%d clicks", n)
		}
		draft := must.Value(b.edit.Draft(t.Context(), first, &routing.Change{Rules: optional.Set(rulesAfter())}))(t)
		store := &stats.Store{Clicks: b.counts, Ledger: &clickstore.Ledger{DB: d}, DB: d, Now: b.Now}
		s := must.Value(store.Stats(t.Context(), b.mine, clickstore.Subject{LinkID: first.ID},
			&clickstore.Range{From: start, To: b.now.Add(time.Hour)}, "", clickstore.Filter{}))(t)
		got := must.Value(s.Simulate(t.Context(), first.OriginalURL, first.Routing, draft.Routing))(t)
		compareLoad(t, load, got)
	})
}

// compareLoad compares a simulation with what has happened to a load.
func compareLoad(t *testing.T, load []*loaded, got *stats.Simulation) {
	t.Helper()
	const split = "https://example.com/a or b"
	name := func(location string) string {
		if location == "https://example.com/a" || location == "https://example.com/b" {
			return split
		}
		return location
	}
	want, drawn, unknown := map[[2]string]int64{}, map[string]float64{}, int64(0)
	for _, v := range load {
		isDecided := v.after == "https://example.com/office" || v.after == "https://example.com/apple"
		if v.isPrivate || v.country == "CH" && !isDecided {
			unknown++
			continue
		}
		want[[2]string{v.before, name(v.after)}]++
		drawn[v.after]++
	}
	flows, expected := map[[2]string]int64{}, map[string]float64{}
	for _, f := range got.Flows {
		flows[[2]string{f.From.URL, name(f.To.URL)}] += f.Visits
		expected[f.To.URL] += float64(f.Visits)
		isNew := slices.Contains([]string{"office", "swiss", "bots"}, f.To.RuleName)
		if f.To.RuleName != "" && isNew != (f.To.RuleID == "" && f.To.TargetID == "") {
			t.Errorf("the end %+v", f.To)
		}
	}
	if diff := cmp.Diff(want, flows); diff != "" {
		t.Errorf("flows (-happened +simulated):\n%s", diff)
	}
	if got.Visits != int64(len(load)) || got.Unknown != unknown || len(got.UnknownBecause) != 2 {
		t.Errorf("%d of %d visits are unknown because of %q, want %d", got.Unknown, got.Visits, got.UnknownBecause,
			unknown)
	}
	chiSquare := 0.0
	for _, location := range []string{"https://example.com/a", "https://example.com/b"} {
		difference := drawn[location] - expected[location]
		chiSquare += difference * difference / expected[location]
	}
	const unlikely = 19.5 // one in 100,000, with one degree of freedom
	if !(chiSquare < unlikely) {
		t.Errorf("draws differ from the shares: chi-square %.1f, %v, want %v", chiSquare, fmt.Sprint(drawn), expected)
	}
	t.Logf("%d visits, %d moved, %d unknown, %d flows, chi-square %.2f", got.Visits, got.Moved, got.Unknown,
		len(got.Flows), chiSquare)
}
