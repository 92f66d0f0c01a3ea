package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// TestLink_IsFoundByOwnIDAndCode: by a workspace and a value, links of other workspaces are
// unknown.
func TestLink_IsFoundByOwnIDAndCode(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada, eve := b.person(t, "ada"), b.person(t, "eve")
		r := b.ask(t, ada.token, `mutation ($w: ID!) { createLink(input: {workspaceId: $w, url: "https://example.com/a",
			customCode: "promo", externalId: "SKU 1", metadata: [{key: "b", value: "2"}, {key: "a", value: "1"}]})
			{ link { externalId metadata { key value } } errors { message } } }`, "w", ada.workspace.ID())
		const want = `"externalId":"SKU 1","metadata":[{"key":"a","value":"1"},{"key":"b","value":"2"}]`
		if !strings.Contains(r.text, want) {
			t.Fatal(r.text)
		}
		own, others := ada.workspace.ID(), eve.workspace.ID()
		const byID, byCode = `external: {workspaceId: $w, externalId: %q}`, `code: {workspaceId: $w, code: %q}`
		for name, c := range map[string]struct {
			by, value string
			caller    person
			workspace string
			found     bool
		}{
			"external id":                    {byID, "SKU 1", ada, own, true},
			"external id, in other letters":  {byID, "sku 1", ada, own, false},
			"external id, of others":         {byID, "SKU 1", eve, own, false},
			"external id, elsewhere":         {byID, "SKU 1", eve, others, false},
			"external id, in an unknown one": {byID, "SKU 1", ada, id.New(id.Workspace), false},
			"code":                           {byCode, "promo", ada, own, true},
			"code, in other letters":         {byCode, "Promo", ada, own, true},
			"code, of others":                {byCode, "promo", eve, own, false},
			"code, elsewhere":                {byCode, "promo", eve, others, false},
		} {
			t.Run(name, func(t *testing.T) {
				by := fmt.Sprintf(c.by, c.value)
				for _, field := range []string{
					"link(by: {" + by + "}) { externalId }", "explainRedirect(by: {" + by + "}) { status }",
				} {
					r := b.ask(t, c.caller.token, "query ($w: ID!) { it: "+field+" }", "w", c.workspace)
					if found := !strings.Contains(r.text, `"it":null`); found != c.found || len(r.Errors) > 0 {
						t.Errorf("found %t: %s", found, r.text)
					}
				}
			})
		}
	})
}
