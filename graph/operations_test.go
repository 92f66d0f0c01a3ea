package graph

import (
	"fmt"
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

func TestCreateLink_ReturnsLinkOrErrors(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada := b.person(t, "ada")
		b.ask(t, ada.token, createLink, "w", ada.workspace.ID(), "url", "https://example.com/taken", "code", "taken")
		for _, c := range []struct {
			url  string
			code any
			want string
		}{
			{"https://example.com/a", "promo",
				`{"createLink":{"created":true,"link":{"id":"*","shortUrl":"http://sho.rt/ada/promo",` +
					`"strategy":"CUSTOM","status":"ACTIVE","createdBy":{"name":"ada"},"workspace":{"slug":"ada",` +
					`"viewerRole":"OWNER"}},"errors":[]}}`},
			{"ftp://example.com", nil, `{"createLink":{"created":false,"link":null,"errors":[{"code":"INVALID_URL",` +
				`"field":["url"]}]}}`},
			{"http://sho.rt/x", nil, `{"createLink":{"created":false,"link":null,"errors":[{"code":"UNSAFE_URL",` +
				`"field":["url"]}]}}`},
			{"https://example.com/b", "taken",
				`{"createLink":{"created":false,"link":null,"errors":[{"code":"CODE_TAKEN","field":["customCode"]}]}}`},
			{"https://example.com/b", "login",
				`{"createLink":{"created":false,"link":null,"errors":[{"code":"CODE_RESERVED",` +
					`"field":["customCode"]}]}}`},
		} {
			t.Run(fmt.Sprint(c.url, " ", c.code), func(t *testing.T) {
				r := b.ask(t, ada.token, createLink, "w", ada.workspace.ID(), "url", c.url, "code", c.code)
				got := string(r.Data)
				if i := strings.Index(got, `"lnk_`); i >= 0 {
					got = got[:i+1] + "*" + got[i+1+len("lnk_")+26:]
				}
				if diff := cmp.Diff(c.want, got); diff != "" || len(r.Errors) > 0 {
					t.Errorf("(-want +got):\n%s%s", diff, r.text)
				}
			})
		}
	})
}

// TestRevertOperation_UndoesBulkCalls: each bulk call returns its operation, which versions, events
// and the audit log have. A call that changes nothing has none.
func TestRevertOperation_UndoesBulkCalls(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada")
	l := b.link(t, ada, "https://example.com/")
	type bulk struct{ OperationID *string }
	var got struct{ Same, Update, Delete bulk }
	b.ask(t, ada.token, `mutation ($w: ID!, $id: ID!) {
		same: updateLinks(input: {workspaceId: $w, links: [{id: $id, title: null}]}) { operationId }
		update: updateLinks(input: {workspaceId: $w, links: [{id: $id, title: "new"}]}) { operationId }
		delete: deleteLinks(input: {workspaceId: $w, ids: [$id]}) { operationId }
	}`, "w", ada.workspace.ID(), "id", l.ID).into(t, &got)
	if got.Same.OperationID != nil || got.Update.OperationID == nil || got.Delete.OperationID == nil {
		t.Fatalf("%+v", got)
	}
	const revert = `mutation ($w: ID!, $o: ID!) { revertOperation(input: {workspaceId: $w, operationId: $o}) {
		results { linkId link { status title } errors { code } } remaining errors { code } } }`
	for _, c := range []struct{ operationID, want string }{
		{*got.Update.OperationID, `{"linkId":"` + l.ID + `","link":null,"errors":[{"code":"CONFLICT"}]}`},
		{*got.Delete.OperationID, `{"linkId":"` + l.ID + `","link":{"status":"ACTIVE","title":"new"},"errors":[]}`},
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
	if strings.Count(r.text, update) != 3 || strings.Count(r.text, deletion) != 6 { // the undo has its operation, too
		t.Errorf("want %s and %s: %s", update, deletion, r.text)
	}
}

func TestUpdateLink_DistinguishesAbsentFromNull(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada")
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
		if got, want := b.ask(t, ada.token, query, "in", c.edit).text,
			`{"data":{"updateLink":{"link":`+c.want+`,"errors":[]}}}`; got != want {
			t.Errorf("%v: %s", c.edit, got)
		}
	}
}

// TestMutations_ReadTheirOwnChanges: a mutation must not read objects that an earlier one loaded.
func TestMutations_ReadTheirOwnChanges(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada")
	l := b.link(t, ada, "https://example.com/")
	r := b.ask(t, ada.token, `mutation ($id: ID!) {
		a: updateLink(input: {id: $id, tags: ["one"]}) { link { tags } }
		b: updateLink(input: {id: $id, tags: ["two"]}) { link { tags } }
	}`, "id", l.ID)
	if want := `{"a":{"link":{"tags":["one"]}},"b":{"link":{"tags":["two"]}}}`; string(r.Data) != want {
		t.Error(r.text)
	}
}

