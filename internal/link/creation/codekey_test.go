package creation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// setCaseSensitive gives Mine a setting that new workspaces do not have.
func (b *bundle) setCaseSensitive(t *testing.T) {
	t.Helper()
	must.Value(b.DB.NewUpdate().Table("workspaces").Set("case_sensitive_codes = ?", true).Where("id = ?", b.Mine.ID()).
		Exec(db.AsSystem(t.Context())))(t)
	b.reloadMine(t)
}

func (b *bundle) reloadMine(t *testing.T) {
	t.Helper()
	b.Mine = must.Value(workspacetest.Store(b.DB).Require(t.Context(), account.Actor{AccountID: b.Me}, b.Mine.ID()))(t)
}

// fold ends the difference of case in the codes of Mine.
func (b *bundle) fold(t *testing.T) error {
	t.Helper()
	spaces := workspacetest.Store(b.DB)
	m, err := spaces.Require(t.Context(), account.Actor{AccountID: b.Me}, b.Mine.ID())
	must.NoError(t, err)
	_, err = spaces.Update(t.Context(), m, workspace.Change{CaseSensitiveCodes: new(false), FoldCodes: b.FoldCodes(m)})
	return err
}

// goesTo returns where a short URL of Mine redirects; empty if it does not.
func (b *bundle) goesTo(t *testing.T, s *link.Store, code string) string {
	t.Helper()
	target := must.Value(s.Resolver.Resolve(t.Context(), resolve.Address{Slug: "mine", Code: code}, s.Now(), nil))(t)
	if target.Unknown || target.Deleted {
		return ""
	}
	return target.Location
}

func TestCustomCodes_DoNotDependOnCase(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		promo, created := b.create(t, custom("https://example.com/", "Promo"))
		if again, createdAgain := b.create(t, custom("https://example.com/", "PROMO")); !created || createdAgain ||
			again.ID != promo.ID || again.Code != "Promo" {
			t.Errorf("created %t, %t: %+v", created, createdAgain, again)
		}
		_, _, err := b.Create(t.Context(), b.Mine, custom("https://example.com/other", "promo"))
		if !errs.Is(err, errs.CodeTaken) || !strings.Contains(err.Error(), "Promo") {
			t.Errorf("the code for another URL: %v", err)
		}
		results := must.Value(b.CreateMany(t.Context(), b.Mine, Batch{Links: []*Input{
			new(custom("https://example.com/sale", "sale")), new(custom("https://example.com/sale", "SALE")),
			new(custom("https://example.com/x", "Sale")), new(custom("https://example.com/", "pROMO")),
		}}))(t)
		if !results[0].Created || results[1].Created || results[1].Link.ID != results[0].Link.ID ||
			!errs.Is(results[2].Err, errs.CodeTaken) || results[3].Link.ID != promo.ID {
			t.Errorf("%+v", results)
		}
		for _, code := range []string{"Promo", "promo", "PROMO", "pRoMo"} {
			if got := b.goesTo(t, b.Store.Store, code); got != "https://example.com/" {
				t.Errorf("%s goes to %q", code, got)
			}
			if l, err := b.At(t.Context(), resolve.Address{Slug: "mine", Code: code}); err != nil || l.ID != promo.ID {
				t.Errorf("%s is %+v, %v", code, l, err)
			}
			if l, err := b.ByCode(t.Context(), b.Mine, code, nil); err != nil || l.ID != promo.ID {
				t.Errorf("%s belongs to %+v, %v", code, l, err)
			}
			if l, err := b.History.ByPastAddress(t.Context(), resolve.Address{Slug: "mine", Code: code},
				b.Now); err != nil || l.ID != promo.ID {
				t.Errorf("%s was %+v, %v", code, l, err)
			}
		}
		upserted, err := b.Upsert(t.Context(), b.Mine,
			&Input{URL: "https://example.com/new", CustomCode: new("PROMO"),
				Fields: linkfield.Change{ExternalID: to(new("1"))}})
		if err != nil || upserted.Link.ID != promo.ID || upserted.Link.Code != "Promo" {
			t.Errorf("%+v, %v", upserted, err)
		}
		_, err = b.Upsert(t.Context(), b.Mine,
			&Input{URL: "https://example.com/new", CustomCode: new("promos"),
				Fields: linkfield.Change{ExternalID: to(new("1"))}})
		if !errs.Is(err, errs.Immutable) {
			t.Errorf("another code: %v", err)
		}
		if _, created := b.create(t, Input{URL: "https://example.com/", Strategy: new(link.Random)}); !created {
			t.Error("a random link was found")
		}
	})
}

