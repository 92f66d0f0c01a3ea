package dispatch_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func TestReplaceTags_ChangesFilters(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var hooks []*webhook.Webhook
		for _, tags := range [][]string{{"a"}, {"a", "b", "z"}, {"c"}, {}} {
			change := hook("https://8.8.8.8/", audit.LinkUpdated)
			change.Tags = optional.Set(tags)
			w, _ := b.createWith(t, change)
			hooks = append(hooks, w)
		}
		for _, c := range []struct {
			from []string
			to   *string
			want [][]string
		}{
			{[]string{"a", "b"}, new("m"), [][]string{{"m"}, {"m", "z"}, {"c"}, {}}},
			{[]string{"z"}, new("m"), [][]string{{"m"}, {"m"}, {"c"}, {}}},
			{[]string{"m", "x"}, nil, [][]string{{"m"}, {"m"}, {"c"}, {}}},
		} {
			ctx := must.Value(b.m.Enter(t.Context(), workspace.WriteLinks))(t)
			must.NoError(t, b.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
				return b.Webhooks.ReplaceTags(ctx, tx, b.m, c.from, c.to)
			}))
			var got [][]string
			for _, w := range hooks {
				got = append(got, must.Value(b.Webhooks.Rows().ByID(t.Context(), b.m, w.ID))(t)[0].Tags)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%v to %v (-want +got):\n%s", c.from, optional.Value(c.to), diff)
			}
		}
		updates := must.Value(b.DB.NewSelect().Model((*audit.Event)(nil)).Where("action = ?", audit.WebhookUpdated).
			Where("changes IS NOT NULL").Count(db.AsSystem(t.Context())))(t)
		if updates != 3 {
			t.Errorf("%d webhooks were updated, want 3", updates)
		}
	})
}

// TestReplaceTags_FollowsLinks through the stores of a process.
func TestReplaceTags_FollowsLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		change := hook("https://8.8.8.8/", audit.LinkUpdated)
		change.Tags = optional.Set([]string{"a", "b"})
		w, _ := b.createWith(t, change)
		must.Value(b.Creation.CreateMany(t.Context(), b.m, creation.Batch{
			Links: []*creation.Input{{URL: "https://example.com/", Tags: []string{"a"}}},
		}))(t)
		must.Value(b.Edit.ReplaceTags(t.Context(), b.m, []string{"a"}, nil))(t)
		got := must.Value(b.Webhooks.Rows().ByID(t.Context(), b.m, w.ID))(t)[0].Tags
		if diff := cmp.Diff([]string{"b"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
