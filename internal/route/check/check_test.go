package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// parse returns the change that a JSON object of fields describes; null resets a field.
func parse(t *testing.T, text string) *routing.Change {
	t.Helper()
	var r routing.Routing
	must.NoError(t, json.Unmarshal([]byte(text), &r))
	fields := map[string]json.RawMessage{}
	must.NoError(t, json.Unmarshal([]byte(text), &fields))
	c := &routing.Change{}
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
	const declared = `{"rules": [
		{"name": "de", "when": [{"country": ["DE"]}], "targets": [{"url": "https://a.example/"}]},
		{"targets": [{"name": "x"}, {"url": "https://b.example/", "share": 3}]}]}`
	first, err := Apply(parse(t, declared), nil)
	must.NoError(t, err)
	again, err := Apply(parse(t, declared), first)
	must.NoError(t, err)
	wanttest.Equal(t, first, again, "the same declaration changes the routing")
	edited, err := Apply(parse(t, `{"rules": [{"targets": [{"name": "y"}, {"url": "https://b.example/", "share": 3}]},
		{"name": "de", "targets": [{"url": "https://other.example/", "targetId": "`+first.Rules[0].Targets[0].ID+`"},
			{}]}]}`), first)
	must.NoError(t, err)
	if edited.Rules[1].ID != first.Rules[0].ID || edited.Rules[1].Targets[0].ID != first.Rules[0].Targets[0].ID {
		t.Error("an edited rule with the same name has another id")
	}
	if edited.Rules[0].ID == first.Rules[1].ID {
		t.Error("a rule without a name and with another content has the id of a removed one")
	}
	swapped, err := Apply(parse(t, `{"rules": [{"targets": [{"url": "https://b.example/", "share": 3}, {"name": "x"}],
		"ruleId": "`+first.Rules[1].ID+`"}]}`), first)
	must.NoError(t, err)
	if swapped.Rules[0].Targets[0].ID != first.Rules[1].Targets[1].ID ||
		swapped.Rules[0].Targets[1].ID != first.Rules[1].Targets[0].ID {
		t.Error("targets lose their identity when they change places")
	}
	plain, err := Apply(parse(t, `{"rules": null}`), first)
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
		rule(`"ruleId": "rul_unknown"`):                                               "rules 0 ruleId",
		rule(`"stickiness": "SOME"`):                                                  "rules 0 stickiness",
		rule(`"when": [{}]`):                                                          "rules 0 when 0",
		rule(`"unless": [{"bot": true, "country": ["DE"]}]`):                          "rules 0 unless 0",
		rule(`"when": [{"country": []}]`):                                             "rules 0 when 0 country",
		rule(`"when": [{"country": ["AT", "UK"]}]`):                                   "rules 0 when 0 country 1",
		rule(`"when": [{"device": ["phone"]}]`):                                       "rules 0 when 0 device 0",
		rule(`"when": [{"language": ["d"]}]`):                                         "rules 0 when 0 language 0",
		rule(`"when": [{"referrer": ["https://x.example"]}]`):                         "rules 0 when 0 referrer 0",
		rule(`"when": [{"network": ["10.0.0.0/33"]}]`):                                "rules 0 when 0 network 0",
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
		after, err := Apply(parse(t, text), nil)
		if err == nil {
			t.Errorf("%s is accepted: %+v", text, after)
			continue
		}
		if e := errs.From(err); strings.Join(e.Field, " ") != field || !e.Kind.IsUserError() {
			t.Errorf("%s: %v at %v, want %s", text, err, e.Field, field)
		}
	}
	must.Value(Apply(parse(t, `{"endedUrl": "https://x.example/{host}/{code}?a={code}#b"}`), nil))(t)
}

func TestApply_RefusesLargeValues(t *testing.T) {
	t.Parallel()
	var rules []*routing.Rule
	for range maxRules {
		rules = append(rules,
			&routing.Rule{Targets: []*routing.Target{{URL: new("https://example.com/" + strings.Repeat("a", 1000))}}})
	}
	_, err := Apply(&routing.Change{Rules: optional.Set(rules)}, nil)
	if err == nil || !strings.Contains(err.Error(), "compiled") {
		t.Errorf("50 KiB of rules: %v", err)
	}
}

// TestApply_CountsIDsInTheSize adds targets until a routing is too large: a routing that was
// accepted before can still be changed.
func TestApply_CountsIDsInTheSize(t *testing.T) {
	t.Parallel()
	var stored *routing.Routing
	for n := 1; ; n++ {
		var rules []*routing.Rule
		for range min(n, maxRules) {
			rules = append(rules, &routing.Rule{Targets: slices.Repeat([]*routing.Target{{}}, maxTargets)})
		}
		after, err := Apply(&routing.Change{Rules: optional.Set(rules)}, nil)
		if err != nil || n > maxRules {
			break
		}
		stored = after
	}
	if n := len(stored.Rules); n == maxRules {
		t.Fatalf("%d rules are accepted: the size has no effect", n)
	}
	must.Value(Apply(parse(t, `{"forwardPath": true}`), stored))(t)
}

