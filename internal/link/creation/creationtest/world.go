package creationtest

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// World is a store of links with two workspaces, and the store that creates links in it.
type World struct {
	*creation.Store
	*linktest.World
}

// New returns a World in a database.
func New(t testing.TB, d *db.DB) *World {
	t.Helper()
	w := linktest.New(t, d)
	return &World{creation.NewStore(creation.Config{
		Links: w.Links, Quota: w.Quota, CodeSecrets: [][]byte{[]byte("a secret")}, AnonymousTTL: 8 * time.Hour,
		Limits: w.Limits,
	}), w}
}

// Make creates a link of Mine.
func (w *World) Make(t testing.TB, in creation.Input) *link.Link {
	t.Helper()
	l, _, err := w.Create(t.Context(), w.Mine, in)
	must.NoError(t, err)
	return l
}
