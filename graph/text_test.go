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
		b := setup(t, d)
		ada := b.person(t, "ada")
		const composed, decomposed = "Caf\u00e9 \u00c5", "Cafe\u0301 \u212b"
		ask := func(query, text string) reply {
			t.Helper()
			r := b.ask(t, ada.token, query, "w", ada.workspace.ID(), "t", text)
			if len(r.Errors) > 0 || strings.Contains(r.text, `"errors":[{`) {
				t.Errorf("%s", r.text)
			}
			return r
		}
		want := func(r reply, parts ...string) {
			t.Helper()
			for _, part := range parts {
				if !strings.Contains(r.text, part) {
					t.Errorf("no %s in %s", part, r.text)
				}
			}
		}
		want(ask(`mutation ($w: ID!, $t: String!) { createLink(input: {workspaceId: $w, strategy: RANDOM,
			url: "https://example.com/`+decomposed+`",
			externalId: $t, title: $t, note: $t, tags: [$t], metadata: [{key: "k", value: $t}]}) { link {
				originalUrl title note tags
			externalId metadata { value } } errors { message } } }`, decomposed),
			`"originalUrl":"https://example.com/`+decomposed+`"`, `"title":"`+composed+`"`, `"note":"`+composed+`"`,
			`"tags":["`+composed+`"]`, `"externalId":"`+composed+`"`, `"value":"`+composed+`"`)
		for _, text := range []string{composed, decomposed} {
			want(ask(`query ($w: ID!, $t: String!) { link(by: {external: {workspaceId: $w, externalId: $t}}) { code }
				workspace(by: {id: $w}) {
				a: links(filter: {tags: [$t]}) { totalCount } b: links(filter: {search: $t}) { totalCount }
				c: links(filter: {externalIds: [$t]}) { totalCount }
				d: links(filter: {metadata: {key: "k", value: $t}}) { totalCount }
				e: links(filter: {withoutTags: [$t]}) { totalCount } } }`, text), `"code":`, `"a":{"totalCount":1}`,
				`"b":{"totalCount":1}`, `"c":{"totalCount":1}`, `"d":{"totalCount":1}`, `"e":{"totalCount":0}`)
			want(ask(`mutation ($w: ID!, $t: String!) { upsertLinks(input: {workspaceId: $w, links: [{externalId: $t,
				url: "https://example.com/upserted"}]}) { results {
					outcome link { externalId } errors { message } } } }`, text),
				`"externalId":"`+composed+`"`)
		}
		r := b.ask(t, ada.token,
			`mutation ($w: ID!, $a: String!, $b: String!) { upsertLinks(input: {workspaceId: $w, links: [
			{externalId: $a, url: "https://example.com/a"}, {externalId: $b, url: "https://example.com/b"}]}) { errors {
				message } } }`,
			"w", ada.workspace.ID(), "a", composed, "b", decomposed)
		want(r, "occurs twice")
		if r := b.ask(t, ada.token, `mutation ($w: ID!, $a: String!, $b: String!) {
			createLinks(input: {workspaceId: $w, links: [
			{externalId: $a, url: "https://example.com/c", strategy: RANDOM},
			{externalId: $b, url: "https://example.com/c", strategy: RANDOM}]}) {
			results { errors { code } } } }`, "w", ada.workspace.ID(), "a", "n\u00e9w", "b", "ne\u0301w",
		); strings.Count(r.text, "EXTERNAL_ID_TAKEN") != 1 {
			t.Errorf("two links with one external id: %s", r.text)
		}
		want(
			ask(
				`mutation ($w: ID!, $t: String!) {
			createLink(input: {workspaceId: $w, url: $t, title: "a\u202eb\u2066c",
			routing: {endedUrl: $t, rules: [{targets: [{url: $t}]}]}}) { link { originalUrl title routing {
				endedUrl rules { targets {
			url } } } } errors { message } } }`, "\ufeff\u200b https://example.com/trimmed\u00a0\u2028\r\n\x00"),
			`"originalUrl":"https://example.com/trimmed"`, `"title":"abc"`, `"endedUrl":"https://example.com/trimmed"`,
			`"url":"https://example.com/trimmed"`)
		want(ask(`mutation ($w: ID!, $t: String!) { createLink(input: {workspaceId: $w,
			url: "https://example.com/fold", title: $t})
			{ link { code } errors { message } } }`, "ΟΔΟΣ Straße İzmir ﬁn"), `"code":`)
		for _, text := range []string{"οδος", "οδοσ", "STRASSE", "straẞe", "izmir", "ızmır", "ＦＩＮ"} {
			want(
				ask(`query ($w: ID!, $t: String!) { workspace(by: {id: $w}) { links(filter: {search: $t}) { totalCount }
				} }`, text),
				`"totalCount":1`)
		}
	})
}

