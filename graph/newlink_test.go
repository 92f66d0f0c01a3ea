package graph

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
)

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
