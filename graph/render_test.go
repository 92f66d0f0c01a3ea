package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func TestRenderer_ChecksSelections(t *testing.T) {
	t.Parallel()
	r := NewRenderer(setup(t, dbtest.MigratedSQLite(t)).Config)
	for text, want := range map[string]string{
		"{ id type link { id title tags } }":                                 "",
		"{ link { stats { clicks } } }":                                      "stats",
		"{ link { ... on Link { clicks(first: 1) { edges { cursor } } } } }": "stats",
		"{ " + aliases(17, "changes { before after }") + "}":                 "refused",
		"{ " + aliases(15, "changes { before after }") + "}":                 "",
		"":                                      "refused",
		"id":                                    "refused",
		"{ unknown }":                           "refused",
		"{ id } query Other { me { id } }":      "refused",
		"{ id } fragment Other on Event { id }": "refused",
		"@skip(if: true) { id }":                "refused",
		"{ link { versions(first: $n) { edges { cursor } } } }": "refused",
		"{ ...Selection }":                "refused",
		"{ __schema { types { name } } }": "refused",
		"{ id details }":                  "refused",
		"{ link { workspace { auditLog(first: 1) { nodes { id } } } } }":                        "refused",
		"{ link { workspace { events(first: 1) { nodes { id ... on Event { details } } } } } }": "refused",
		"{ link { createdBy { email } } }":                                                      "refused",
		"{ link { workspace { apiKeys { edges { node { id } } } } } }":                          "refused",
		"{ link { workspace { webhooks { edges { node { url } } } } } }":                        "refused",
		"{ link { workspace { links(first: 100) { edges { node { id title note } } } } } }":     "refused",
		"{ id " + strings.Repeat(" ", 2048) + "}":                                               "refused",
	} {
		needsStats, err := r.Check(text)
		got := map[bool]string{true: "stats"}[needsStats]
		if errs.Is(err, errs.InvalidInput) && slices.Equal(errs.From(err).Field, []string{"selection"}) {
			got = "refused"
		} else if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
}

// aliases returns n copies of a field.
func aliases(n int, field string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d: %s ", i, field)
	}
	return b.String()
}

// TestRenderer_DropsLargeData above the limit of a body.
func TestRenderer_DropsLargeData(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	m, _ := b.eventsToRender(t)
	text := strings.Repeat("x", 4<<10)
	e := audit.New(m.ID(), "", audit.LinkPurged, id.New(id.Link), nil, time.Now()).
		WithChanges([]*audit.FieldChange{{Field: "note", Before: &text, After: &text}})
	for n, dropped := range map[int]bool{3: false, 15: true} {
		selection := "{ id " + aliases(n, "changes { before after }") + "}" // 8 KiB each
		data, problem, err := NewRenderer(b.Config).Event(t.Context(), m, &selection, e)
		if err != nil || problem != "" || (data == nil) != dropped {
			t.Errorf("%d bytes, %q, %v", len(data), problem, err)
		}
	}
}

// TestRenderer_RendersEvents renders the default and a selection, with the actor's id, for an event
// of a link and of a purged one.
func TestRenderer_RendersEvents(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		m, events := b.eventsToRender(t)
		r := NewRenderer(b.Config)
		data, problem, err := r.Event(t.Context(), m, nil, events[0])
		if err != nil || problem != "" {
			t.Fatal(data, problem, err)
		}
		var got struct {
			ID, Type, ActorID string
			Link              *struct{ ID, ShortURL string }
		}
		if err := json.Unmarshal(data, &got); err != nil || got.ID != events[0].ID || got.Type != "LINK_UPDATED" ||
			got.ActorID != events[0].ActorID || got.Link == nil || got.Link.ID != events[0].TargetID ||
			got.Link.ShortURL == "" {
			t.Errorf("%s: %v", data, err)
		}
		if data, _, err = r.Event(t.Context(), m, nil, events[1]); err != nil ||
			!strings.Contains(string(data), `"link":null`) {
			t.Errorf("a purged link: %s, %v", data, err)
		}
		selection, broken := "{ link { url: originalUrl } }", "{ removed }"
		data, problem, err = r.Event(t.Context(), m, &selection, events[0])
		if diff := cmp.Diff(`{"link":{"url":"https://example.com/"}}`, string(data)); diff != "" || problem != "" ||
			err != nil {
			t.Errorf("%s %v (-want +got):\n%s", problem, err, diff)
		}
		data, problem, err = r.Event(t.Context(), m, &broken, events[0])
		if err != nil || problem == "" || !strings.Contains(string(data), events[0].ID) {
			t.Errorf("a selection that is not valid any more: %s, %q, %v", data, problem, err)
		}
	})
}

// TestClickSelection_HasAllFields of a click but its workspace, and no field of links that needs more statements.
func TestClickSelection_HasAllFields(t *testing.T) {
	t.Parallel()
	for _, f := range contract(t).Types["Click"].Fields {
		if !slices.Contains(strings.Fields(clickSelection), f.Name) {
			t.Errorf("deliveries of clicks have no %s", f.Name)
		}
	}
}

// TestRenderer_ReturnsTheErrorOfItsContext instead of a response, which an ended context has not.
func TestRenderer_ReturnsTheErrorOfItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	m, events := b.eventsToRender(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	selection := "{ id link { title } }"
	for _, text := range []*string{nil, &selection} {
		if _, _, err := NewRenderer(b.Config).Event(ctx, m, text, events[0]); !errors.Is(err, context.Canceled) {
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
		audit.New(m.ID(), ada.accountID, audit.LinkUpdated, l.ID, nil, time.Now()),
		audit.New(m.ID(), "", audit.LinkPurged, id.New(id.Link), nil, time.Now()),
	}
}
