package graph

import (
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// TestExplainRedirect_NamesTheField sends a visit and an unsaved routing with a wrong value.
func TestExplainRedirect_NamesTheField(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
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
		if !strings.Contains(r.Text, want) {
			t.Errorf("%s: %s, want %s", arguments, r.Text, want)
		}
	}
}

// TestClicks_NameRulesTargetsAndSources: in the list, in filters, and in breakdowns, which have
// labels of named and unnamed parts of a routing.
func TestClicks_NameRulesTargetsAndSources(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ada := withAda(t, d)
		rules := optional.Set([]*routing.Rule{
			{Name: new("Germans"), Targets: []*routing.Target{{Name: new("A")}, {URL: new("https://example.com/b")}}},
			{Targets: []*routing.Target{{}}},
		})
		l := b.create(t, ada.workspace,
			creation.Input{URL: "https://example.com/own",
				Fields: linkfield.Change{Routing: optional.Set(&routing.Change{Rules: rules})}})
		clicks := clicktest.New(t, b.db, time.Now)
		clicktest.Run(t, clicks.Recorder)
		one := click.Click{WorkspaceID: ada.workspace.ID(), LinkID: l.ID, ClickedAt: time.Now(), Status: 302}
		plain := one
		clicks.Record(&plain)
		for _, rule := range l.Routing.Rules {
			for _, target := range rule.Targets {
				routed := one
				routed.RuleID, routed.TargetID, routed.QRSource = rule.ID, target.ID, "flyer"
				clicks.Record(&routed)
			}
		}
		must.NoError(t, clicks.Flush(t.Context()))
		second := l.Routing.Rules[1]
		got := b.ask(t, ada.token, `query ($id: ID!, $rule: String!) { node(id: $id) { ... on Link {
			ofRule: clicks(filter: {rule: $rule}) { nodes { ruleId targetId qrSource } }
			ofNone: clicks(filter: {target: ""}) { nodes { ruleId targetId qrSource } }
			ofSource: stats(filter: {qrSource: "flyer"}) { clicks }
			stats { rules: breakdown(by: RULE) { label } targets: breakdown(by: TARGET) { label }
				links: breakdown(by: STATUS) { label } }
		} } }`, "id", l.ID, "rule", second.ID).Text
		for _, part := range []string{
			`"ofRule":{"nodes":[{"ruleId":"` + second.ID + `","targetId":"` + second.Targets[0].ID +
				`","qrSource":"flyer"}]}`,
			`"ofNone":{"nodes":[{"ruleId":null,"targetId":null,"qrSource":null}]}`, `"ofSource":{"clicks":3}`,
			`"Germans"`, `"Rule 2"`, `"A"`, `"https://example.com/b"`, `"https://example.com/own"`,
			`"links":[{"label":null}]`,
		} {
			if !strings.Contains(got, part) {
				t.Errorf("no %s in %s", part, got)
			}
		}
	})
}
