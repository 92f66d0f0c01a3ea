package workspace

import (
	"context"
	"sync"
	"testing"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/must"
)

// Concurrent calls share a lookup, but a call after a change of membership never gets an earlier
// result.
func TestMembership_IsCheckedAfterTheCall(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		team := b.create(t, b.ada, "team")
		other := person(t, d)
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
			join(t, d, team.ID(), b.eve, Viewer)
			if m, err := b.Require(t.Context(), b.eve, team.ID()); err != nil || m.Role() != Viewer {
				t.Errorf("a new member: %v", err)
			}
			must.Value(d.NewRaw("DELETE FROM members WHERE account_id = ?", b.eve.AccountID).Exec(system))(t)
			if _, err := b.Require(t.Context(), b.eve, team.ID()); !errs.Is(err, errs.NotFound) {
				t.Errorf("who was removed: %v", err)
			}
		}
		end()
		asking.Wait()
	})
}

// TestUnchanged_NeedsTheStateOfEachMember: two calls may remember different roles of one account, or different
// states of a workspace. No statement can find both current.
func TestUnchanged_NeedsTheStateOfEachMember(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b := setup(t, d)
	team, other := b.create(t, b.ada, "team"), b.create(t, b.ada, "other")
	m := must.Value(b.Require(t.Context(), b.ada, team.ID()))(t)
	elsewhere := must.Value(b.Require(t.Context(), b.ada, other.ID()))(t)
	lower, earlier, swapped := m, m, elsewhere
	lower.role, earlier.version, swapped.accountID = Viewer, "1", b.eve.AccountID
	for name, c := range map[string]struct {
		other Membership
		want  int
	}{
		"the same": {m, 1}, "of another workspace": {elsewhere, 1}, "another role": {lower, 0},
		"another version": {earlier, 0}, "of no member": {swapped, 0},
	} {
		statement := d.Combine()
		condition, possible := Unchanged(statement, m, c.other)
		statement.Add("current", "SELECT 1 AS one WHERE "+condition)
		var rows []struct{ One int }
		err := statement.Query(db.AsCreator(t.Context(), team.ID(), other.ID()), "current", &rows)
		if err != nil || !possible || len(rows) != c.want {
			t.Errorf("%s: %d rows, want %d, possible: %t, %v", name, len(rows), c.want, possible, err)
		}
	}
	if _, possible := Unchanged(d.Combine(), m, team); possible {
		t.Error("a membership without a version is possible")
	}
}