// TestCost_OfBatches: a batch of a thousand links may request their basic fields, but not their
// stats.
func TestCost_OfBatches(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada")
	ids := make([]string, link.MaxBatch)
	const (
		describing = `link { id code shortUrl originalUrl canonicalUrl title tags status } errors { code message ` +
			`field }`
		dear = `link { id stats { clicks } } errors { code }`
	)
	var texts strings.Builder
	for i := range 86 {
		fmt.Fprintf(&texts, " t%d: canonicalUrl", i)
	}
	for name, c := range map[string]struct{ selection, want string }{
		"plain fields":   {describing, ""},
		"statistics":     {dear, "COMPLEXITY_LIMIT_EXCEEDED"},
		"repeated field": {"link {" + texts.String() + " }", "COMPLEXITY_LIMIT_EXCEEDED"},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.ask(t, ada.token, `mutation ($w: ID!, $ids: [ID!]!) { deleteLinks(input: {workspaceId: $w, ids: `+
				`$ids}) { results { `+c.selection+` } } }`,
				"w", ada.workspace.ID(), "ids", ids)
			if r.codes() != c.want {
				t.Errorf("%.200s", r.text)
			}
		})
	}
	for query, variables := range map[string][]any{
		`mutation ($w: ID!, $x: [String!]!) { claimLinks(input: {workspaceId: $w, claimTokens: $x}) { results { ` +
			`status } } %s }`: {"w", ada.workspace.ID(), "x", ids[:100]},
		`mutation ($w: ID!) { checkLink(input: {id: $w}) { link { id } } %s ` +
			`}`: {"w", ada.workspace.ID()},
	} {
		var more strings.Builder
		body := query[strings.Index(query, "{")+1 : strings.Index(query, "%s")]
		for i := range 100 {
			fmt.Fprintf(&more, " a%d: %s", i, body)
		}
		if r := b.ask(t, ada.token, fmt.Sprintf(query, more.String()),
			variables...); r.codes() != "COMPLEXITY_LIMIT_EXCEEDED" && r.codes() != "BAD_REQUEST" {
			t.Errorf("%s a hundred times: %.200s", query, r.text)
		}
		if r := b.ask(t, ada.token, fmt.Sprintf(query, ""), variables...); r.codes() != "" {
			t.Errorf("%s: %.200s", query, r.text)
		}
	}
}

func TestCreateLinks_ReturnsAResultForEachLink(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada := b.person(t, "ada")
		const query = `mutation ($in: CreateLinksInput!) { createLinks(input: $in) {
			results { created link { strategy clickCount } errors { code field } } errors { code } } }`
		links := []any{
			map[string]any{"url": "https://example.com/"}, map[string]any{"url": "nothing"},
			map[string]any{"url": "https://example.com/", "strategy": "COUNTER"},
		}
		got := b.ask(t, ada.token, query, "in", map[string]any{"workspaceId": ada.workspace.ID(), "links": links}).text
		want := `{"data":{"createLinks":{"results":[{"created":true,"link":{"strategy":"DETERMINISTIC",` +
			`"clickCount":0},"errors":[]},` +
			`{"created":false,"link":null,"errors":[{"code":"INVALID_URL","field":["url"]}]},` +
			`{"created":true,"link":{"strategy":"COUNTER","clickCount":0},"errors":[]}],"errors":[]}}}`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		none := b.ask(t, ada.token, query, "in", map[string]any{"workspaceId": ada.workspace.ID(), "links": []any{}})
		if want := `{"data":{"createLinks":{"results":[],"errors":[{"code":"INVALID_INPUT"}]}}}`; none.text != want {
			t.Errorf("no links: %s", none.text)
		}
	})
}

func TestMe_IsNullForAnonymousUsers(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	if got := b.ask(t, "", `{ me { id } }`).text; got != `{"data":{"me":null}}` {
		t.Error(got)
	}
	if got := b.ask(t, b.token(t, id.New(id.Account)), `{ me { id } }`).text; got != `{"data":{"me":null}}` {
		t.Errorf("an account that is gone: %s", got)
	}
}

func TestConnections_PageThroughAllItems(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		ada := b.person(t, "ada")
		want := map[string]bool{}
		for i := range 7 {
			want[b.link(t, ada, fmt.Sprintf("https://example.com/%d", i)).ID] = true
		}
		type connection struct {
			Edges    []struct{ Node struct{ ID string } }
			PageInfo struct {
				HasNextPage bool
				EndCursor   *string
			}
		}
		var after *string
		for more := true; more; {
			var data struct{ Workspace struct{ Links connection } }
			b.ask(t, ada.token,
				`query ($w: ID!, $after: String) { workspace(by: {id: $w}) { links(first: 3, after: $after) {
				edges { node { id } } pageInfo { hasNextPage endCursor } } } }`,
				"w", ada.workspace.ID(), "after", after).into(t, &data)
			for _, e := range data.Workspace.Links.Edges {
				delete(want, e.Node.ID)
			}
			more, after = data.Workspace.Links.PageInfo.HasNextPage, data.Workspace.Links.PageInfo.EndCursor
		}
		if len(want) > 0 {
			t.Errorf("never seen: %v", want)
		}
	})
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
