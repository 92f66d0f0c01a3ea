package workspace_test

import (
	"context"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestUpdate_LetsKeysChooseThePrimaryDomain: it is the only setting that they can change.
func TestUpdate_LetsKeysChooseThePrimaryDomain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		mine := workspacetest.New(t, d, "mine")
		key := workspacetest.Key(t, d, mine.ID(), string(workspace.WriteDomains))
		nothing := func(context.Context, bun.Tx) error { return nil }
		primary := func(context.Context, bun.Tx) (*string, error) { return nil, nil }
		if _, err := workspacetest.Store(d).Update(t.Context(), key,
			workspace.Change{PrimaryHost: primary, FoldCodes: nothing}); err != nil {
			t.Errorf("the primary domain: %v", err)
		}
		_, err := workspacetest.Store(d).Update(t.Context(), key, workspace.Change{
			PrimaryHost: primary, FoldCodes: nothing, CaseSensitiveCodes: new(false),
		})
		if !errs.Is(err, errs.Forbidden) {
			t.Errorf("another setting, too: %v", err)
		}
	})
}
