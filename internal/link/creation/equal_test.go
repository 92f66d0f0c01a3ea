package creation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestEqual_CallsThatLeaveTheirBatch for the same link of a workspace, which a shared batch cannot
// serve, both get it, in either order.
func TestEqual_CallsThatLeaveTheirBatch(t *testing.T) {
	t.Parallel()
	const url = "https://example.com/equal"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		for i, isDeleted := range []bool{false, false, true, true} {
			if !isDeleted && d.Kind == db.SQLite { // only PostgreSQL has no shared batch for the first link of a month
				continue
			}
			m := workspacetest.New(t, d, fmt.Sprint("equal", i))
			if isDeleted {
				l, _, err := b.Create(t.Context(), m, Input{URL: url})
				must.NoError(t, err)
				must.Value(b.Edit.Delete(t.Context(), m, l.ID))(t)
			}
			ctx := must.Value(m.Enter(t.Context(), workspace.WriteLinks))(t)
			calls := []*call{{member: m}, {member: m}}
			for _, c := range calls {
				c.add(&Input{URL: url})
			}
			_, _ = b.createShared(ctx, calls)
			if !calls[0].hasLeft || !calls[1].hasLeft {
				t.Fatal("the calls have not left the batch")
			}
			created := 0
			for k := range calls {
				c := calls[(k+i)%2]
				_, _ = b.createApart(ctx, []*call{c})
				if c.err != nil || len(c.results) != 1 || c.results[0].Link == nil ||
					c.results[0].Link.DeletedAt != nil {
					t.Fatalf("%d, %d: %+v, %v", i, k, c.results, c.err)
				}
				if c.results[0].Created {
					created++
				}
			}
			stored := must.Value(b.Get(t.Context(), m, calls[0].results[0].Link.ID))(t)
			if (created == 1) == isDeleted || stored.DeletedAt != nil {
				t.Errorf("%d created; stored %+v", created, stored)
			}
		}
	})
}

// TestEqual_LinkOfTwoRequests with and without its external id: each caller gets it with the own
// membership.
func TestEqual_LinkOfTwoRequests(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		in := Input{URL: "https://example.com/", ExternalID: new("a")}
		b.create(t, in)
		callers := []workspace.Membership{b.Mine, workspacetest.Join(t, b.DB, b.Mine.ID(), workspace.Editor)}
		links := make([]*link.Link, len(callers))
		release := b.hold(t)
		var running sync.WaitGroup
		for i, caller := range callers {
			one := in
			if i > 0 {
				one.ExternalID = nil
			}
			running.Go(func() { links[i], _, _ = b.Create(t.Context(), caller, one) })
			b.awaitRequests(t, i+1)
		}
		release()
		running.Wait()
		for i, l := range links {
			if l == nil || l.In.ActorID() != callers[i].ActorID() {
				t.Errorf("%d: %+v", i, l)
			}
		}
	})
}

// blockedHost is the only host that the operator has blocked.
type blockedHost string

func (b blockedHost) Blocked(bun.IDB, ...string) (db.Lookup, func() map[string]bool) {
	return db.Lookup{}, func() map[string]bool { return map[string]bool{string(b): true} }
}

// TestEqual_RefusedLinkRefusesNoOther: a link with the same URL as one that is refused because of
// its routing is created, or revived.
func TestEqual_RefusedLinkRefusesNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Destinations.Blocklist = blockedHost("blocked.example")
		blocked := &routing.Change{EndedURL: optional.Set(new("https://blocked.example/"))}
		for _, path := range []string{"new", "there", "deleted"} {
			url, want := "https://example.com/"+path, "created"
			if path != "new" {
				l, _ := b.create(t, Input{URL: url})
				if want = "there"; path == "deleted" {
					must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
				}
			}
			got := outcomes(b.createMany(t, link.SkipFailed, &Input{URL: url, Routing: blocked}, &Input{URL: url}))
			linktest.Equal(t, []string{"UNSAFE_URL", want}, got, "%s", path)
		}
	})
}

// beforeLock calls change once, before links are locked, if it is armed.
type beforeLock struct {
	isArmed atomic.Bool
	change  func()
}

func (l *beforeLock) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	if strings.Contains(event.Query, `FROM "links"`) && strings.Contains(event.Query, "FOR UPDATE") &&
		l.isArmed.CompareAndSwap(true, false) {
		l.change()
	}
	return ctx
}

func (*beforeLock) AfterQuery(context.Context, *bun.QueryEvent) {}

// TestEqual_RevivesOnlyTheURL: a deleted link gets another URL before the creation that has found
// it locks it.
func TestEqual_RevivesOnlyTheURL(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	var lock beforeLock
	b := setup(t, &db.DB{DB: d.WithQueryHook(&lock), Kind: d.Kind})
	l, _ := b.create(t, custom("https://example.com/before", "code"))
	must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
	lock.change = func() {
		must.Value(b.Edit.Restore(t.Context(), b.Mine, l.ID))(t)
		must.Value(b.Edit.Update(t.Context(), b.Mine, link.Change{ID: l.ID, URL: to("https://example.com/after")}))(t)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
	}
	lock.isArmed.Store(true)
	b.refuse(t, custom("https://example.com/before", "code"), errs.CodeTaken)
	got := must.Value(b.Get(t.Context(), b.Mine, l.ID))(t)
	if got.OriginalURL != "https://example.com/after" || got.DeletedAt == nil {
		t.Errorf("%+v", got)
	}
}
