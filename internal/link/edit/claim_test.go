package edit_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/moderation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

func TestStore_ClaimKeepsCodeAndClicks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l, token := b.Anonymous(t, "https://example.com/a")
		b.Follow(t, l, 3)
		c := b.ClaimOne(t, b.Mine, token)
		if c.Status != edit.Claimed || c.Link.ID != l.ID || c.Link.Code != l.Code || c.Link.Kind() != link.Permanent ||
			c.Link.ExpiresAt != nil || *c.Link.CreatedBy != b.Me {
			t.Fatalf("%+v", c)
		}
		b.Follow(t, l, 2) // recorded by a node that does not know of the claim
		counts := b.Clicks.Stats()
		for _, of := range []clickstore.Subject{{LinkID: l.ID}, {}} {
			stats, err := counts.Stats(t.Context(), b.Mine, of, &clickstore.Range{From: noon.Add(-time.Hour),
				To: noon.Add(time.Hour)}, "", clickstore.Filter{})
			must.NoError(t, err)
			total, err := stats.Total(t.Context())
			if err != nil || total.Clicks != 5 {
				t.Errorf("%+v: %d clicks in the workspace's stats, want 5: %v", of, total.Clicks, err)
			}
		}
		for _, table := range []string{"clicks", "click_days", "click_totals"} {
			b.ExpectRows(t, 0, table, "workspace_id <> ?", b.Mine.ID())
		}
		b.ExpectUsed(t, 1)
		// Again, as after a lost response, and from another workspace.
		if c := b.ClaimOne(t, b.Mine, token); c.Status != edit.AlreadyClaimed || c.Err != nil || c.Link.ID != l.ID {
			t.Errorf("again: %+v", c)
		}
		if c := b.ClaimOne(t, b.Foreign, token); c.Status != edit.AlreadyClaimed || !errs.Is(c.Err, errs.Conflict) ||
			c.Link != nil {
			t.Errorf("from elsewhere: %+v", c)
		}
		b.Now = noon.Add(9 * time.Hour)
		if target, err := b.At(t.Context(), resolve.Address{Code: l.Code}); err != nil ||
			target.Status(b.Now) != routing.Active {
			t.Errorf("after the first end: %v, %v", target, err)
		}
	})
}

func TestStore_ClaimRefusals(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		disabled, disabledToken := b.Anonymous(t, "https://disabled.example.com/")
		b.Set(t, disabled, "disabled_at = ?", noon)
		_, blockedToken := b.Anonymous(t, "https://bad.example.net/")
		b.Destinations.Blocklist = linktest.BlockedHosts{"bad.example.net": true}
		taken, takenToken := b.Anonymous(t, "https://example.com/taken")
		b.Make(t, custom("https://example.com/other", taken.Code))
		_, last := b.Anonymous(t, "https://example.com/last")
		_, beyond := b.Anonymous(t, "https://example.com/beyond")
		b.Quota.Default = 2
		for _, c := range []struct {
			name, token string
			status      edit.ClaimStatus
			want        errs.Kind
		}{
			{"unknown", "claim_UNKNOWN", edit.ClaimUnknown, errs.NotFound},
			{"empty", "", edit.ClaimUnknown, errs.NotFound},
			{"disabled", disabledToken, edit.ClaimRefused, errs.UnsafeURL},
			{"blocked", blockedToken, edit.ClaimRefused, errs.UnsafeURL},
			{"code taken", takenToken, edit.ClaimRefused, errs.CodeTaken},
			{"the last of the quota", last, edit.Claimed, 0},
			{"beyond the quota", beyond, edit.ClaimRefused, errs.QuotaExceeded},
		} {
			got := b.ClaimOne(t, b.Mine, c.token)
			if got.Status != c.status || (c.want != 0) != (got.Err != nil) ||
				c.want != 0 && !errs.Is(got.Err, c.want) ||
				(got.Link != nil) != (c.status == edit.Claimed) {
				t.Errorf("%s: %+v", c.name, got)
			}
		}
		b.ExpectUsed(t, 2)
		b.Quota.Default, b.Now = 100, noon.Add(8*time.Hour)
		if got := b.ClaimOne(t, b.Mine, beyond); got.Status != edit.ClaimExpired || !errs.Is(got.Err, errs.Expired) {
			t.Errorf("at its end: %+v", got)
		}
		for _, n := range []int{0, edit.MaxClaims + 1} {
			linktest.Refused(b.Edit.Claim(t.Context(), b.Mine, make([]string, n)))(t, errs.InvalidInput, "%d tokens", n)
		}
	})
}

