package link_test

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// noon is when the tests begin.
var noon = dbtest.Noon

// bundle is a store with two workspaces of one person each.
type bundle struct{ *creationtest.World }

func setup(t testing.TB, d *db.DB) *bundle {
	t.Helper()
	return &bundle{creationtest.New(t, d)}
}

// each runs the test with a fresh bundle on each kind of database.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setup(t, d)) })
}

var custom, pairs = creationtest.Custom, linktest.Pairs

// to is an edit.
func to[T any](value T) optional.Edit[T] { return optional.Set(value) }

// TestLink_StatusPrecedence tests the states in order of precedence.
func TestLink_StatusPrecedence(t *testing.T) {
	t.Parallel()
	before, after, one := noon.Add(-time.Microsecond), noon.Add(time.Microsecond), int64(1)
	l := link.Link{}
	for _, step := range []struct {
		change func()
		want   routing.Status
	}{
		{func() {}, routing.Active},
		{func() { l.StartsAt, l.MaxClicks, l.ExpiresAt = new(noon), &one, &after }, routing.Active},
		{func() { l.StartsAt = &after }, routing.Scheduled},
		{func() { l.Granted = 1 }, routing.Exhausted},
		{func() { l.ExpiresAt = new(noon) }, routing.Expired},
		{func() { l.DeletedAt = &before }, routing.Deleted},
		{func() { l.DisabledAt = &before }, routing.Disabled},
	} {
		step.change()
		if got := l.Status(noon); got != step.want {
			t.Errorf("%+v is %s, want %s", l, got, step.want)
		}
	}
}
