package history_test

import (
	"context"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// TestStore_ByPastAddressKnowsWhenSlugsBegan: a slug answers from the instant on at which the
// workspace has it.
func TestStore_ByPastAddressKnowsWhenSlugsBegan(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := creationtest.New(t, d)
		l := b.Make(t, creation.Input{URL: "https://example.com/a", CustomCode: new("promo")})
		began := noon.Add(time.Hour)
		const add = "INSERT INTO slugs (slug, workspace_id, created_at) VALUES (?, ?, ?)"
		must.Value(d.ExecContext(db.AsSystem(t.Context()), add, "renamed", b.Mine.ID(), began))(t)
		a := resolve.Address{Slug: "renamed", Code: "promo"}
		linktest.Refused(b.History.ByPastAddress(t.Context(), a, began.Add(-time.Microsecond)))(t, errs.NotFound,
			"before the slug")
		if got, err := b.History.ByPastAddress(t.Context(), a, began); err != nil || got.ID != l.ID {
			t.Errorf("with the slug: %+v, %v", got, err)
		}
	})
}

// TestStore_ByPastAddressKnowsCodesOfDomains: a domain that was removed had codes of its own
// before.
func TestStore_ByPastAddressKnowsCodesOfDomains(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := creationtest.New(t, d)
		domains := &domain.Store{
			DB: d, Own: must.Value(destination.NewOwnHosts("http://sho.rt"))(t), Resolver: everyRecord{},
			Limits: ratelimit.Limiter{Off: true}, Now: func() time.Time { return b.Now },
		}
		own := must.Value(domains.Add(t.Context(), b.Mine, "go.example.com",
			domain.Codes{Space: new(domain.Own), CaseSensitive: new(false)}))(t)
		shared := b.Make(t, creation.Input{URL: "https://example.com/shared", CustomCode: new("promo")})
		printed := b.Make(t,
			creation.Input{URL: "https://example.com/own", CustomCode: new("Promo"), DomainID: &own.ID})
		must.Value(domains.Verify(everyValue(t, own), b.Mine, own.ID))(t)
		b.Tick()
		before := b.Now
		b.Tick()
		b.Remove(t, printed.ID)
		must.Value(domains.Remove(t.Context(), b.Mine, own.ID))(t)
		again := must.Value(domains.Add(t.Context(), b.Mine, "go.example.com", domain.Codes{}))(t)
		must.Value(domains.Verify(everyValue(t, again), b.Mine, again.ID))(t)
		b.Tick()
		for _, shortURL := range []string{"https://go.example.com/PROMO", "http://go.example.com/PROMO-_"} {
			at := must.Value(b.Links.Resolver.ParseShortURL(shortURL))(t)
			if got, err := b.History.ByPastAddress(t.Context(), at, before); err != nil || got.ID != printed.ID {
				t.Errorf("%s with codes of its own: %+v, %v", shortURL, got, err)
			}
			if got, err := b.History.ByPastAddress(t.Context(), at, b.Now); err != nil || got.ID != shared.ID {
				t.Errorf("%s with those of the workspace: %+v, %v", shortURL, got, err)
			}
		}
	})
}

type valueKey struct{}

// everyValue returns a context with a value for everyRecord that proves a domain.
func everyValue(t *testing.T, d *domain.Domain) context.Context {
	t.Helper()
	return context.WithValue(t.Context(), valueKey{}, d.RecordValue())
}

// everyRecord is a DNS with the record of the context's domain.
type everyRecord struct{}

func (everyRecord) LookupTXT(ctx context.Context, _ string) ([]string, error) {
	value, _ := ctx.Value(valueKey{}).(string)
	return []string{value}, nil
}
