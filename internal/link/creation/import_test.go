package creation

import (
	"context"
	"errors"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// TestImport_IsPartOfTheTransaction: its links exist if that commits, and are announced
// after that. A transaction that must compare a password succeeds after it is prepared again.
func TestImport_IsPartOfTheTransaction(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const url = "https://example.com/imported"
		b.Passwords = reversible{}
		protected := Input{URL: url + "/protected", Fields: linkfield.Change{Routing: to(withPassword("password 1"))}}
		_, _ = b.create(t, sending(protected))
		wrong := sending(protected)
		wrong.Fields.Routing.To.Gate.To.Password.To.Text = "password 2"
		reserved, full, candidate := custom(url, "login"), Input{URL: url + "/full"}, b.Candidate
		b.Candidate = func(canonicalURL, workspaceID string, salt int) string {
			if canonicalURL == full.URL {
				return candidate(protected.URL, workspaceID, 0)
			}
			return candidate(canonicalURL, workspaceID, salt)
		}
		ctx := must.Value(b.Mine.Enter(t.Context(), workspace.WriteLinks))(t)
		ended := noon.AddDate(-1, 0, 0)
		fresh := Input{URL: url, Fields: linkfield.Change{ExpiresAt: to(&ended)}}
		links := must.Value(b.NewImport(ctx, b.Mine, []*Input{&fresh, new(sending(protected)), &wrong, &reserved,
			&full}, "op_1"))(t)
		used := b.Used(t)

		var results []link.Result
		errUndone := errors.New("undone")
		run := func(end error) error {
			must.NoError(t, links.Prepare(ctx))
			return b.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
				if results, err = links.In(ctx, tx); err != nil {
					return err
				}
				return end
			})
		}
		for _, c := range []struct{ end, want error }{{nil, ErrRetry}, {errUndone, errUndone}, {nil, nil}} {
			b.ExpectUsed(t, used)
			if err := run(c.end); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
		}
		b.ExpectUsed(t, used+1)
		want := []string{"created", "there", errs.Conflict.Code(), errs.CodeReserved.Code(),
			errs.CodeExhausted.Code()}
		wanttest.Equal(t, want, outcomes(results), "results")
		before := b.ExhaustedCodes()
		links.Announce(ctx)
		if after := b.ExhaustedCodes(); before != 0 || after != 1 {
			t.Errorf("%d and %d links without a code counted, want 0 and 1", before, after)
		}
		stored := b.Reload(t, results[0].Link)
		if stored.VersionCause != link.CauseImported || optional.Value(stored.VersionOperation) != "op_1" {
			t.Errorf("a version by %s of %v", stored.VersionCause, stored.VersionOperation)
		}
		b.ExpectConsistent(t)
	})
}
