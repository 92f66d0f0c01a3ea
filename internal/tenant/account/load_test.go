package account

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// watched counts the statements, and blocks the first ones until they are released.
type watched struct {
	statements atomic.Int64
	held       int64
	begun, on  chan struct{}
}

// BeforeQuery implements bun.QueryHook.
func (w *watched) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	if w.statements.Add(1) <= w.held {
		w.begun <- struct{}{}
		<-w.on
	}
	return ctx
}

// AfterQuery implements bun.QueryHook.
func (*watched) AfterQuery(context.Context, *bun.QueryEvent) {}

// watch counts the store's next statements, and blocks the first held of them.
func (b *bundle) watch(held int64) *watched {
	w := &watched{held: held, begun: make(chan struct{}), on: make(chan struct{})}
	b.DB = &db.DB{DB: b.DB.WithQueryHook(w), Kind: b.DB.Kind}
	return w
}

// people makes accounts.
func (b *bundle) people(t *testing.T, n int) (ids []string) {
	t.Helper()
	for range n {
		ids = append(ids, dbtest.Account(t, b.DB))
	}
	return ids
}

func TestLoad_ReturnsExistingAccounts(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ids := b.people(t, 3)
		must.Value(b.DB.NewUpdate().Model((*Account)(nil)).Set("deleted_at = ?", noon).Where("id = ?", ids[1]).
			Exec(t.Context()))(t)
		found, err := b.Load(t.Context(), ids[0], ids[1], id.New(id.Account))
		if err != nil || len(found) != 1 || found[ids[0]] == nil || found[ids[0]].ID != ids[0] {
			t.Errorf("%v: %v", found, err)
		}
	})
}

// TestLoad_SharesStatements: requests that arrive during a statement share the next one, and each
// receives exactly its own accounts.
func TestLoad_SharesStatements(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ids := b.people(t, 40)
		w := b.watch(1)
		var first, others sync.WaitGroup
		ask := func(asking *sync.WaitGroup, one string) {
			asking.Go(func() {
				if found, err := b.Load(t.Context(), one); err != nil || len(found) != 1 || found[one] == nil {
					t.Errorf("%s: %v: %v", one, found, err)
				}
			})
		}
		ask(&first, ids[0])
		<-w.begun
		for _, one := range ids[1:] {
			ask(&others, one)
		}
		others.Wait()
		close(w.on)
		first.Wait()
		if n := w.statements.Load(); n > 10 { // two, unless some come when the group has lost its patience
			t.Errorf("%d statements for %d people", n, len(ids))
		}
	})
}

// TestLoad_SeesEarlierWrites the call: no request receives the result of an earlier
// statement.
func TestLoad_SeesEarlierWrites(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var asking sync.WaitGroup
		for _, own := range b.people(t, 8) {
			asking.Go(func() {
				for i := range 40 {
					name := fmt.Sprint("Ada ", i)
					if _, err := b.DB.NewUpdate().Model((*Account)(nil)).Set("name = ?", name).Where("id = ?", own).
						Exec(t.Context()); err != nil {
						t.Error(err)
						return
					}
					if found, err := b.Load(t.Context(), own); err != nil || found[own] == nil ||
						found[own].Name != name {
						t.Errorf("written %s, read %+v: %v", name, found[own], err)
						return
					}
				}
			})
		}
		asking.Wait()
	})
}

// TestLoad_RespectsDeadline for a statement that hangs.
func TestLoad_RespectsDeadline(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ids := b.people(t, 2)
		w := b.watch(1)
		var hanging sync.WaitGroup
		hanging.Go(func() { _, _ = b.Load(t.Context(), ids[0]) })
		<-w.begun
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for range 3 {
			if found, err := b.Load(ctx, ids[1]); err != nil || found[ids[1]] == nil {
				t.Errorf("%v: %v", found, err)
			}
		}
		close(w.on)
		hanging.Wait()
	})
}
