package routing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/optional"
)

// parse returns the change that a JSON object of fields describes; null resets a field.
func parse(t *testing.T, text string) *Change {
	t.Helper()
	var r Routing
	must.NoError(t, json.Unmarshal([]byte(text), &r))
	fields := map[string]json.RawMessage{}
	must.NoError(t, json.Unmarshal([]byte(text), &fields))
	c := &Change{}
	for name := range fields {
		switch name {
		case "rules":
			c.Rules = optional.Set(r.Rules)
		case "query":
			c.Query = optional.Set(&r.Query)
		case "forwardPath":
			c.ForwardPath = optional.Set(&r.ForwardPath)
		case "utm":
			c.UTM = optional.Set(r.UTM)
		case "pendingUrl":
			c.PendingURL = optional.Set(r.PendingURL)
		case "endedUrl":
			c.EndedURL = optional.Set(r.EndedURL)
		case "qrSources":
			c.QRSources = optional.Set(r.QRSources)
		case "tests":
			c.Tests = optional.Set(r.Tests)
		}
	}
	return c
}

func TestApply_KeepsIdentities(t *testing.T) {
	t.Parallel()
	const declared = `{"rules": [{"name": "de", "when": [{"country": ["DE"]}], "targets": [{"url": "https://a.example/"}]},
		{"targets": [{"name": "x"}, {"url": "https://b.example/", "share": 3}]}]}`
	first, err := parse(t, declared).Apply(nil)
	must.NoError(t, err)
	again, err := parse(t, declared).Apply(first)
	must.NoError(t, err)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the same declaration changes the routing:\n%s", diff)
	}
	edited, err := parse(t, `{"rules": [{"targets": [{"name": "y"}, {"url": "https://b.example/", "share": 3}]},
		{"name": "de", "targets": [{"url": "https://other.example/", "id": "`+first.Rules[0].Targets[0].ID+`"},
			{}]}]}`).Apply(first)
	must.NoError(t, err)
	if edited.Rules[1].ID != first.Rules[0].ID || edited.Rules[1].Targets[0].ID != first.Rules[0].Targets[0].ID {
		t.Error("an edited rule with the same name has another id")
	}
	if edited.Rules[0].ID == first.Rules[1].ID {
		t.Error("a rule without a name and with another content has the id of a removed one")
	}
	swapped, err := parse(t, `{"rules": [{"targets": [{"url": "https://b.example/", "share": 3}, {"name": "x"}],
		"id": "`+first.Rules[1].ID+`"}]}`).Apply(first)
	must.NoError(t, err)
	if swapped.Rules[0].Targets[0].ID != first.Rules[1].Targets[1].ID ||
		swapped.Rules[0].Targets[1].ID != first.Rules[1].Targets[0].ID {
		t.Error("targets lose their identity when they change places")
	}
	plain, err := parse(t, `{"rules": null}`).Apply(first)
	if plain != nil || err != nil {
		t.Errorf("without rules: %v, %v", plain, err)
	}
}