// TestStore_ClaimConcurrently: of many workspaces that present a token at once one gets the link,
// while it is followed; no click is lost on the way.
func TestStore_ClaimConcurrently(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		l, token := b.Anonymous(t, "https://example.com/a")
		tenants := []workspace.Membership{b.Mine, b.Foreign}
		for i := range 6 {
			m := workspacetest.New(t, d, fmt.Sprintf("tenant-%d", i))
			tenants = append(tenants, m)
		}
		recorder := b.Clicks.Recorder
		var mu sync.Mutex
		var winners []workspace.Membership
		var all sync.WaitGroup
		for _, m := range tenants {
			all.Go(func() {
				claims, err := b.Edit.Claim(t.Context(), m, []string{token})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if claims[0].Status == edit.Claimed {
					winners = append(winners, m)
				}
			})
			all.Go(func() {
				for range 50 {
					recorder.Record(&click.Click{WorkspaceID: l.WorkspaceID, LinkID: l.ID, ClickedAt: noon})
					if err := recorder.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if len(winners) != 1 {
			t.Fatalf("%d workspaces got the link", len(winners))
		}
		// its own, and its workspace's
		b.ExpectRows(t, 50*int64(len(tenants)), "clicks", "workspace_id = ?", winners[0].ID())
		b.ExpectRows(t, 2, "click_totals", "workspace_id = ?", winners[0].ID())
		must.NoError(t, b.Clicks.Seal(t.Context()))
		must.Value(b.Clicks.Verify(t.Context(), func(d clickstore.Difference) { t.Errorf("differs: %+v", d) }))(t)
	})
}

// TestStore_ClaimBeforeTheFirstClick: a node that does not know of the claim
// records clicks after it.
func TestStore_ClaimBeforeTheFirstClick(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l, token := b.Anonymous(t, "https://example.com/a")
		b.ClaimOne(t, b.Mine, token)
		b.Follow(t, l, 1)
		// its own, and its workspace's
		b.ExpectRows(t, 1, "clicks", "workspace_id = ?", b.Mine.ID())
		b.ExpectRows(t, 2, "click_totals", "workspace_id = ?", b.Mine.ID())
	})
}

// TestStore_ClaimedLinkHasItsFirstVersion disables and enables an anonymous link before the claim:
// without an account, it has one version.
func TestStore_ClaimedLinkHasItsFirstVersion(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l, token, err := b.CreateAnonymous(t.Context(), "192.0.2.1", "https://example.com/anonymous")
		must.NoError(t, err)
		operator := &moderation.Store{DB: b.DB, Links: b.Links, Now: b.Links.Now}
		for _, isDisabled := range []bool{true, false} {
			b.Tick()
			_, _, err := operator.SetDisabled(t.Context(), l.ID, isDisabled)
			must.NoError(t, err)
		}
		b.Tick()
		claims, err := b.Edit.Claim(t.Context(), b.Mine, []string{token})
		if err != nil || claims[0].Err != nil {
			t.Fatal(err, claims)
		}
		all := b.AllVersions(t, l)
		if len(all) != 2 || all[0].Cause != link.CauseClaimed || all[1].Cause != link.CauseCreated ||
			!all[1].From.Equal(l.CreatedAt) {
			t.Errorf("%+v", all)
		}
	})
}