// TestCustomCodes_LeaveGeneratedCodes: a generated code differs by case from a custom one, and wins
// in its own spelling.
func TestCustomCodes_LeaveGeneratedCodes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var generated *link.Link
		for i := 0; generated == nil || generated.Code == strings.ToLower(generated.Code); i++ {
			generated, _ = b.create(t, Input{URL: fmt.Sprintf("https://example.com/%d", i)})
		}
		lower := strings.ToLower(generated.Code)
		b.create(t, custom("https://example.com/custom", lower))
		upper := strings.ToUpper(lower)
		for code, want := range map[string]string{
			generated.Code: generated.OriginalURL, lower: "https://example.com/custom",
			upper: "https://example.com/custom",
		} {
			if got := b.goesTo(t, b.Store.Store, code); got != want && upper != generated.Code {
				t.Errorf("%s goes to %q, want %q", code, got, want)
			}
			l := must.Value(b.At(t.Context(), resolve.Address{Slug: "mine", Code: code}))(t)
			if l.OriginalURL != want && upper != generated.Code {
				t.Errorf("%s is for %q, want %q", code, l.OriginalURL, want)
			}
		}
		b.refuse(t, custom("https://example.com/third", generated.Code), errs.CodeTaken)
	})
}

// TestCustomCodes_HaveOneEntryForAllSpellings: and other nodes see a link that replaces another
// one.
func TestCustomCodes_HaveOneEntryForAllSpellings(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l, _ := b.create(t, custom("https://example.com/", "summer-sale-26"))
		other := b.Node(t, b.DB)
		b.goesTo(t, other, l.Code)
		before := other.Resolver.CacheStats()
		for i := range 1000 {
			spelling := []byte(l.Code)
			for bit, at := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 10} {
				if i>>bit&1 == 1 {
					spelling[at] -= 'a' - 'A'
				}
			}
			if got := b.goesTo(t, other, string(spelling)); got != "https://example.com/" {
				t.Fatalf("%s goes to %q", spelling, got)
			}
		}
		if after := other.Resolver.CacheStats(); after.Misses != before.Misses || after.Entries != before.Entries {
			t.Errorf("%d queries and %d entries more", after.Misses-before.Misses, after.Entries-before.Entries)
		}
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		b.Now = b.Now.Add(linktest.Tombstones + time.Hour)
		b.PurgeEnded(t)
		b.create(t, custom("https://example.com/second", "SUMMER-sale-26"))
		must.NoError(t, other.Feed.CatchUp(t.Context()))
		if got := b.goesTo(t, other, "summer-SALE-26"); got != "https://example.com/second" {
			t.Errorf("after the code was given to another link: %q", got)
		}
	})
}

