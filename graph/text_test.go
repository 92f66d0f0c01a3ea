package graph

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
)

// TestText_IsComparedInNormalForm stores texts in one form and finds them in the other.
func TestText_IsComparedInNormalForm(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ada := withAda(t, d)
		const composed, decomposed = "Caf\u00e9 \u00c5", "Cafe\u0301 \u212b"
		expect := func(query, text string, parts ...string) {
			t.Helper()
			r := b.ask(t, ada.token, query, "w", ada.workspace.ID(), "t", text)
			for _, part := range parts {
				if !strings.Contains(r.Text, part) {
					t.Errorf("no %s in %s", part, r.Text)
				}
			}
		}
		expect(`mutation ($w: ID!, $t: String!) { createLink(input: {workspaceId: $w, strategy: RANDOM,
			url: "https://example.com/`+decomposed+`",
			externalId: $t, title: $t, note: $t, tags: [$t], metadata: [{key: "k", value: $t}]}) { link {
				originalUrl title note tags
			externalId metadata { value } } errors { message } } }`, decomposed,
			`"originalUrl":"https://example.com/`+decomposed+`"`, `"title":"`+composed+`"`, `"note":"`+composed+`"`,
			`"tags":["`+composed+`"]`, `"externalId":"`+composed+`"`, `"value":"`+composed+`"`)
		for _, text := range []string{composed, decomposed} {
			expect(`query ($w: ID!, $t: String!) { link(by: {external: {workspaceId: $w, externalId: $t}}) { code }
				workspace(by: {id: $w}) {
				a: links(filter: {tags: [$t]}) { totalCount } b: links(filter: {search: $t}) { totalCount }
				c: links(filter: {externalIds: [$t]}) { totalCount }
				d: links(filter: {metadata: {key: "k", value: $t}}) { totalCount }
				e: links(filter: {withoutTags: [$t]}) { totalCount } } }`, text, `"code":`, `"a":{"totalCount":1}`,
				`"b":{"totalCount":1}`, `"c":{"totalCount":1}`, `"d":{"totalCount":1}`, `"e":{"totalCount":0}`)
			expect(`mutation ($w: ID!, $t: String!) { upsertLinks(input: {workspaceId: $w, links: [{externalId: $t,
				url: "https://example.com/upserted"}]}) { results {
					outcome link { externalId } errors { message } } } }`, text,
				`"externalId":"`+composed+`"`)
		}
		expect(`mutation ($w: ID!, $t: String!) { upsertLinks(input: {workspaceId: $w, links: [
			{externalId: "`+composed+`", url: "https://example.com/a"},
			{externalId: $t, url: "https://example.com/b"}]}) { errors { message } } }`, decomposed, "occurs twice")
		if r := b.ask(t, ada.token, `mutation ($w: ID!, $a: String!, $b: String!) {
			createLinks(input: {workspaceId: $w, links: [
			{externalId: $a, url: "https://example.com/c", strategy: RANDOM},
			{externalId: $b, url: "https://example.com/c", strategy: RANDOM}]}) {
			results { errors { code } } } }`, "w", ada.workspace.ID(), "a", "n\u00e9w", "b", "ne\u0301w",
		); strings.Count(r.Text, "EXTERNAL_ID_TAKEN") != 1 {
			t.Errorf("two links with one external id: %s", r.Text)
		}
		expect(`mutation ($w: ID!, $t: String!) { createLink(input: {workspaceId: $w,
			url: "https://example.com/invisible", title: $t, note: $t}) { link { title note } } }`,
			"\u200b\u2060", `{"title":null,"note":null}`)
	})
}