// TestMutations_InvisibleText covers every argument for display text. Required text is refused when
// no character of it is visible, and optional text is removed; in other text the invisible
// characters are removed.
func TestMutations_InvisibleText(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada := b.person(t, "ada")
		l := b.link(t, ada, "https://example.com/")
		for _, c := range []struct {
			name, mutation string
			refused        string // the field of the error; empty for optional text
			stored         string // a part of the response for visible text
		}{
			{"account name",
				`register(input: {email: "$EMAIL@example.com", password: "correct horse battery", name: "$TEXT"}) {
				user { name } errors { code field } }`, "name", `"name":"ab"`},
			{"workspace name", `createWorkspace(input: {name: "$TEXT", slug: "new-slug"}) {
				workspace { name } errors { code field } }`, "name", `"name":"ab"`},
			{"changed workspace name", `updateWorkspace(input: {id: "$W", name: "$TEXT"}) {
				workspace { name } errors { code field } }`, "name", `"name":"ab"`},
			{"key name", `createApiKey(input: {workspaceId: "$W", name: "$TEXT", scopes: [LINKS_READ]}) {
				apiKey { name } errors { code field } }`, "name", `"name":"ab"`},
			{"tag", `createLink(input: {workspaceId: "$W", url: "https://example.com/a", tags: ["$TEXT"]}) {
				link { tags } errors { code field } }`, "tags", `"tags":["ab"]`},
			{"changed tag", `updateLink(input: {id: "$L", tags: ["$TEXT", "ab"]}) {
				link { tags } errors { code field } }`, "tags", `"tags":["ab"]`},
			{"title and note", `createLink(input: {workspaceId: "$W", url: "https://example.com/b", strategy: RANDOM,
				title: "$TEXT", note: "$TEXT"}) {
				link { title note } errors { code field } }`, "", `"title":"ab","note":"ab"`},
			{"changed title and note", `updateLink(input: {id: "$L", title: "$TEXT", note: "$TEXT"}) {
				link { title note } errors { code field } }`, "", `"title":"ab","note":"ab"`},
			{"details of a report", `reportLink(input: {shortUrl: "$URL", reason: SPAM, details: "$TEXT"}) {
				errors { code field } }`, "", `"errors":[]`},
		} {
			t.Run(c.name, func(t *testing.T) {
				send := func(text string) string {
					fill := strings.NewReplacer(
						"$W", ada.workspace.ID(), "$L", l.ID, "$URL", b.Links.ShortURL(l), "$TEXT", text, "$EMAIL",
						"new",
					)
					return b.ask(t, ada.token, "mutation { "+fill.Replace(c.mutation)+" }").text
				}
				got := send(`\u200B\u2060\u00AD\u3164\u2800\uFEFF\uDB40\uDC41`)
				if c.refused != "" && !strings.Contains(got,
					`"errors":[{"code":"INVALID_INPUT","field":["`+c.refused+`"]}]`) {
					t.Errorf("invisible %s: %s", c.name, got)
				}
				isNull := !strings.Contains(c.stored, "title") || strings.Contains(got, `"title":null,"note":null`)
				if c.refused == "" && (!strings.Contains(got, `"errors":[]`) || !isNull) {
					t.Errorf("invisible %s: %s", c.name, got)
				}
				if got := send(`\uFEFFa\u200Bb\u00AD`); !strings.Contains(got, c.stored) {
					t.Errorf("visible %s: %s, want %s", c.name, got, c.stored)
				}
			})
		}
	})
}
