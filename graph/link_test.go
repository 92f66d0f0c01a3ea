package graph

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

const createDestination = `mutation ($in: CreateLinkInput!) {
	createLink(input: $in) { created sameDestination link { id originalUrl } errors { code } }
}`

// destination is a CreateLinkPayload.
type destination struct {
	Created, SameDestination bool
	Link                     *struct{ ID, OriginalURL string }
	Errors                   []struct{ Code string }
}

func (b *bundle) createDestination(t *testing.T, p person, url string, more ...string) destination {
	t.Helper()
	in := map[string]any{"workspaceId": p.workspace.ID(), "url": url}
	for i := 0; i < len(more); i += 2 {
		in[more[i]] = more[i+1]
	}
	var got struct{ CreateLink destination }
	r := b.ask(t, p.token, createDestination, "in", in)
	if err := json.Unmarshal(r.Data, &got); err != nil || len(r.Errors) > 0 {
		t.Errorf("%s: %v", r.text, err)
	}
	return got.CreateLink
}

func TestCreateLink_SameDestination(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada := b.person(t, "ada")
		const settings, billing = "https://spa.example/#/settings", "https://spa.example/#/billing"
		var deterministic destination
		for _, c := range []struct {
			name, url     string
			more          []string
			created, same bool
		}{
			{"new link", settings, nil, true, true},
			{"same URL", settings, nil, false, true},
			{"white space around the URL", " " + settings + "\n", nil, false, true},
			{"another fragment", billing, nil, false, false},
			{"no fragment", "https://spa.example/", nil, false, false},
			{"another spelling", "HTTPS://spa.example/#/settings", nil, false, false},
			{"new custom code", billing, []string{"customCode", "spa-page"}, true, true},
			{"custom code with another fragment", settings, []string{"customCode", "spa-page"}, false, false},
			{"idempotency key", billing, []string{"idempotencyKey", "k"}, false, false},
			{"idempotency key again", billing, []string{"idempotencyKey", "k"}, false, false},
			{"another strategy", billing, []string{"strategy", "RANDOM", "idempotencyKey", "r"}, true, true},
			{"another strategy again", billing, []string{"strategy", "RANDOM", "idempotencyKey", "r"}, true, true},
			{"URL outside ASCII", "https://exämple.com/ä#ö", nil, true, true},
			{"URL outside ASCII, encoded", "https://xn--exmple-cua.com/%C3%A4#%C3%B6", nil, false, true},
			{"invalid URL", "ftp://spa.example/", nil, false, false},
		} {
			got := b.createDestination(t, ada, c.url, c.more...)
			if got.Created != c.created || got.SameDestination != c.same || (got.Link == nil) != (len(got.Errors) > 0) {
				t.Errorf("%s: %+v, want created %t and sameDestination %t", c.name, got, c.created, c.same)
			}
			if c.name == "new link" {
				deterministic = got
			}
		}
		b.ask(t, ada.token, `mutation ($id: ID!) { deleteLink(input: {id: $id}) { errors { code } } }`, "id",
			deterministic.Link.ID)
		revived := b.createDestination(t, ada, billing)
		if revived.Link.ID != deterministic.Link.ID || revived.Created || !revived.SameDestination {
			t.Errorf("revived: %+v, want link %s with destination %s", revived, deterministic.Link.ID, billing)
		}
	})
}

// TestCreateLinks_CompareWithExistingLinks reports the differences of an existing link, also in a
// replay.
func TestCreateLinks_CompareWithExistingLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada := b.person(t, "ada")
		var links []any
		for _, url := range []string{"https://spa.example/#a", "https://spa.example/#b", "https://spa.example/#a",
			"ftp://a.example"} {
			links = append(links, map[string]any{"url": url})
		}
		links = append(links, map[string]any{"url": "https://spa.example/#a", "title": "A",
			"routing": map[string]any{"forwardPath": true}},
			map[string]any{"url": "https://spa.example/#a", "maxClicks": 1})
		const query = `mutation ($in: CreateLinksInput!) { createLinks(input: $in) {
			results { created sameDestination ignored link { originalUrl } errors { code field } } } }`
		want := `{"data":{"createLinks":{"results":[` +
			`{"created":true,"sameDestination":true,"ignored":[],"link":{"originalUrl":"https://spa.example/#a"},` +
			`"errors":[]},` +
			`{"created":false,"sameDestination":false,"ignored":[],` +
			`"link":{"originalUrl":"https://spa.example/#a"},"errors":[]},` +
			`{"created":false,"sameDestination":true,"ignored":[],"link":{"originalUrl":"https://spa.example/#a"},` +
			`"errors":[]},` +
			`{"created":false,"sameDestination":false,"ignored":[],"link":null,"errors":[{"code":"INVALID_URL",` +
			`"field":["url"]}]},` +
			`{"created":false,"sameDestination":true,"ignored":["title","routing.forwardPath"],` +
			`"link":{"originalUrl":"https://spa.example/#a"},"errors":[]},` +
			`{"created":false,"sameDestination":false,"ignored":[],"link":null,"errors":[{"code":"CONFLICT",` +
			`"field":["maxClicks"]}]}]}}}`
		for _, call := range []string{"first", "idempotent replay"} {
			in := map[string]any{"workspaceId": ada.workspace.ID(), "links": links, "idempotencyKey": "batch"}
			if diff := cmp.Diff(want, b.ask(t, ada.token, query, "in", in).text); diff != "" {
				t.Errorf("%s call (-want +got):\n%s", call, diff)
			}
		}
		const single = `mutation ($in: CreateLinkInput!) { createLink(input: $in) { ignored } }`
		in := map[string]any{"workspaceId": ada.workspace.ID(), "url": "https://spa.example/#a", "note": "n",
			"tags": []string{"x"}}
		if got := b.ask(t, ada.token, single, "in", in).
			text; got != `{"data":{"createLink":{"ignored":["note","tags"]}}}` {
			t.Error("createLink:", got)
		}
	})
}

