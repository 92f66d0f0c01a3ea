package link

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/resolve"
	"github.com/linkforge/linkforge/internal/routing"
)

func (b *bundle) block(t *testing.T, host string) {
	t.Helper()
	if _, err := b.Block(t.Context(), host, "a reason"); err != nil {
		t.Fatal(err)
	}
}

func TestBlockedHostsAreRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		before, _ := b.create(t, New{URL: "https://www.evil.example/before"})
		free, _ := b.create(t, New{URL: "https://example.com/free", Strategy: new(Random)})
		b.block(t, "EVIL.example.")
		b.block(t, "192.0.2.7")
		b.block(t, "münchen.example")
		for _, url := range []string{
			"https://evil.example/", "https://evil.example:8443/a", "http://deep.below.evil.example", "https://192.0.2.7/", "https://xn--mnchen-3ya.example/",
		} {
			b.refuse(t, New{URL: url}, errs.UnsafeURL)
			if _, err := b.Preview(t.Context(), b.mine, url); !errs.Is(err, errs.UnsafeURL) {
				t.Errorf("previewing %s: %v", url, err)
			}
			if _, err := b.Update(t.Context(), b.mine, Change{ID: free.ID, URL: to(url)}); !errs.Is(err, errs.UnsafeURL) {
				t.Errorf("leading a link to %s: %v", url, err)
			}
		}
		for _, url := range []string{"https://notevil.example/", "https://evil.example.com/", "https://example/", "https://1.192.0.2.example/"} {
			b.create(t, New{URL: url})
		}
		if got := outcomes(b.createMany(t, SkipFailed, &New{URL: "https://evil.example/"}, &New{URL: "https://good.example/"})); !cmp.Equal(got, []string{"UNSAFE_URL", "created"}) {
			t.Errorf("a batch came to %v", got)
		}
		// What is there goes on, but does not come back once it is gone.
		if l, err := b.Get(t.Context(), b.mine, before.ID); err != nil || l.Status(b.now) != routing.Active {
			t.Errorf("%v, %v", l, err)
		}
		if _, err := b.Delete(t.Context(), b.mine, before.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Restore(t.Context(), b.mine, before.ID); !errs.Is(err, errs.UnsafeURL) {
			t.Errorf("restored: %v", err)
		}
		b.refuse(t, New{URL: "https://www.evil.example/before"}, errs.UnsafeURL)
		if was, err := b.Unblock(t.Context(), "evil.example"); err != nil || !was {
			t.Errorf("unblocked %t: %v", was, err)
		}
		b.create(t, New{URL: "https://www.evil.example/before"})
	})
}

func TestDisableHost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		bad, _ := b.create(t, New{URL: "https://a.evil.example/"})
		good, _ := b.create(t, New{URL: "https://notevil.example/"})
		anonymous, token := b.anonymous(t, "https://evil.example/")
		for _, want := range []int{2, 0} {
			if n, err := b.DisableHost(t.Context(), "evil.example"); err != nil || n != want {
				t.Errorf("disabled %d, want %d: %v", n, want, err)
			}
		}
		for _, l := range []*Link{bad, anonymous} {
			if target, err := b.At(t.Context(), resolve.Address{Code: l.Code}); err != nil || target.Status(b.now) != routing.Disabled {
				t.Errorf("%v, %v", target, err)
			}
		}
		if l, err := b.Get(t.Context(), b.mine, good.ID); err != nil || l.Status(b.now) != routing.Active {
			t.Errorf("%v, %v", l, err)
		}
		// It survives deletion and creation, and claiming.
		if _, err := b.Delete(t.Context(), b.mine, bad.ID); err != nil {
			t.Fatal(err)
		}
		b.refuse(t, New{URL: "https://a.evil.example/"}, errs.UnsafeURL)
		if c := b.claimOne(t, b.mine, token); c.Status != ClaimRefused {
			t.Errorf("claimed: %+v", c)
		}
		if n, err := b.EnableHost(t.Context(), "evil.example"); err != nil || n != 2 {
			t.Errorf("enabled %d: %v", n, err)
		}
		b.create(t, New{URL: "https://a.evil.example/"})
	})
}

func TestStore_BlocksIPv6Addresses(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)))
	l, _ := b.create(t, New{URL: "http://[::1]:8080/abc"})
	for _, host := range []string{"::1", "[0:0::1]"} {
		b.block(t, host)
		b.refuse(t, New{URL: "https://[::1]/"}, errs.UnsafeURL)
		if was, err := b.Unblock(t.Context(), host); err != nil || !was {
			t.Errorf("unblocking %s: %t, %v", host, was, err)
		}
	}
	if n, err := b.DisableHost(t.Context(), "::1"); err != nil || n != 1 {
		t.Errorf("disabled %d links like %s: %v", n, l.OriginalURL, err)
	}
}

