package linklist

import (
	"log/slog"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// noon is the time of the tests.
var noon = dbtest.Noon

// bundle is a store with two workspaces, and the store that creates their links.
type bundle struct {
	*Store
	links         *creation.Store
	edit          *edit.Store
	mine, foreign workspace.Membership
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	now := func() time.Time { return noon }
	links := must.Value(link.NewStore(link.Config{
		DB: d, Feed: feed.New(d, slog.New(slog.DiscardHandler), now), PublicURL: "http://sho.rt",
		Log: slog.New(slog.DiscardHandler), Now: now,
	}))(t)
	quota := &link.Quota{DB: d, Default: 10_000, Now: now}
	b := &bundle{
		Store: &Store{DB: d, Now: now}, links: creation.NewStore(creation.Config{Links: links, Quota: quota}),
		edit: &edit.Store{Store: links, Quota: quota},
		mine: workspacetest.New(t, d, "mine"), foreign: workspacetest.New(t, d, "foreign"),
	}
	return b
}

// each runs the test with a fresh bundle on each kind of database.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setup(t, d)) })
}

func (b *bundle) create(t *testing.T, in creation.Input) *link.Link {
	t.Helper()
	l, _, err := b.links.Create(t.Context(), b.mine, in)
	must.NoError(t, err)
	return l
}
