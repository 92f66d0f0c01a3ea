package creationtest

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
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

// Each runs the test with a fresh World on each kind of database.
func Each(t *testing.T, test func(t *testing.T, w *World)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, New(t, d)) })
}

// Make creates a link of Mine.
func (w *World) Make(t testing.TB, in creation.Input) *link.Link {
	t.Helper()
	l, _ := w.MakeOrFind(t, in)
	return l
}

// MakeOrFind is Make, and returns whether the link was created.
func (w *World) MakeOrFind(t testing.TB, in creation.Input) (l *link.Link, created bool) {
	t.Helper()
	l, created, err := w.Create(t.Context(), w.Mine, in)
	must.NoError(t, err)
	return l, created
}

// MakeMany creates links of Mine in one call.
func (w *World) MakeMany(t testing.TB, policy link.Policy, in ...*creation.Input) []link.Result {
	t.Helper()
	return must.Value(w.CreateMany(t.Context(), w.Mine, creation.Batch{Links: in, OnError: policy}))(t)
}

// Refuse expects that the creation of a link fails.
func (w *World) Refuse(t testing.TB, in creation.Input, want errs.Kind) {
	t.Helper()
	if _, _, err := w.Create(t.Context(), w.Mine, in); !errs.Is(err, want) {
		t.Errorf("creating %+v: %v, want %s", in, err, want)
	}
}

// Anonymous creates a link without an account, and returns its claim token.
func (w *World) Anonymous(t testing.TB, url string) (*link.Link, string) {
	t.Helper()
	l, token, err := w.CreateAnonymous(t.Context(), "192.0.2.1", url)
	must.NoError(t, err)
	return l, token
}

// ClaimOne claims a link by one token.
func (w *World) ClaimOne(t testing.TB, m workspace.Membership, token string) edit.Claim {
	t.Helper()
	return must.Value(w.Edit.Claim(t.Context(), m, []string{token}))(t)[0]
}
