package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// TestCreateLinks_CompareWithExistingLinks reports the differences of an existing link, also in a replay.
func TestCreateLinks_CompareWithExistingLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ada := withAda(t, d)
		const spa = "https://spa.example/#a"
		links := []any{
			map[string]any{"url": spa, "statsPublic": true}, map[string]any{"url": "https://spa.example/#b"},
			map[string]any{"url": " " + spa + "\n"}, map[string]any{"url": "ftp://a.example"},
			map[string]any{"url": spa, "title": "A", "archived": true, "routing": map[string]any{"forwardPath": true}},
			map[string]any{"url": spa, "maxClicks": 1}, map[string]any{"url": spa, "strategy": "COUNTER"},
		}
		const query = `mutation ($in: CreateLinksInput!) { createLinks(input: $in) { errors { code }
			results { created sameDestination ignored link { originalUrl } errors { code field } } } }`
		const there = `"link":{"originalUrl":"` + spa + `"},"errors":[]}`
		want := `{"data":{"createLinks":{"errors":[],"results":[` +
			`{"created":true,"sameDestination":true,"ignored":[],` + there + `,` +
			`{"created":false,"sameDestination":false,"ignored":[],` + there + `,` +
			`{"created":false,"sameDestination":true,"ignored":[],` + there + `,` +
			`{"created":false,"sameDestination":false,"ignored":[],"link":null,"errors":[{"code":"INVALID_URL",` +
			`"field":["url"]}]},` +
			`{"created":false,"sameDestination":true,"ignored":["title","archived","routing.forwardPath"],` + there +
			`,{"created":false,"sameDestination":false,"ignored":[],"link":null,"errors":[{"code":"CONFLICT",` +
			`"field":["maxClicks"]}]},` +
			`{"created":true,"sameDestination":true,"ignored":[],` + there + `]}}}`
		in := map[string]any{"workspaceId": ada.workspace.ID(), "links": links, "idempotencyKey": "batch"}
		for _, call := range []string{"first", "idempotent replay"} {
			if diff := cmp.Diff(want, b.ask(t, ada.token, query, "in", in).Text); diff != "" {
				t.Errorf("%s call (-want +got):\n%s", call, diff)
			}
		}
		in["links"], in["idempotencyKey"] = []any{}, nil
		none := b.ask(t, ada.token, query, "in", in).Text
		if none != `{"data":{"createLinks":{"errors":[{"code":"INVALID_INPUT"}],"results":[]}}}` {
			t.Error("no links:", none)
		}
		const single = `mutation ($in: CreateLinkInput!) { createLink(input: $in) { ignored } }`
		in = map[string]any{"workspaceId": ada.workspace.ID(), "url": spa, "note": "n", "tags": []string{"x"}}
		got := b.ask(t, ada.token, single, "in", in).Text
		if got != `{"data":{"createLink":{"ignored":["note","tags"]}}}` {
			t.Error("createLink:", got)
		}
	})
}

// TestUpsert_NamesTheMissingExternalID: below the link of a single call.
func TestUpsert_NamesTheMissingExternalID(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	r := b.ask(t, ada.token, `mutation ($w: ID!) {
		one: upsertLink(input: {workspaceId: $w, link: {url: "https://example.com/4"}}) { errors { code field } }
		two: upsertLinks(input: {workspaceId: $w, links: [{url: "https://example.com/4"}]}) {
			results { errors { code field } } } }`, "w", ada.workspace.ID())
	const want = `{"one":{"errors":[{"code":"INVALID_INPUT","field":["link","externalId"]}]},` +
		`"two":{"results":[{"errors":[{"code":"INVALID_INPUT","field":["externalId"]}]}]}}`
	if string(r.Data) != want {
		t.Errorf("%s, want %s", r.Text, want)
	}
}

// TestLink_IsFoundByOwnIDAndCode: by a workspace and a value, links of other workspaces are unknown.
func TestLink_IsFoundByOwnIDAndCode(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada, eve := b.person(t, "ada"), b.person(t, "eve")
		r := b.ask(t, ada.token, `mutation ($w: ID!) { createLink(input: {workspaceId: $w, url: "https://example.com/a",
			customCode: "promo", externalId: "SKU 1", metadata: [{key: "b", value: "2"}, {key: "a", value: "1"}]})
			{ link { externalId metadata { key value } } errors { message } } }`, "w", ada.workspace.ID())
		const want = `"externalId":"SKU 1","metadata":[{"key":"a","value":"1"},{"key":"b","value":"2"}]`
		if !strings.Contains(r.Text, want) {
			t.Fatal(r.Text)
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
					if found := !strings.Contains(r.Text, `"it":null`); found != c.found || len(r.Errors) > 0 {
						t.Errorf("found %t: %s", found, r.Text)
					}
				}
			})
		}
	})
}

// TestQueryLink_TakesTheSameStatementsForUnknownAndForeignLinks keeps response times from revealing which codes exist.
func TestQueryLink_TakesTheSameStatementsForUnknownAndForeignLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada, eve := b.person(t, "ada"), b.person(t, "eve")
		l := b.link(t, ada, "https://example.com/")
		statements := func(shortURL string) int64 {
			before := b.statements.Load()
			r := b.ask(t, eve.token, `query ($url: String!) { link(by: {shortUrl: $url}) { id } }`, "url", shortURL)
			if string(r.Data) != `{"link":null}` || len(r.Errors) > 0 {
				t.Fatalf("%s: %s", shortURL, r.Text)
			}
			return b.statements.Load() - before
		}
		statements(b.Links.ShortURL(l)) // reads the account
		unknown, foreign := statements("http://sho.rt/ada/never"), statements(b.Links.ShortURL(l))
		if unknown != foreign {
			t.Errorf("%d statements for an unknown link, %d for one of another workspace", unknown, foreign)
		}
	})
}