func TestHostsThatCannotBeBlocked(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)))
	for _, host := range []string{"", "https://example.com", "example.com/path", "example.com:8443", "exa mple.com", "\x1b[2J", "user@example.com", "?"} {
		if _, err := b.Block(t.Context(), host, ""); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// TestAllOrNothingRevivesNothing: a link that may not come back keeps the others of its batch from being made.
func TestAllOrNothingRevivesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		bad, _ := b.create(t, New{URL: "https://evil.example/"})
		gone, _ := b.create(t, New{URL: "https://example.com/gone"})
		for _, l := range []*Link{bad, gone} {
			if _, err := b.Delete(t.Context(), b.mine, l.ID); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.DisableHost(t.Context(), "evil.example"); err != nil {
			t.Fatal(err)
		}
		results := b.createMany(t, AllOrNothing, &New{URL: "https://example.com/new"}, &New{URL: "https://example.com/gone"}, &New{URL: "https://evil.example/"})
		if diff := cmp.Diff([]string{"CONFLICT", "CONFLICT", "UNSAFE_URL"}, outcomes(results)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if l, err := b.Get(t.Context(), b.mine, gone.ID); err != nil || l.DeletedAt == nil {
			t.Errorf("revived all the same: %v, %v", l, err)
		}
		if got := b.usage(t); got != 2 {
			t.Errorf("%d links used, want 2", got)
		}
	})
}

// TestNoEditBringsABlockedLinkBack: neither a new end, nor more clicks, nor another destination of a disabled link.
func TestNoEditBringsABlockedLinkBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		soon, one := noon.Add(time.Hour), int64(1)
		expired, _ := b.create(t, New{URL: "https://evil.example/expired", ExpiresAt: &soon})
		used, _ := b.create(t, New{URL: "https://evil.example/used", MaxClicks: &one})
		b.grant(t, used, 1)
		disabled, _ := b.create(t, New{URL: "https://disabled.example/", Strategy: new(Random)})
		fine, _ := b.create(t, New{URL: "https://example.com/"})
		b.now = soon
		b.block(t, "evil.example")
		if _, err := b.DisableHost(t.Context(), "disabled.example"); err != nil {
			t.Fatal(err)
		}
		title := "fine"
		changes := []Change{
			{ID: expired.ID, ExpiresAt: to[*time.Time](nil)}, {ID: used.ID, MaxClicks: to[*int64](nil)},
			{ID: disabled.ID, URL: to("https://example.com/good")}, {ID: fine.ID, Title: to(&title)}, {ID: used.ID, Title: to(&title)},
		}
		results, err := b.UpdateMany(t.Context(), b.mine, changes, SkipFailed)
		if err != nil || !cmp.Equal(outcomes(results), []string{"UNSAFE_URL", "UNSAFE_URL", "UNSAFE_URL", "there", "there"}) {
			t.Errorf("%v: %v", outcomes(results), err)
		}
		for l, want := range map[*Link]routing.Status{expired: routing.Expired, used: routing.Exhausted, disabled: routing.Disabled, fine: routing.Active} {
			if got, err := b.Get(t.Context(), b.mine, l.ID); err != nil || got.Status(b.now) != want {
				t.Errorf("%s is %s: %v", l.OriginalURL, got.Status(b.now), err)
			}
		}
	})
}

// TestADisabledLinkIsRefused, deleted or not.
func TestADisabledLinkIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		for _, in := range []New{{URL: "https://evil.example/"}, custom("https://evil.example/", "promo")} {
			b.create(t, in)
			if _, err := b.DisableHost(t.Context(), "evil.example"); err != nil {
				t.Fatal(err)
			}
			b.refuse(t, in, errs.UnsafeURL)
		}
	})
}

// TestDisablingWhileOthersEdit would end in a deadlock if either locked links in another order than that of their ids.
func TestDisablingWhileOthersEdit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		made := b.createMany(t, SkipFailed, urls(0, 100)...)
		for _, i := range rand.Perm(len(made)) { // the order in which the rows lie is another one
			b.update(t, made[i].Link, Change{RedirectStatus: to(301)})
		}
		var all sync.WaitGroup
		all.Go(func() {
			for range 10 {
				for _, do := range []func(context.Context, string) (int, error){b.DisableHost, b.EnableHost} {
					if _, err := do(t.Context(), "example.com"); err != nil {
						t.Error(err)
					}
				}
			}
		})
		for i := range 2 {
			all.Go(func() {
				for range 10 {
					var changes []Change
					for _, r := range made {
						changes = append(changes, Change{ID: r.Link.ID, RedirectStatus: to(307 + i)})
					}
					if _, err := b.UpdateMany(t.Context(), b.mine, changes, SkipFailed); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}
