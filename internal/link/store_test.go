package link_test

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
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

func (b *bundle) create(t *testing.T, in creation.Input) (l *link.Link, created bool) {
	t.Helper()
	l, created, err := b.Create(t.Context(), b.Mine, in)
	must.NoError(t, err)
	return l, created
}

func (b *bundle) refuse(t *testing.T, in creation.Input, want errs.Kind) {
	t.Helper()
	if _, _, err := b.Create(t.Context(), b.Mine, in); !errs.Is(err, want) {
		t.Errorf("creating %+v: %v, want %s", in, err, want)
	}
}

func TestLink_StatusAtTheInstant(t *testing.T) {
	t.Parallel()
	start, end := noon.Add(time.Hour), noon.Add(2*time.Hour)
	l := &link.Link{Settings: routing.Settings{StartsAt: &start, ExpiresAt: &end}}
	for _, c := range []struct {
		at   time.Time
		want routing.Status
	}{
		{start.Add(-time.Nanosecond), routing.Scheduled},
		{start, routing.Active},
		{end.Add(-time.Nanosecond), routing.Active},
		{end, routing.Expired},
	} {
		t.Run(c.at.Format(time.RFC3339Nano), func(t *testing.T) {
			if got := l.Status(c.at); got != c.want {
				t.Errorf("at %s: %s, want %s", c.at, got, c.want)
			}
		})
	}
	l.DeletedAt = &noon
	if got := l.Status(end); got != routing.Deleted {
		t.Errorf("deleted and expired: %s", got)
	}
	l.DisabledAt = &noon
	if got := l.Status(end); got != routing.Disabled {
		t.Errorf("disabled and deleted: %s", got)
	}
}

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
