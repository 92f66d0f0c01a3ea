package graph

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// TestClick_ReportsRuleTargetAndSource in the list, in filters and in breakdowns, and null or an
// empty text for a click without them.
func TestClick_ReportsRuleTargetAndSource(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const rule, target = "rul_01k0000000000000000000000a", "tgt_01k0000000000000000000000a"
		b := setup(t, d)
		ada := b.person(t, "ada")
		l := b.link(t, ada, "https://example.com/")
		clicks := clicktest.New(t, b.db, time.Now)
		clicktest.Run(t, clicks.Recorder)
		plain := click.Click{WorkspaceID: ada.workspace.ID(), LinkID: l.ID, ClickedAt: time.Now().Add(-time.Second),
			Status: 302}
		routed := plain
		routed.ClickedAt, routed.RuleID, routed.TargetID, routed.QRSource = time.Now(), rule, target, "flyer"
		clicks.Record(&plain)
		clicks.Record(&routed)
		must.NoError(t, clicks.Flush(t.Context()))
		r := b.ask(t, ada.token, `query ($id: ID!, $rule: String!, $target: String!) { node(id: $id) { ... on Link {
			all: clicks { edges { node { ruleId targetId qrSource } } }
			ofRule: clicks(filter: {rule: $rule}) { edges { node { targetId } } }
			ofNone: clicks(filter: {target: ""}) { edges { node { targetId } } }
			ofSource: clicks(filter: {qrSource: "flyer"}) { edges { node { qrSource } } }
			stats(filter: {target: $target}) { clicks }
			both: stats(filter: {rule: $rule, target: ""}) { clicks }
			whole: stats {
				rules: breakdown(by: RULE) { value clicks } targets: breakdown(by: TARGET) { value clicks }
				sources: breakdown(by: QR_SOURCE) { value clicks }
			} } } }`, "id", l.ID, "rule", rule, "target", target)
		const want = `{"data":{"node":{` +
			`"all":{"edges":[{"node":{"ruleId":"` + rule + `","targetId":"` + target + `","qrSource":"flyer"}},` +
			`{"node":{"ruleId":null,"targetId":null,"qrSource":null}}]},` +
			`"ofRule":{"edges":[{"node":{"targetId":"` + target + `"}}]},` +
			`"ofNone":{"edges":[{"node":{"targetId":null}}]},` +
			`"ofSource":{"edges":[{"node":{"qrSource":"flyer"}}]},` +
			`"stats":{"clicks":1},"both":{"clicks":0},` +
			`"whole":{"rules":[{"value":"","clicks":1},{"value":"` + rule + `","clicks":1}],` +
			`"targets":[{"value":"","clicks":1},{"value":"` + target + `","clicks":1}],` +
			`"sources":[{"value":"","clicks":1},{"value":"flyer","clicks":1}]}}}}`
		if diff := cmp.Diff(want, r.text); diff != "" {
			t.Errorf("response (-want +got):\n%s", diff)
		}
	})
}

// TestExplainRedirect_NamesTheField sends a visit and an unsaved routing with a wrong value.
func TestExplainRedirect_NamesTheField(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada := b.person(t, "ada")
		l := b.link(t, ada, "https://example.com/")
		for arguments, want := range map[string]string{
			`visit: {country: "UK"}`: `"extensions":{"code":"INVALID_INPUT","field":["visit","country"]}`,
			`routing: {rules: [{targets: [{}, {url: "ftp://example.com/"}]}]}`: `"extensions":{"code":"INVALID_URL",` +
				`"field":["routing","rules","0","targets","1","url"]}`,
			`routing: {endedUrl: "http://sho.rt/x"}`: `"extensions":{"code":"UNSAFE_URL","field":["routing",` +
				`"endedUrl"]}`,
		} {
			r := b.ask(t, ada.token, `query ($id: ID!) { explainRedirect(by: {id: $id}, `+arguments+`) { status } }`,
				"id", l.ID)
			if !strings.Contains(r.text, want) {
				t.Errorf("%s: %s, want %s", arguments, r.text, want)
			}
		}
	})
}

// TestBreakdown_LabelsRulesAndTargets reads the labels of named and unnamed parts of a routing.
func TestBreakdown_LabelsRulesAndTargets(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada := b.person(t, "ada")
		l, _, err := b.Creation.Create(t.Context(), ada.workspace,
			creation.Input{URL: "https://example.com/own", Routing: &routing.Change{
				Rules: optional.Set([]*routing.Rule{
					{Name: new("Germans"),
						Targets: []*routing.Target{{Name: new("A")}, {URL: new("https://example.com/b")}}},
					{Targets: []*routing.Target{{}}},
				})}})
		must.NoError(t, err)
		clicks := clicktest.New(t, b.db, time.Now)
		clicktest.Run(t, clicks.Recorder)
		for i, rule := range l.Routing.Rules {
			for _, target := range rule.Targets {
				clicks.Record(&click.Click{WorkspaceID: ada.workspace.ID(), LinkID: l.ID, ClickedAt: time.Now(),
					Status: 302,
					RuleID: rule.ID, TargetID: target.ID, Visitor: int64(i)})
			}
		}
		must.NoError(t, clicks.Flush(t.Context()))
		got := b.ask(t, ada.token, `query ($id: ID!) { link(by: {id: $id}) { stats {
			rules: breakdown(by: RULE) { label } targets: breakdown(by: TARGET) { label }
			links: breakdown(by: STATUS) { label }
		} } }`, "id", l.ID).text
		for _, label := range []string{`"Germans"`, `"Rule 2"`, `"A"`, `"https://example.com/b"`,
			`"https://example.com/own"`,
			`"links":[{"label":null}]`} {
			if !strings.Contains(got, label) {
				t.Errorf("no %s in %s", label, got)
			}
		}
	})
}
