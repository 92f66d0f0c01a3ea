package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/route/routing"
)

var noon = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

func TestDecision_NamesTheReason(t *testing.T) {
	t.Parallel()
	to := func(url string) []*routing.Target { return []*routing.Target{{URL: &url}} }
	disabled := &routing.Rule{Enabled: new(false), Targets: to("https://example.com/disabled")}
	german := &routing.Rule{When: []*routing.Condition{{Country: []string{"DE"}}},
		Targets: to("https://example.com/de")}
	split := &routing.Rule{When: []*routing.Condition{{Bot: new(false)}}, Targets: append(to("https://example.com/a"),
		&routing.Target{URL: new("https://example.com/b"), Share: new(2)}, &routing.Target{Share: new(0)})}
	r := &routing.Routing{
		Rules: []*routing.Rule{disabled, german, split},
		UTM:   &routing.UTM{Source: new("news letter")},
	}
	program := routing.NewProgram("lnk_1", &routing.Settings{RedirectStatus: 302, Routing: r},
		"https://example.com/own")
	p := &program
	e := Decision(p, &routing.Request{Now: noon, Visit: routing.Visit{Languages: []string{"fr", "de"}}})
	if e.Visit.Language != "fr" || e.Reason != routing.ByRule || *e.RuleIndex != 2 || *e.TargetIndex != 1 ||
		len(e.Candidates) != 2 || !e.Consumes {
		t.Errorf("%+v", e)
	}
	if want := "https://example.com/b?utm_source=news%20letter"; *e.Location != want {
		t.Errorf("location %s, want %s", *e.Location, want)
	}
	var steps []string
	for _, s := range e.Steps[len(beforeRules):] {
		steps = append(steps, string(s.Step)+" "+string(s.Outcome)+" "+s.Detail)
	}
	want := `RULE SKIPPED The rule is disabled.
RULE SKIPPED The condition on country does not hold: the country is not known.
RULE APPLIED The rule holds.
TARGET APPLIED The target is drawn by share from 2.
LOCATION APPLIED It is the destination with UTM values.`
	if got := strings.Join(steps, "\n"); got != want {
		t.Errorf("steps\n%s\nwant\n%s", got, want)
	}
	for _, test := range []struct {
		test routing.Test
		want string
	}{
		{routing.Test{Status: new(302), Location: new("https://example.com/a?utm_source=news%20letter")}, ""},
		{routing.Test{Status: new(404)},
			"status 302 and Location https://example.com/b?utm_source=news%20letter, because of RULE"},
		{routing.Test{Location: new("https://example.com/c")},
			"status 302 and Location https://example.com/b?utm_source=news%20letter, because of RULE"},
	} {
		if got := e.Check(&test.test); got != test.want {
			t.Errorf("%+v: %q, want %q", test.test, got, test.want)
		}
	}
	ended := Decision(p, &routing.Request{Now: noon, Exhausted: true})
	last := ended.Steps[len(ended.Steps)-1]
	if ended.Reason != routing.LinkExhausted || ended.Consumes || last.Step != StepLimits || last.Outcome != Applied {
		t.Errorf("%+v", ended)
	}
}

func TestDecision_NamesTheAutomationStep(t *testing.T) {
	t.Parallel()
	p := &routing.Program{Lifecycle: routing.NewLifecycle(nil, nil), RedirectStatus: 302,
		Compiled: routing.Compile(&routing.Routing{Card: &routing.Card{Title: "A title"}})}
	for isCrawler, want := range map[bool]Outcome{true: Applied, false: Passed} {
		e := Decision(p, &routing.Request{Now: noon, Visit: routing.Visit{PreviewCrawler: isCrawler}})
		at := slices.IndexFunc(e.Steps, func(s Step) bool { return s.Step == StepAutomation })
		if at != 6 || e.Steps[at].Outcome != want || isCrawler != (at == len(e.Steps)-1) {
			t.Errorf("a crawler %t: %+v", isCrawler, e.Steps)
		}
	}
}
