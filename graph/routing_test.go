package graph

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
)

// TestClick_ReportsRuleAndTarget in the list, in filters and in breakdowns, and null or an empty
// text for a click without them.
func TestClick_ReportsRuleAndTarget(t *testing.T) {
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
		routed.ClickedAt, routed.RuleID, routed.TargetID = time.Now(), rule, target
		clicks.Record(&plain)
		clicks.Record(&routed)
		if err := clicks.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := b.ask(t, ada.token, `query ($id: ID!, $rule: String!, $target: String!) { node(id: $id) { ... on Link {
			all: clicks { edges { node { ruleId targetId } } }
			ofRule: clicks(filter: {rule: $rule}) { edges { node { targetId } } }
			ofNone: clicks(filter: {target: ""}) { edges { node { targetId } } }
			stats(filter: {target: $target}) { clicks }
			both: stats(filter: {rule: $rule, target: ""}) { clicks }
			whole: stats {
				rules: breakdown(by: RULE) { value clicks } targets: breakdown(by: TARGET) { value clicks }
			} } } }`, "id", l.ID, "rule", rule, "target", target)
		const want = `{"data":{"node":{` +
			`"all":{"edges":[{"node":{"ruleId":"` + rule + `","targetId":"` + target + `"}},` +
			`{"node":{"ruleId":null,"targetId":null}}]},` +
			`"ofRule":{"edges":[{"node":{"targetId":"` + target + `"}}]},` +
			`"ofNone":{"edges":[{"node":{"targetId":null}}]},` +
			`"stats":{"clicks":1},"both":{"clicks":0},` +
			`"whole":{"rules":[{"value":"","clicks":1},{"value":"` + rule + `","clicks":1}],` +
			`"targets":[{"value":"","clicks":1},{"value":"` + target + `","clicks":1}]}}}}`
		if diff := cmp.Diff(want, r.text); diff != "" {
			t.Errorf("response (-want +got):\n%s", diff)
		}
	})
}