func TestApply_GateKeepsAbsentFields(t *testing.T) {
	t.Parallel()
	set := func(g *routing.GateChange) *routing.Change {
		return &routing.Change{Gate: optional.Edit[*routing.GateChange]{Set: true, To: g}}
	}
	first := set(&routing.GateChange{
		Password: optional.Set(&routing.Password{Text: "eight888", ID: "p", Hash: "h"}),
		Notice:   optional.Set(new("A\r\nnotice")),
	})
	from, err := Apply(first, nil)
	if err != nil || from.Gate.PasswordID != "p" || *from.Gate.Notice != "A\nnotice" ||
		*first.PasswordHash(nil) != "h" {
		t.Fatalf("%+v, %v", from, err)
	}
	more := set(&routing.GateChange{Confirm: optional.Set(new(true))})
	after, err := Apply(more, from)
	if err != nil || after.Gate.PasswordID != "p" || after.Gate.Notice == nil || !after.Gate.Confirm ||
		*more.PasswordHash(new("h")) != "h" {
		t.Errorf("%+v, %v", after.Gate, err)
	}
	removed := set(&routing.GateChange{Password: optional.Set[*routing.Password](nil)})
	if after, err := Apply(removed, from); err != nil || after.HasPassword() || removed.PasswordHash(new("h")) != nil {
		t.Errorf("%+v, %v", after, err)
	}
	for name, c := range map[string]*routing.Change{
		"null": set(nil),
		"nothing left": set(&routing.GateChange{
			Password: optional.Set[*routing.Password](nil), Notice: optional.Set[*string](nil),
		}),
	} {
		if after, err := Apply(c, from); err != nil || after != nil || c.PasswordHash(new("h")) != nil {
			t.Errorf("%s: %+v, %v", name, after, err)
		}
	}
	if (*routing.Change)(nil).PasswordHash(new("h")) != nil {
		t.Error("a plain link keeps its password")
	}
	for _, text := range []string{"", "seven77", strings.Repeat("x", 129)} {
		_, err := Apply(set(&routing.GateChange{Password: optional.Set(&routing.Password{Text: text})}), nil)
		if !errs.Is(err, errs.InvalidInput) {
			t.Errorf("a password of %d characters: %v", len(text), err)
		}
	}
	if _, err := Apply(set(&routing.GateChange{Notice: optional.Set(new(strings.Repeat("x", 2001)))}),
		nil); err == nil {
		t.Error("a notice of 2,001 characters is accepted")
	}
	if kept, err := from.WithPasswordOf(&routing.Routing{Gate: &routing.Gate{PasswordID: "q"}}); err != nil ||
		kept.Gate.PasswordID != "q" ||
		from.Gate.PasswordID != "p" {
		t.Errorf("%+v, %v", kept, err)
	}
	errstest.Want(t, errs.Conflict, "a password that is not stored")(from.WithPasswordOf(nil))
}

// TestApply_StoresNormalForms: values that are compared with those of visits are stored as visits
// have them.
func TestApply_StoresNormalForms(t *testing.T) {
	t.Parallel()
	after := must.Value(Apply(parse(t, `{"rules": [{"name": " de ", "targets": [{}], "when": [
		{"referrer": ["www.Example.com", ".Example.com"]}, {"network": ["::ffff:192.0.2.0/121", "2001:DB8::1/128"]},
		{"query": {"name": "cafe\u0301", "value": "u\u0308"}}, {"os": [" iOS "]}]}],
		"query": {"mode": "ADD", "only": ["cafe\u0301"]}}`), nil))(t)
	want := `[{"referrer":["example.com",".example.com"]},{"network":["192.0.2.0/25","2001:db8::1"]},` +
		`{"query":{"name":"caf\u00e9","value":"\u00fc"}},{"os":["iOS"]}]`
	var when []*routing.Condition
	must.NoError(t, json.Unmarshal([]byte(want), &when))
	rule := after.Rules[0]
	if diff := cmp.Diff(when, rule.When); diff != "" || after.Query.Only[0] != "caf\u00e9" || *rule.Name != "de" ||
		!*rule.Enabled || *rule.Targets[0].Share != 1 || rule.Stickiness != routing.NotSticky {
		t.Errorf("%+v\n%s", rule, diff)
	}
}
