package graph

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
)

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