func TestCreateLink_SameDestinationOfConcurrentRequests(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada := b.person(t, "ada")
		const requests = 20
		results := make([]destination, requests)
		var all sync.WaitGroup
		for i := range requests {
			all.Go(func() { results[i] = b.createDestination(t, ada, fmt.Sprintf("https://spa.example/#%d", i)) })
		}
		all.Wait()
		created := 0
		for i, got := range results {
			if got.Link == nil {
				t.Fatalf("request %d: %+v", i, got)
			}
			if got.Created {
				created++
			}
			want := got.Link.OriginalURL == fmt.Sprintf("https://spa.example/#%d", i)
			if got.SameDestination != want || got.Created != want {
				t.Errorf("request %d: %+v, want created and sameDestination %t", i, got, want)
			}
		}
		if created != 1 {
			t.Errorf("%d links created, want 1", created)
		}
	})
}

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

// TestNewLink_HasTheSameFieldsInEveryCreation creates links that are archived and have public
// stats.
func TestNewLink_HasTheSameFieldsInEveryCreation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada := b.person(t, "ada")
		const fields, selected = `archived: true, statsPublic: true`, `link { archived statsPublic } errors { message }`
		for name, call := range map[string]string{
			"createLink": `createLink(input: {workspaceId: $w, url: "https://example.com/1", ` + fields + `}) { ` +
				selected + ` }`,
			"createLinks": `createLinks(input: {workspaceId: $w, links: [{url: "https://example.com/2", ` + fields +
				`}]}) {
				results { ` + selected + ` } }`,
			"upsertLink": `upsertLink(input: {workspaceId: $w, link: {url: "https://example.com/3", externalId: "3", ` +
				fields + `}})
				{ ` + selected + ` }`,
		} {
			r := b.ask(t, ada.token, `mutation ($w: ID!) { `+call+` }`, "w", ada.workspace.ID())
			if !strings.Contains(r.text, `{"link":{"archived":true,"statsPublic":true},"errors":[]}`) {
				t.Errorf("%s: %s", name, r.text)
			}
		}
		r := b.ask(t, ada.token, `mutation ($w: ID!) { createLink(input: {workspaceId: $w, url: "https://example.com/1",
			archived: false, statsPublic: true}) { created ignored } }`, "w", ada.workspace.ID())
		if !strings.Contains(r.text, `{"created":false,"ignored":["archived"]}`) {
			t.Errorf("of an existing link: %s", r.text)
		}
		r = b.ask(t, ada.token, `mutation ($w: ID!) {
			one: upsertLink(input: {workspaceId: $w, link: {url: "https://example.com/4"}}) { errors { code field } }
			two: upsertLinks(input: {workspaceId: $w, links: [
				{url: "https://example.com/4"}, {url: "https://example.com/5"}]}) {
				results { errors { code field } } } }`, "w", ada.workspace.ID())
		const none = `{"errors":[{"code":"INVALID_INPUT","field":["externalId"]}]}`
		if want := `{"one":{"errors":[{"code":"INVALID_INPUT","field":["link","externalId"]}]},"two":{"results":[` +
			none + `,` +
			none + `]}}`; !strings.Contains(r.text, want) {
			t.Errorf("upserts without an external id: %s, want %s", r.text, want)
		}
	})
}

// TestQueryLink_TakesTheSameStatementsForUnknownAndForeignLinks keeps response times from revealing
// which codes exist.
func TestQueryLink_TakesTheSameStatementsForUnknownAndForeignLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada, eve := b.person(t, "ada"), b.person(t, "eve")
		l, _, err := b.Creation.Create(t.Context(), ada.workspace, creation.Input{URL: "https://example.com/"})
		must.NoError(t, err)
		statements := func(shortURL string) int64 {
			before := b.statements.Load()
			r := b.ask(t, eve.token, `query ($url: String!) { link(by: {shortUrl: $url}) { id } }`, "url", shortURL)
			if string(r.Data) != `{"link":null}` || len(r.Errors) > 0 {
				t.Fatalf("%s: %s", shortURL, r.text)
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
