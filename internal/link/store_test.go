package link_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/creation"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/linktest"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/polltest"
	"github.com/linkforge/linkforge/internal/routing"
)

// noon is when the tests begin.
var noon = dbtest.Noon

// bundle is a store with two workspaces of one person each.
type bundle struct {
	*creation.Store
	*linktest.World
	last hitquota.Grant
}

func setup(t testing.TB, d *db.DB) *bundle {
	t.Helper()
	w := linktest.New(t, d)
	return &bundle{Store: creation.NewStore(w.Links), World: w}
}

var custom, pairs, kindOf = linktest.Custom, linktest.Pairs, linktest.KindOf

func (b *bundle) create(t *testing.T, in link.New) (l *link.Link, created bool) {
	t.Helper()
	l, created, err := b.Create(t.Context(), b.Mine, in)
	must.NoError(t, err)
	return l, created
}

func (b *bundle) createMany(t *testing.T, policy link.Policy, in ...*link.New) []link.Result {
	t.Helper()
	return must.Value(b.CreateMany(t.Context(), b.Mine, creation.Batch{Links: in, OnError: policy}))(t)
}

// outcomes names the results: created, there, or the kind of the error.
func outcomes(results []link.Result) []string {
	var said []string
	for _, r := range results {
		switch {
		case r.Err != nil:
			said = append(said, errs.From(r.Err).Kind.Code())
		case r.Created:
			said = append(said, "created")
		default:
			said = append(said, "there")
		}
	}
	return said
}

func urls(from, to int) []*link.New {
	var in []*link.New
	for i := from; i < to; i++ {
		in = append(in, &link.New{URL: fmt.Sprintf("https://example.com/%d", i)})
	}
	return in
}

// grant requests one redirect of a link with MaxClicks, and expects want grants.
func (b *bundle) grant(t *testing.T, l *link.Link, want int) {
	t.Helper()
	grant, ok, err := b.Grants.Grant(t.Context(), l.ID)
	if err != nil || ok != (want == 1) {
		t.Fatalf("granted %t, want %d: %v", ok, want, err)
	}
	if ok {
		b.last = grant
	}
}

// giveBack returns the last granted redirect.
func (b *bundle) giveBack(t *testing.T, l *link.Link) {
	t.Helper()
	before := b.granted(t, l)
	for range 2 { // the second time changes nothing
		b.last.Release()
	}
	polltest.Until(t, "the grant has returned", func() bool { return b.granted(t, l) == before-1 })
}

func (b *bundle) granted(t *testing.T, l *link.Link) int64 {
	t.Helper()
	return must.Value(b.Get(t.Context(), b.Mine, l.ID))(t).Granted
}

func (b *bundle) refuse(t *testing.T, in link.New, want errs.Kind) {
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
