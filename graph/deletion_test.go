package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestDeletions_ReturnTheID deletes the objects of a workspace that its lists show, by the nodes of their connections.
func TestDeletions_ReturnTheID(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, dbtest.MigratedSQLite(t))
	for _, keyID := range w.ids(t, w.ada.token, "ApiKey") { // one is restricted to the folder
		must.Value(w.APIKeys.Revoke(t.Context(), w.ada.workspace, keyID))(t)
	}
	for _, c := range []struct{ typeName, mutation string }{
		{"ScheduledChange", `cancelLinkChange(input: {id: $id})`},
		{"Folder", `deleteFolder(input: {id: $id})`},
		{"UtmTemplate", `deleteUtmTemplate(input: {id: $id})`},
		{"Webhook", `deleteWebhook(input: {id: $id})`},
		{"Domain", `removeDomain(input: {id: $id})`},
		{"Invitation", `revokeInvitation(input: {id: $id})`},
		{"Link", `deleteLink(input: {id: $id})`},
		{"Workspace", `deleteWorkspace(input: {id: $id})`},
	} {
		nodeID := w.ids(t, w.ada.token, c.typeName)[0]
		deleted := w.ask(t, w.ada.token, `mutation ($id: ID!) { it: `+c.mutation+` { deletedId errors { code } } }`,
			"id", nodeID)
		if want := fmt.Sprintf(`{"deletedId":%q,"errors":[]}`, nodeID); !strings.Contains(deleted.Text, want) {
			t.Errorf("%s: %s, want %s", c.mutation, deleted.Text, want)
		}
		refused := w.ask(t, w.ada.token, `mutation ($id: ID!) { it: `+c.mutation+` { deletedId errors { code } } }`,
			"id", id.New(id.Prefix(nodeID[:strings.Index(nodeID, "_")+1])))
		if !strings.Contains(refused.Text, `{"deletedId":null,"errors":[{"code":"NOT_FOUND"}]}`) {
			t.Errorf("%s of an unknown object: %s", c.mutation, refused.Text)
		}
	}
}
