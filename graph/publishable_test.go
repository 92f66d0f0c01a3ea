package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// TestPublishableKey_RequestsCreationsAlone tries all fields of the roots, and all of the payload.
func TestPublishableKey_RequestsCreationsAlone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newNodeWorld(t, d)
		w.Meter.Off = true
		key := w.key(t, workspace.CreateLinks)
		schema := contract(t)
		for _, root := range []string{"Query", "Mutation"} {
			for _, f := range schema.Types[root].Fields {
				if strings.HasPrefix(f.Name, "__") || len(f.Arguments) > 0 {
					continue // server's walk calls all of them with such a key
				}
				fields := "{ __typename }"
				if schema.Types[f.Type.Name()].IsLeafType() {
					fields = ""
				}
				r := w.ask(t, key, fmt.Sprintf("%s { %s %s }", strings.ToLower(root), f.Name, fields))
				if !strings.Contains(r.Text, `"FORBIDDEN"`) {
					t.Errorf("%s.%s: %s", root, f.Name, r.Text)
				}
			}
		}
		const create = `mutation ($in: CreateLinkInput!) { createLink(input: $in) { %s } }`
		in := map[string]any{"workspaceId": w.ada.workspace.ID(), "url": "https://example.com/published"}
		if r := w.ask(t, key, fmt.Sprintf(create, "shortUrl created link { id code note } errors { code }"), "in",
			in); !strings.Contains(r.Text, `"created":true,"link":null,"errors":[]`) ||
			!strings.Contains(r.Text, `"shortUrl":"http`) {
			t.Errorf("%s", r.Text)
		}
		for _, field := range []string{"sameDestination", "ignored"} {
			if r := w.ask(t, key, fmt.Sprintf(create, field), "in", in); !strings.Contains(r.Text, `"FORBIDDEN"`) {
				t.Errorf("%s: %s", field, r.Text)
			}
		}
		in["url"] = "https://evil.example/"
		if r := w.ask(t, key, fmt.Sprintf(create, "shortUrl errors { code field }"), "in",
			in); !strings.Contains(r.Text, `"shortUrl":null,"errors":[{"code":"INVALID_INPUT","field":["url"]}]`) {
			t.Errorf("another host: %s", r.Text)
		}
		for name, query := range map[string]string{
			"link":      `query ($x: ID!) { link(by: {id: $x}) { id } }`,
			"workspace": `query ($x: ID!) { workspace(by: {id: $x}) { name } }`,
			"node":      `query ($x: ID!) { node(id: $x) { id } }`,
			"delete":    `mutation ($x: ID!) { deleteLink(input: {id: $x}) { errors { code } } }`,
			"folder":    `mutation ($x: ID!) { createFolder(input: {workspaceId: $x, name: "n"}) { errors { code } } }`,
		} {
			if r := w.ask(t, key, query, "x", w.ada.workspace.ID()); !strings.Contains(r.Text, `"FORBIDDEN"`) {
				t.Errorf("%s: %s", name, r.Text)
			}
		}
	})
}
