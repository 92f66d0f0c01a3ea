package graph

import (
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

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
