package graph

import (
	"testing"

	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/outbound/outboundtest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// TestVerifyDomain_ListsLoopingLinks of the workspace, to a caller who may read links. They do not
// keep the domain from being verified.
func TestVerifyDomain_ListsLoopingLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ada := withAda(t, d)
		names := outboundtest.OpenNames(t)
		b.Domains.Resolver = names.Resolver
		b.link(t, ada, "https://go.example.com/loop")
		b.link(t, ada, "https://example.com/")
		b.create(t, ada.workspace, creation.Input{URL: "https://example.com/routed", Fields: linkfield.Change{
			Routing: optional.Set(&routing.Change{EndedURL: optional.Set(new("https://go.example.com/ended"))}),
		}})
		b.link(t, b.person(t, "eve"), "https://go.example.com/foreign")
		_, key, err := b.APIKeys.Create(t.Context(), ada.workspace,
			apikey.NewKey{Name: "key", Scopes: []workspace.Permission{workspace.ReadDomains, workspace.WriteDomains}})
		must.NoError(t, err)
		added := must.Value(b.Domains.Add(t.Context(), ada.workspace, "go.example.com", domain.Codes{}))(t)
		for _, c := range []struct{ name, token, record, want, codes string }{
			{"without the record", ada.token, "", `{"verifyDomain":{"domain":null,"loopingLinks":null,` +
				`"errors":[{"code":"INVALID_INPUT"}]}}`, ""},
			{"a member", ada.token, added.RecordValue(), `{"verifyDomain":{"domain":{"status":"VERIFIED"},` +
				`"loopingLinks":[{"originalUrl":"https://example.com/routed"},` +
				`{"originalUrl":"https://go.example.com/loop"}],"errors":[]}}`, ""},
			{"a key that may not read links", key, added.RecordValue(),
				`{"verifyDomain":{"domain":{"status":"VERIFIED"},"loopingLinks":null,"errors":[]}}`, "FORBIDDEN"},
		} {
			names.SetTXT(added.RecordName(), c.record)
			got := b.ask(t, c.token, `mutation ($id: ID!) { verifyDomain(input: {id: $id}) {
				domain { status } loopingLinks { originalUrl } errors { code } } }`, "id", added.ID)
			if string(got.Data) != c.want || got.Codes() != c.codes {
				t.Errorf("%s: %s %s", c.name, got.Data, got.Codes())
			}
		}
	})
}
