package creation

import (
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestStore_ChecksMembersAgain: what waited for its turn is written only if its caller still has
// the permission.
func TestStore_ChecksMembersAgain(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		member := workspacetest.Join(t, b.DB, b.Mine.ID(), workspace.Editor)
		two := []*Input{{URL: "https://example.com/a"}, {URL: "https://example.com/b"}}
		routed := []*Input{{URL: "https://example.com/r", Metadata: []*linkfield.Pair{{Key: "a", Value: "b"}}},
			{URL: "https://example.com/s"}}
		key := "a key"
		calls := map[string]func() error{
			"one":       func() error { _, _, err := b.Create(t.Context(), member, *two[0]); return err },
			"many":      func() error { _, err := b.CreateMany(t.Context(), member, Batch{Links: two}); return err },
			"with data": func() error { _, err := b.CreateMany(t.Context(), member, Batch{Links: routed}); return err },
			"with a key": func() error {
				_, err := b.CreateMany(t.Context(), member, Batch{Links: two, IdempotencyKey: &key})
				return err
			},
			"all or none": func() error {
				_, err := b.CreateMany(t.Context(), member, Batch{Links: two, OnError: link.AllOrNothing})
				return err
			},
			"random codes": func() error {
				_, _, err := b.Create(t.Context(), member,
					Input{URL: "https://example.com/", Strategy: new(link.Random)})
				return err
			},
			"upsert": func() error {
				_, err := b.UpsertMany(t.Context(), member, []*Upsert{{ExternalID: "x", URL: "https://example.com/x"}},
					link.SkipFailed)
				return err
			},
		}
		for role, want := range map[string]errs.Kind{"role = 'VIEWER'": errs.Forbidden,
			"account_id = ''": errs.NotFound} {
			change := "UPDATE members SET " + role + " WHERE account_id = ?"
			if want == errs.NotFound {
				change = "DELETE FROM members WHERE account_id = ?"
			}
			must.Value(b.DB.NewRaw(change, member.AccountID()).Exec(db.AsSystem(t.Context())))(t)
			for name, call := range calls {
				if err := call(); !errs.Is(err, want) {
					t.Errorf("%s, %s: %v", role, name, err)
				}
			}
			must.Value(b.DB.NewDelete().Table("members").Where("account_id = ?", member.AccountID()).
				Exec(db.AsSystem(t.Context())))(t)
			must.Value(b.DB.NewInsert().Model(&workspace.Member{WorkspaceID: b.Mine.ID(), AccountID: member.AccountID(),
				Role: workspace.Editor, CreatedAt: noon}).Exec(db.AsSystem(t.Context())))(t)
		}
		if n := must.Value(b.DB.NewSelect().Model((*link.Link)(nil)).Count(db.AsSystem(t.Context())))(t); n != 0 {
			t.Errorf("%d links", n)
		}
		for name, call := range calls {
			if err := call(); err != nil {
				t.Errorf("%s by a member: %v", name, err)
			}
		}
	})
}
