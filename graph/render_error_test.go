package graph

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// TestRenderer_ReturnsTheErrorOfItsContext instead of a response, which an ended context has not.
func TestRenderer_ReturnsTheErrorOfItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada")
	m := must.Value(b.Workspaces.ForDeliveries(t.Context(), ada.workspace.ID()))(t)
	event := audit.New(m.ID(), "", audit.LinkUpdated, b.link(t, ada, "https://example.com/").ID, nil, time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	selection := "{ id link { title } }"
	for _, text := range []*string{nil, &selection} {
		if _, _, err := NewRenderer(b.Config).Event(ctx, m, text, event); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	}
}

// TestRenderer_ReportsErrorsOfSelections renders a field that fails for one of two events: that
// event gets the default data, and the problem has the text for users.
func TestRenderer_ReportsErrorsOfSelections(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	m, events := b.eventsToRender(t)
	selection := `{ link { asOf(at: "2100-01-01T00:00:00Z") { title } } }`
	for i, want := range []struct{ problem, data string }{
		{"A field of the selection failed: at must not be in the future.", events[0].ID}, {"", `{"link":null}`},
	} {
		data, problem, err := NewRenderer(b.Config).Event(t.Context(), m, &selection, events[i])
		if err != nil || problem != want.problem || !strings.Contains(string(data), want.data) {
			t.Errorf("%s, %q, %v", data, problem, err)
		}
	}
}

// TestRenderer_ReturnsErrorsOfTheServer renders while the database fails, and with a resolver that
// panics: nothing is reported as a problem of the selection, so that the events are rendered later.
func TestRenderer_ReturnsErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	m, events := b.eventsToRender(t)
	selection := "{ id link { versions(first: 1) { edges { cursor } } } }"
	broken, panicking := *b.Stores, b.Config
	broken.Links, panicking.Stores = nil, &broken
	must.Value(b.db.NewRaw("ALTER TABLE link_versions RENAME TO link_versions_away").
		Exec(db.AsOwner(t.Context())))(t)
	for name, c := range map[string]Config{"database": b.Config, "panic": panicking} {
		data, problem, err := NewRenderer(c).Event(t.Context(), m, &selection, events[0]) // others fail because of it
		if data != nil || problem != "" || !errs.Is(err, errs.Internal) {
			t.Errorf("%s: %s, %q, %v", name, data, problem, err)
		}
		if _, ok := errors.AsType[*errs.PanicError](err); ok != (name == "panic") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRenderer_CountsManyLinks renders a count whose cost depends on the size of the workspace.
func TestRenderer_CountsManyLinks(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	m, events := b.eventsToRender(t)
	_, err := b.db.NewRaw(`INSERT INTO links (id, workspace_id, code, root_code, strategy, original_url, canonical_url,
		canonical_hash, redirect_status, created_at, updated_at)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
		SELECT 'lnk_' || i, ?, 'c' || i, 'c' || i, 'RANDOM', 'u', 'u', ?, 302, ?, ? FROM n`, m.ID(),
		[]byte("h"), time.Now(), time.Now()).Exec(db.AsSystem(t.Context()))
	must.NoError(t, err)
	selection := "{ link { workspace { links(first: 1) { totalCount } } } }"
	data, problem, err := NewRenderer(b.Config).Event(t.Context(), m, &selection, events[0])
	if err != nil || problem != "" || !strings.Contains(string(data), `"totalCount":101`) {
		t.Errorf("%s, %q, %v", data, problem, err)
	}
}

// eventsToRender returns an event about a link, and one about a purged link.
func (b *bundle) eventsToRender(t *testing.T) (workspace.Membership, []*audit.Event) {
	t.Helper()
	ada := b.person(t, "ada")
	m := must.Value(b.Workspaces.ForDeliveries(t.Context(), ada.workspace.ID()))(t)
	l := b.link(t, ada, "https://example.com/")
	return m, []*audit.Event{
		audit.New(m.ID(), "", audit.LinkUpdated, l.ID, nil, time.Now()),
		audit.New(m.ID(), "", audit.LinkPurged, id.New(id.Link), nil, time.Now()),
	}
}
