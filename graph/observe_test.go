package graph

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/graph/transport/transporttest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestObserve_LogsEachOperationOnce covers every kind and outcome. The log contains the name of the
// operation, and nothing else of the request.
func TestObserve_LogsEachOperationOnce(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	const planted = "planted.example"
	for _, c := range []struct {
		name, query string
		variables   []any
		want        string
		token       string
	}{
		{name: "a query", query: `query Mine { me { email } }`, want: "kind=query name=Mine outcome=ok cost=2",
			token: ada.token},
		{name: "without a name", query: `{ me { id } }`, want: "kind=query outcome=ok cost=2"},
		{name: "a mutation whose payload has errors", query: createLink, variables: []any{"w", ada.workspace.ID(),
			"url", "ftp://" + planted},
			want: "kind=mutation outcome=ok cost=", token: ada.token},
		{name: "anonymous", query: createLink,
			variables: []any{"w", ada.workspace.ID(), "url", "https://" + planted},
			want:      "kind=mutation outcome=UNAUTHENTICATED cost="},
		{name: "a bad token", query: `query Q { me { id } }`, want: "kind=unread outcome=UNAUTHENTICATED",
			token: planted},
		{name: "no GraphQL", query: `{ "` + planted, want: "kind=unread outcome=BAD_REQUEST"},
		{name: "an unknown field", query: `query Q { planted }`, want: "kind=unread outcome=BAD_REQUEST"},
		{name: "a missing variable", query: `query Q($x: ID!) { node(id: $x) { id } }`,
			want: "kind=query name=Q outcome=BAD_REQUEST"},
		{name: "a subscription over HTTP", query: `subscription S { linkClicked(workspaceId: "` + planted +
			`") { id } }`,
			want: "kind=subscription name=S outcome=BAD_REQUEST cost="},
		{name: "a long name", query: `query ` + strings.Repeat("N", 80) + ` { me { id } }`,
			want: "kind=query name=" + strings.Repeat("N", 64) + " outcome=ok cost=2"},
		{name: "what broke", query: `query Q($w: ID!) { workspace(by: {id: $w}) { linkQuota { used } } }`,
			variables: []any{"w", ada.workspace.ID()},
			want:      "kind=query name=Q outcome=INTERNAL cost=", token: ada.token},
	} {
		if c.name == "what broke" {
			must.Value(b.db.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE link_usage RENAME TO elsewhere"))(t)
		}
		b.log.Reset()
		b.ask(t, c.token, c.query, c.variables...)
		if got := transporttest.Operations(b.log.String()); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), c.want)
		}
		for _, secret := range []string{planted, "example.com", ada.workspace.ID(), "email", "ftp"} {
			if strings.Contains(b.log.String(), secret) {
				t.Errorf("%s: the log says %s:\n%s", c.name, secret, b.log)
			}
		}
	}
	answered := b.Handler.Stats()
	want := map[string]map[string]int64{
		"query": {"ok": 3, "BAD_REQUEST": 1, "INTERNAL": 1}, "mutation": {"ok": 1, "UNAUTHENTICATED": 1},
		"subscription": {"BAD_REQUEST": 1}, "unread": {"UNAUTHENTICATED": 1, "BAD_REQUEST": 2},
	}
	if diff := cmp.Diff(want, answered.Outcomes); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if got := answered.Durations["query"].Count; got != 5 {
		t.Errorf("%d durations of queries, want 5", got)
	}
}
