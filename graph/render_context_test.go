package graph

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/dbtest"
)

// TestRenderer_ReturnsTheErrorOfItsContext instead of a response, which an ended context has not.
func TestRenderer_ReturnsTheErrorOfItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	ada := b.person(t, "ada")
	m, err := b.Workspaces.ForDeliveries(t.Context(), ada.workspace.ID())
	if err != nil {
		t.Fatal(err)
	}
	event := audit.New(m.ID(), "", audit.LinkUpdated, b.link(t, ada, "https://example.com/").ID, nil, time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	selection := "{ id link { title } }"
	for _, text := range []*string{nil, &selection} {
		if _, _, err := NewRenderer(b.Config).Events(ctx, m, text, []*audit.Event{event}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	}
}