func TestApply_RefusesBadInput(t *testing.T) {
	t.Parallel()
	rule := func(fields string) string { return `{"rules": [{"targets": [{}], ` + fields + `}]}` }
	weekly := func(zone, days, from, to string) string {
		const schedule = `"when": [{"weekly": {"timezone": %q, "days": %s, "from": %q, "to": %q}}]`
		return rule(fmt.Sprintf(schedule, zone, days, from, to))
	}
	long := strings.Repeat("x", 101)
	for text, field := range map[string]string{
		rule(`"name": ""`):                                                            "rules 0 name",
		rule(`"name": "` + long + `"`):                                                "rules 0 name",
		rule(`"id": "rul_unknown"`):                                                   "rules 0 id",
		rule(`"stickiness": "SOME"`):                                                  "rules 0 stickiness",
		rule(`"when": [{}]`):                                                          "rules 0 when 0",
		rule(`"unless": [{"bot": true, "country": ["DE"]}]`):                          "rules 0 unless 0",
		rule(`"when": [{"country": []}]`):                                             "rules 0 when 0 country",
		rule(`"when": [{"country": ["AT", "UK"]}]`):                                   "rules 0 when 0 country 1",
		rule(`"when": [{"device": ["phone"]}]`):                                       "rules 0 when 0 device 0",
		rule(`"when": [{"language": ["d"]}]`):                                         "rules 0 when 0 language 0",
		rule(`"when": [{"referrer": ["https://x.example"]}]`):                         "rules 0 when 0 referrer 0",
		rule(`"when": [{"network": ["10.0.0.0/33"]}]`):                                "rules 0 when 0 network 0",
		rule(`"when": [{"visit": "FIRST"}]`):                                          "rules 0 when 0 visit",
		rule(`"when": [{"query": {"name": ""}}]`):                                     "rules 0 when 0 query name",
		rule(`"when": [{"during": {}}]`):                                              "rules 0 when 0 during",
		weekly("Mars/Base", `["MONDAY"]`, "09:00", "10:00"):                           "rules 0 when 0 weekly timezone",
		weekly("localtime", `["MONDAY"]`, "09:00", "10:00"):                           "rules 0 when 0 weekly timezone",
		weekly("right/Europe/Berlin", `["MONDAY"]`, "09:00", "10:00"):                 "rules 0 when 0 weekly timezone",
		weekly("UTC", `[]`, "09:00", "10:00"):                                         "rules 0 when 0 weekly days",
		weekly("UTC", `["MONDAY"]`, "24:00", "10:00"):                                 "rules 0 when 0 weekly from",
		weekly("UTC", `["MONDAY"]`, "10:00", "10:00"):                                 "rules 0 when 0 weekly to",
		`{"rules": [{"targets": []}]}`:                                                "rules 0 targets",
		`{"rules": [{"targets": [{"share": 0}]}]}`:                                    "rules 0 targets",
		`{"rules": [{"targets": [{"share": 1001}]}]}`:                                 "rules 0 targets 0 share",
		`{"rules": [{"targets": [{"maxClicks": 0}]}]}`:                                "rules 0 targets 0 maxClicks",
		`{"rules": [{"targets": [{"url": "javascript:alert(1)"}]}]}`:                  "rules 0 targets 0 url",
		`{"rules": [{"targets": [{"name": "a"}, {"name": "a"}]}]}`:                    "rules 0 targets 1 name",
		`{"rules": [{"name": "a", "targets": [{}]}, {"name": "a", "targets": [{}]}]}`: "rules 1 name",
		`{"query": {"mode": "ADD", "only": ["a", "b\u0000"]}}`:                        "query only 1",
		`{"query": {"mode": "SOME"}}`:                                                 "query mode",
		`{"query": {"mode": "ADD", "only": ["a"], "except": ["b"]}}`:                  "query except",
		`{"utm": {}}`:                                             "utm",
		`{"utm": {"source": "` + long + `"}}`:                     "utm source",
		`{"pendingUrl": "ftp://x.example/"}`:                      "pendingUrl",
		`{"endedUrl": "https://{host}.example/"}`:                 "endedUrl",
		`{"endedUrl": "https://x.example/{slug}"}`:                "endedUrl",
		`{"endedUrl": "https://x.example/#{code}"}`:               "endedUrl",
		`{"qrSources": ["flyer", "Poster"]}`:                      "qrSources 1",
		`{"qrSources": [""]}`:                                     "qrSources 0",
		`{"qrSources": ["a", "b", "a"]}`:                          "qrSources 2",
		`{"qrSources": ["` + strings.Repeat("a", 33) + `"]}`:      "qrSources 0",
		`{"qrSources": ["a"` + strings.Repeat(`, "b"`, 50) + `]}`: "qrSources",
		`{"tests": [{"visit": {}}]}`:                              "tests 0",
		`{"tests": [{"status": 302}]}`:                            "tests 0",
		`{"tests": [{"visit": {"address": "x"}, "status": 302}]}`: "tests 0 visit address",
	} {
		after, err := parse(t, text).Apply(nil)
		if err == nil {
			t.Errorf("%s is accepted: %+v", text, after)
			continue
		}
		if e := errs.From(err); strings.Join(e.Field, " ") != field || !e.Kind.IsUserError() {
			t.Errorf("%s: %v at %v, want %s", text, err, e.Field, field)
		}
	}
	if _, err := parse(t, `{"endedUrl": "https://x.example/{host}/{code}?a={code}#b"}`).Apply(nil); err != nil {
		t.Error(err)
	}
}

func TestApply_RefusesLargeValues(t *testing.T) {
	t.Parallel()
	var rules []*Rule
	for range maxRules {
		rule := toTarget("https://example.com/" + strings.Repeat("a", 1000))
		rules = append(rules, rule)
	}
	_, err := (&Change{Rules: optional.Set(rules)}).Apply(nil)
	if err == nil || !strings.Contains(err.Error(), "compiled") {
		t.Errorf("50 KiB of rules: %v", err)
	}
}

// TestApply_CountsIDsInTheSize adds targets until a routing is too large: what was accepted before can
// still be changed.
func TestApply_CountsIDsInTheSize(t *testing.T) {
	t.Parallel()
	var stored *Routing
	for n := 1; ; n++ {
		var rules []*Rule
		for range min(n, maxRules) {
			rules = append(rules, &Rule{Targets: slices.Repeat([]*Target{{}}, maxTargets)})
		}
		after, err := (&Change{Rules: optional.Set(rules)}).Apply(nil)
		if err != nil || n > maxRules {
			break
		}
		stored = after
	}
	if n := len(stored.Rules); n == maxRules {
		t.Fatalf("%d rules are accepted: the size has no effect", n)
	}
	if _, err := parse(t, `{"forwardPath": true}`).Apply(stored); err != nil {
		t.Errorf("an unrelated change of a routing of %d rules: %v", len(stored.Rules), err)
	}
}