// TestFoldCodes_NamesTwoCodes: the workspace changes once no two links have codes that differ in
// case only; the codes of deleted links stop redirecting, and are restored only if they are free.
func TestFoldCodes_NamesTwoCodes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.setCaseSensitive(t)
		for _, code := range []string{"Promo", "promo", "Sale", "gone", "GONE", "Seventh", "seventh", "Decimation",
			"decimation"} {
			b.create(t, custom("https://example.com/"+code, code))
		}
		if got := b.goesTo(t, b.Store.Store, "PROMO"); got != "" {
			t.Errorf("before the change PROMO goes to %q", got)
		}
		for _, code := range []string{"gone", "GONE", "Seventh", "Decimation"} { // two look like generated codes
			l := must.Value(b.At(t.Context(), resolve.Address{Slug: "mine", Code: code}))(t)
			must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		}
		err := b.fold(t)
		if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "Promo and promo") {
			t.Fatalf("two codes that differ in case: %v", err)
		}
		capital := must.Value(b.At(t.Context(), resolve.Address{Slug: "mine", Code: "Promo"}))(t)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, capital.ID))(t)
		must.NoError(t, b.fold(t))
		must.NoError(t, b.Feed.CatchUp(t.Context()))
		linktest.Refused(b.Edit.Restore(t.Context(), b.Mine, capital.ID))(t, errs.CodeTaken,
			"restoring a link by a member who was read before")
		if _, _, err := b.Create(t.Context(), b.Mine, custom("https://example.com/Promo", "Promo")); !errs.Is(err,
			errs.CodeTaken) {
			t.Errorf("reviving a link by a member who was read before: %v", err)
		}
		b.reloadMine(t)
		for code, want := range map[string]string{
			"Promo": "https://example.com/promo", "SALE": "https://example.com/Sale", "gone": "", "Gone": "",
			"Seventh": "https://example.com/seventh", "SEVENTH": "https://example.com/seventh",
			"Decimation": "https://example.com/decimation", "decimation": "https://example.com/decimation",
		} {
			if got := b.goesTo(t, b.Store.Store, code); got != want {
				t.Errorf("%s goes to %q, want %q", code, got, want)
			}
		}
		linktest.Refused(b.Edit.Restore(t.Context(), b.Mine, capital.ID))(t, errs.CodeTaken,
			"restoring a link whose code another one has")
		_, err = workspacetest.Store(b.DB).Update(t.Context(), b.Mine, workspace.Change{CaseSensitiveCodes: new(true)})
		if !errs.Is(err, errs.Conflict) {
			t.Errorf("changing it back: %v", err)
		}
		must.NoError(t, b.fold(t))
	})
}

// TestFoldCodes_MissesNoLink: links that are created while the workspace changes have their keys
// afterwards.
func TestFoldCodes_MissesNoLink(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for round := range 5 {
			b.setCaseSensitive(t)
			member := b.Mine
			var creating sync.WaitGroup
			for i := range 20 {
				code := fmt.Sprintf("Code-%d-%d", round, i/2)
				if i%2 == 1 {
					code = strings.ToUpper(code)
				}
				creating.Go(func() {
					_, _, err := b.Create(t.Context(), member, custom(fmt.Sprintf("https://example.com/%d", i), code))
					if err != nil && !errs.Is(err, errs.CodeTaken) {
						t.Error(err)
					}
				})
			}
			folded := b.fold(t)
			creating.Wait()
			if folded != nil && !errs.Is(folded, errs.Conflict) {
				t.Fatal(folded)
			}
			var unkeyed, twice int
			ctx := db.AsSystem(t.Context())
			must.NoError(t, errors.Join(
				b.DB.NewRaw("SELECT count(*) FROM links WHERE strategy = 'CUSTOM' AND code_key IS NULL").
					Scan(ctx, &unkeyed),
				b.DB.NewRaw("SELECT count(*) - count(DISTINCT lower(code)) FROM links").Scan(ctx, &twice)))
			if folded == nil && unkeyed+twice > 0 {
				t.Errorf("%d links without a key, %d codes twice", unkeyed, twice)
			}
			must.Value(b.DB.NewRaw("DELETE FROM links").Exec(ctx))(t)
		}
	})
}

// TestFoldCodes_WaitsForRestores: a deleted link may be about to return with a code that differs in
// case from another one's.
func TestFoldCodes_WaitsForRestores(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.setCaseSensitive(t)
		for _, code := range []string{"promo", "PROMO"} {
			b.create(t, custom("https://example.com/"+code, code))
		}
		ctx, folded := db.AsSystem(t.Context()), make(chan error, 1)
		must.Value(b.DB.NewRaw("UPDATE links SET deleted_at = created_at WHERE code = 'PROMO'").Exec(ctx))(t)
		must.NoError(t, b.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewRaw("UPDATE links SET deleted_at = NULL WHERE code = 'PROMO'").Exec(ctx)
			go func() { folded <- b.fold(t) }()
			time.Sleep(200 * time.Millisecond)
			return err
		}))
		if err := <-folded; !errs.Is(err, errs.Conflict) {
			t.Errorf("folded: %v, and both links work", err)
		}
	})
}

func TestCustomCodes_CreatedConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		got := b.createAtOnce(t, 100, func(i int) Input {
			code := []byte("printed-code")
			code[i%7] -= 'a' - 'A'
			return custom("https://example.com/", string(code))
		})
		wanttest.Equal(t, map[string]int{"created": 1, "there": 99}, got, "outcomes")
		b.ExpectRows(t, 1, "links", "TRUE")
		b.ExpectUsed(t, 1)
	})
}
