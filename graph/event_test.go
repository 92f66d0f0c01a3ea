package graph

import (
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestEvents_AreASelectionOfTheAuditLog: the event log and webhooks refuse types that it does not
// have, and details are part of the audit log.
func TestEvents_AreASelectionOfTheAuditLog(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, dbtest.MigratedSQLite(t))
	for _, eventType := range []string{"LINK_CLICKED", "MEMBER_INVITED", "LINK_CHANGE_SCHEDULED"} {
		r := w.ask(t, w.ada.token,
			`query ($w: ID!, $t: EventType!) { workspace(by: {id: $w}) { events(types: [$t]) { nodes { id
			} } } }`, "w", w.ada.workspace.ID(), "t", eventType)
		if r.Codes() != "INVALID_INPUT" {
			t.Errorf("events of the type %s: %s", eventType, r.Text)
		}
	}
	r := w.ask(t, w.ada.token, `mutation ($w: ID!) { createWebhook(input: {workspaceId: $w, name: "hook",
		url: "https://hooks.example.com/", types: [MEMBER_INVITED]}) { errors { code field } } }`,
		"w", w.ada.workspace.ID())
	if !strings.Contains(r.Text, `{"code":"INVALID_INPUT","field":["types","0"]}`) {
		t.Errorf("a webhook with a type of the audit log: %s", r.Text)
	}
	for caller, want := range map[string]string{"VIEWER": `"details":null`, "ADMIN": `"details":"{}"`} {
		r := w.ask(t, w.callers[caller], `query ($w: ID!) { workspace(by: {id: $w}) { events { nodes { details } } } }`,
			"w", w.ada.workspace.ID())
		if !strings.Contains(r.Text, want) {
			t.Errorf("details for %s: %s, want %s", caller, r.Text, want)
		}
	}
}

// TestEvents_AreNodesAsLongAsTheirLogHasThem: the event log has those of 30 days, the audit log older ones.
func TestEvents_AreNodesAsLongAsTheirLogHasThem(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newNodeWorld(t, d)
		eventID := w.eventOf(t, w.link(t, w.ada, "https://example.com/old").ID)
		const find = `query ($id: ID!) { node(id: $id) { id } }`
		for days, want := range map[int]bool{29: true, 31: false} {
			at := db.Instant(time.Now().AddDate(0, 0, -days))
			must.Value(d.NewUpdate().Table("audit_events").Set("created_at = ?", at).Where("id = ?", eventID).
				Exec(db.AsSystem(t.Context())))(t)
			if got := w.ask(t, w.callers["VIEWER"], find, "id", eventID); strings.Contains(got.Text, eventID) != want {
				t.Errorf("%d days old, for a VIEWER: %s", days, got.Text)
			}
			if got := w.ask(t, w.callers["ADMIN"], find, "id", eventID); !strings.Contains(got.Text, eventID) {
				t.Errorf("%d days old, for an ADMIN: %s", days, got.Text)
			}
		}
	})
}
