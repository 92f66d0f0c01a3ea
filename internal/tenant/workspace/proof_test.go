package workspace

import (
	"context"
	"sync"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// Concurrent calls share a lookup, but a call after a change of membership never gets an earlier
// result.
func TestMembership_IsCheckedAfterTheCall(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		team := b.create(t, b.ada, "team")
		other := person(t, b.DB)
		ctx, end := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() {
				for ctx.Err() == nil {
					_, _ = b.Require(ctx, b.eve, team.ID())
					if _, err := b.Require(ctx, other, team.ID()); err == nil {
						t.Error("another user shares the proof")
					}
					if m, err := b.Require(ctx, b.ada, team.ID()); err == nil &&
						(m.Role() != Owner || m.AccountID() != b.ada.AccountID) {
						t.Errorf("the owner is %s %s", m.Role(), m.AccountID())
					}
				}
			})
		}
		system := db.AsSystem(t.Context())
		for range 40 {
			join(t, b.DB, team.ID(), b.eve, Viewer)
			if m, err := b.Require(t.Context(), b.eve, team.ID()); err != nil || m.Role() != Viewer {
				t.Errorf("a new member: %v", err)
			}
			must.Value(b.DB.NewRaw("DELETE FROM members WHERE account_id = ?", b.eve.AccountID).Exec(system))(t)
			wantError(t, errs.NotFound, "who was removed")(b.Require(t.Context(), b.eve, team.ID()))
		}
		end()
		asking.Wait()
	})
}
