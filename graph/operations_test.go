package graph

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
)

const createLink = `mutation ($w: ID!, $url: String!, $code: String, $expires: Time) {
	createLink(input: {workspaceId: $w, url: $url, customCode: $code, expiresAt: $expires}) {
		created link { id shortUrl strategy status createdBy { name } workspace { slug viewerRole } }
		errors { code field }
	}
}`

// linkID finds ids of links.
var linkID = regexp.MustCompile(`lnk_\w{26}`)

func TestCreateLink_ReturnsLinkOrErrors(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ada := withAda(t, d)
		for _, c := range []struct{ url, want string }{
			{"https://example.com/a", `{"createLink":{"created":true,"link":{"id":"*",` +
				`"shortUrl":"http://sho.rt/ada/promo","strategy":"CUSTOM","status":"ACTIVE",` +
				`"createdBy":{"name":"ada"},"workspace":{"slug":"ada","viewerRole":"OWNER"}},"errors":[]}}`},
			{"https://example.com/b", `{"createLink":{"created":false,"link":null,` +
				`"errors":[{"code":"CODE_TAKEN","field":["customCode"]}]}}`},
		} {
			r := b.ask(t, ada.token, createLink, "w", ada.workspace.ID(), "url", c.url, "code", "promo")
			got := linkID.ReplaceAllString(string(r.Data), "*")
			if diff := cmp.Diff(c.want, got); diff != "" || len(r.Errors) > 0 {
				t.Errorf("(-want +got):\n%s%s", diff, r.Text)
			}
		}
	})
}

// TestRevertOperation_UndoesBulkCalls: each bulk call returns its operation, which versions, events
// and the audit log have. A call that changes nothing has none.
func TestRevertOperation_UndoesBulkCalls(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	l := b.link(t, ada, "https://example.com/")
	type bulk struct{ OperationID *string }
	var got struct{ Same, Update, Delete bulk }
	b.ask(t, ada.token, `mutation ($w: ID!, $id: ID!) {
		same: updateLinks(input: {workspaceId: $w, links: [{id: $id, title: null}]}) { operationId }
		update: updateLinks(input: {workspaceId: $w, links: [{id: $id, title: "new"}]}) { operationId }
		delete: deleteLinks(input: {workspaceId: $w, ids: [$id]}) { operationId }
	}`, "w", ada.workspace.ID(), "id", l.ID).Into(t, &got)
	if got.Same.OperationID != nil || got.Update.OperationID == nil || got.Delete.OperationID == nil {
		t.Fatalf("%+v", got)
	}
	const revert = `mutation ($w: ID!, $o: ID!) { revertOperation(input: {workspaceId: $w, operationId: $o}) {
		results { linkId link { status title } errors { code } } remaining errors { code } } }`
	for _, c := range []struct{ operationID, want string }{
		{*got.Update.OperationID, `{"linkId":"` + l.ID + `","link":null,"errors":[{"code":"CONFLICT"}]}`},
		{*got.Delete.OperationID, `{"linkId":"` + l.ID + `","link":{"status":"ACTIVE","title":"new"},"errors":[]}`},
	} {
		r := b.ask(t, ada.token, revert, "w", ada.workspace.ID(), "o", c.operationID)
		want := `{"revertOperation":{"results":[` + c.want + `],"remaining":0,"errors":[]}}`
		if diff := cmp.Diff(want, string(r.Data)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	update, deletion := `"operationId":"`+*got.Update.OperationID+`"`, `"operationId":"`+*got.Delete.OperationID+`"`
	r := b.ask(t, ada.token, `query ($w: ID!, $id: ID!) {
		workspace(by: {id: $w}) { events { edges { node { operationId } } }
			auditLog { edges { node { operationId } } } }
		link(by: {id: $id}) { versions { edges { node { operationId } } } } }`, "w", ada.workspace.ID(), "id", l.ID)
	if strings.Count(r.Text, update) != 3 || strings.Count(r.Text, deletion) != 6 { // the undo has its operation, too
		t.Errorf("want %s and %s: %s", update, deletion, r.Text)
	}
}

func TestUpdateLink_DistinguishesAbsentFromNull(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	l := b.link(t, ada, "https://example.com/")
	const query = `mutation ($in: UpdateLinkInput!) { updateLink(input: $in) { link { title expiresAt ` +
		`redirectStatus } errors { code } } }`
	for _, c := range []struct {
		edit map[string]any
		want string
	}{
		{map[string]any{"title": "one", "expiresAt": "2100-01-01T00:00:00Z"},
			`{"title":"one","expiresAt":"2100-01-01T00:00:00Z","redirectStatus":302}`},
		{map[string]any{"redirectStatus": 307},
			`{"title":"one","expiresAt":"2100-01-01T00:00:00Z","redirectStatus":307}`},
		{map[string]any{"title": nil, "redirectStatus": nil},
			`{"title":null,"expiresAt":"2100-01-01T00:00:00Z","redirectStatus":307}`},
		{map[string]any{"expiresAt": nil}, `{"title":null,"expiresAt":null,"redirectStatus":307}`},
	} {
		c.edit["id"] = l.ID
		if got, want := b.ask(t, ada.token, query, "in", c.edit).Text,
			`{"data":{"updateLink":{"link":`+c.want+`,"errors":[]}}}`; got != want {
			t.Errorf("%v: %s", c.edit, got)
		}
	}
}

// TestMutations_ReadTheirOwnChanges: a mutation must not read objects that an earlier one loaded.
func TestMutations_ReadTheirOwnChanges(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	l := b.link(t, ada, "https://example.com/")
	r := b.ask(t, ada.token, `mutation ($id: ID!) {
		a: updateLink(input: {id: $id, tags: ["one"]}) { link { tags } }
		b: updateLink(input: {id: $id, tags: ["two"]}) { link { tags } }
	}`, "id", l.ID)
	if want := `{"a":{"link":{"tags":["one"]}},"b":{"link":{"tags":["two"]}}}`; string(r.Data) != want {
		t.Error(r.Text)
	}
}

// TestCost_OfBatches: a batch of a thousand links may request their basic fields, but not their stats.
func TestCost_OfBatches(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	for _, c := range []struct{ selection, want string }{
		{`link { id code shortUrl originalUrl canonicalUrl title tags status } errors { code message field }`, ""},
		{`link { id stats { clicks } } errors { code }`, "COMPLEXITY_LIMIT_EXCEEDED"},
	} {
		r := b.ask(t, ada.token, `mutation ($w: ID!, $ids: [ID!]!) { deleteLinks(input: {workspaceId: $w, ids: $ids}) {
			results { `+c.selection+` } } }`, "w", ada.workspace.ID(), "ids", make([]string, link.MaxBatch))
		if r.Codes() != c.want {
			t.Errorf("%s: %.200s", c.selection, r.Text)
		}
	}
}

func TestMe_IsNullForAnonymousUsers(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	if got := b.ask(t, "", `{ me { id } }`).Text; got != `{"data":{"me":null}}` {
		t.Error(got)
	}
	if got := b.ask(t, b.token(t, id.New(id.Account)), `{ me { id } }`).Text; got != `{"data":{"me":null}}` {
		t.Errorf("an account that is gone: %s", got)
	}
}

// TestConnections_ContinueAtTheirCursor reads a page of two of three links, and then the rest.
func TestConnections_ContinueAtTheirCursor(t *testing.T) {
	t.Parallel()
	b, ada := withAda(t, dbtest.MigratedSQLite(t))
	var all, seen []string
	for i := range 3 {
		all = append(all, b.link(t, ada, fmt.Sprintf("https://example.com/%d", i)).ID)
	}
	var after any
	for _, hasNext := range []string{`"hasNextPage":true`, `"hasNextPage":false`} {
		r := b.ask(t, ada.token, `query ($w: ID!, $after: String) { workspace(by: {id: $w}) {
			links(first: 2, after: $after) { nodes { id } pageInfo { hasNextPage endCursor } } } }`,
			"w", ada.workspace.ID(), "after", after)
		if !strings.Contains(r.Text, hasNext) {
			t.Errorf("%s, want %s", r.Text, hasNext)
		}
		seen = append(seen, linkID.FindAllString(r.Text, -1)...)
		after = regexp.MustCompile(`"endCursor":"([^"]+)"`).FindStringSubmatch(r.Text)[1]
	}
	slices.Sort(seen)
	if slices.Sort(all); !slices.Equal(seen, all) {
		t.Errorf("seen %v, want %v", seen, all)
	}
}

// TestPayloads_HaveUserErrors: payloadOrErrors sets the field of every payload.
func TestPayloads_HaveUserErrors(t *testing.T) {
	t.Parallel()
	schema := contract(t)
	for _, f := range schema.Mutation.Fields {
		payload := schema.Types[f.Type.Name()]
		if field := payload.Fields.ForName("errors"); field == nil || field.Type.String() != "[UserError!]!" {
			t.Errorf("%s of %s has no errors", payload.Name, f.Name)
		}
	}
}
