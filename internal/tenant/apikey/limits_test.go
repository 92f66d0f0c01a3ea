package apikey

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// from returns the context of a request of a client.
func from(t *testing.T, address, origin string) (ctx context.Context) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", nil)
	if r.RemoteAddr = address; origin != "" {
		r.Header.Set("Origin", origin)
	}
	web.Client(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).
		ServeHTTP(httptest.NewRecorder(), r)
	return ctx
}

func TestKey_AdmitsItsClients(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		limits := Limits{
			Origins: []string{"https://app.example.com", "http://localhost:3000", "capacitor://localhost",
				"moz-extension://2c127fa4-62c7-7e4f-90e5-472b45eecfdc", "app://"},
			Networks: []string{"192.0.2.0/24", "2001:db8::/32"},
		}
		_, secret, err := b.Create(t.Context(), b.mine,
			NewKey{Name: "limited", Scopes: []workspace.Permission{workspace.ReadLinks}, Limits: limits})
		must.NoError(t, err)
		_, other := b.key(t, b.mine, workspace.ReadLinks)
		for _, c := range []struct {
			address, origin string
			admitted        bool
		}{
			{"192.0.2.7:1", "", true}, {"192.0.3.7:1", "", false}, {"[2001:db8::1]:1", "", true}, {"[2001:db9::1]:1",
				"", false},
			{"[::ffff:192.0.2.7]:1", "", true}, {"@", "", false},
			{"192.0.2.7:1", "https://app.example.com", true}, {"192.0.2.7:1", "http://localhost:3000", true},
			{"192.0.2.7:1", "https://app.example.com.evil.example", false}, {"192.0.2.7:1", "https://evil.example",
				false},
			{"192.0.2.7:1", "http://app.example.com", false}, {"192.0.2.7:1", "null", false}, {"192.0.2.7:1",
				"https://APP.example.com", false},
		} {
			_, err := b.Authenticate(from(t, c.address, c.origin), secret)
			if c.admitted && err != nil || !c.admitted && !errs.Is(err, errs.Unauthenticated) {
				t.Errorf("%s %s: %v", c.address, c.origin, err)
			}
			if _, unknown := b.Authenticate(t.Context(), "lfk_unknown"); err != nil && err.Error() != unknown.Error() {
				t.Errorf("%q differs from %q", err, unknown)
			}
			must.Value(b.Authenticate(from(t, c.address, c.origin), other))(t) // a key without limits
		}
		if !b.PermitsOrigin(t.Context(), secret, "https://app.example.com") ||
			b.PermitsOrigin(t.Context(), secret, "https://evil.example") ||
			b.PermitsOrigin(t.Context(), other, "https://app.example.com") ||
			b.PermitsOrigin(t.Context(), "", "https://app.example.com") {
			t.Error("the permitted origins")
		}
	})
}

func TestCreate_ChecksLimits(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		create := func(scope workspace.Permission, l Limits) (*Key, string, error) {
			return b.Create(t.Context(), b.mine,
				NewKey{Name: "limited", Scopes: []workspace.Permission{scope}, Limits: l})
		}
		k, secret, err := create(workspace.CreateLinks, Limits{
			DestinationHosts: []string{"EXAMPLE.com", ".bücher.example", "example.com."},
			Networks:         []string{"192.0.2.0/24"},
		})
		must.NoError(t, err)
		if !strings.HasPrefix(secret, "lfp_") || !strings.HasPrefix(k.Prefix, "lfp_") ||
			*k.RequestsPerMinute != publishableRequests ||
			!slices.Equal(k.DestinationHosts, []string{".xn--bcher-kva.example", "example.com"}) {
			t.Errorf("%+v", k)
		}
		wantError(t, errs.Unauthenticated, "used from an unknown network")(b.Authenticate(t.Context(), secret))
	})
}

func TestCreate_RefusesBadLimits(t *testing.T) {
	eachDatabase(t, func(t *testing.T, b *bundle) {
		many := func(n int, value string) []string { return slices.Repeat([]string{value}, n) }
		for field, all := range map[string][]Limits{
			"destinationHosts": {
				{}, {DestinationHosts: many(101, "example.com")}, {DestinationHosts: []string{"https://example.com"}},
				{DestinationHosts: []string{"example.com/x"}}, {DestinationHosts: []string{"user@example.com"}},
				{DestinationHosts: []string{""}},
				{DestinationHosts: []string{"."}}, {DestinationHosts: []string{"..example.com"}},
				{DestinationHosts: []string{"example.com:8080"}},
				{DestinationHosts: []string{"a b"}}, {DestinationHosts: []string{"*.example.com"}},
				{DestinationHosts: []string{"\xff"}},
			},
			"origins": {
				{Origins: many(21, "https://example.com")}, {Origins: []string{"example.com"}},
				{Origins: []string{"https://example.com/"}},
				{Origins: []string{"https://example.com/x"}}, {Origins: []string{"null"}}, {Origins: []string{"*"}},
				{Origins: []string{"ftp://example.com"}},
				{Origins: []string{"https://EXAMPLE.com"}}, {Origins: []string{"https://example.com:443"}},
				{Origins: []string{"https://u@example.com"}},
				{Origins: []string{"chrome-extension://id/popup.html"}}, {Origins: []string{"CAPACITOR://localhost"}},
				{Origins: []string{"file://"}}, {Origins: []string{"app:"}},
			},
			"networks": {
				{Networks: many(21, "192.0.2.0/24")}, {Networks: []string{"192.0.2.1"}},
				{Networks: []string{"192.0.2.1/24"}},
				{Networks: []string{"::ffff:192.0.2.0/120"}}, {Networks: []string{"x"}},
				{Networks: []string{"fe80::%eth0/64"}},
			},
			"requestsPerMinute": {{RequestsPerMinute: new(0)}, {RequestsPerMinute: new(-1)},
				{RequestsPerMinute: new(60_001)}},
			"linksPerDay": {{LinksPerDay: new(0)}, {LinksPerDay: new(-1)}, {LinksPerDay: new(1_000_001)}},
		} {
			for _, l := range all {
				if field != "destinationHosts" {
					l.DestinationHosts = []string{"example.com"}
				}
				want := []string{field}
				list := map[string][]string{"destinationHosts": l.DestinationHosts, "origins": l.Origins,
					"networks": l.Networks}[field]
				if len(list) == 1 {
					want = append(want, "0")
				}
				_, _, err := b.Create(t.Context(), b.mine,
					NewKey{Name: "n", Scopes: []workspace.Permission{workspace.CreateLinks}, Limits: l})
				if !errs.Is(err, errs.InvalidInput) || !slices.Equal(errs.From(err).Field, want) ||
					strings.HasPrefix(err.Error(), " ") {
					t.Errorf("%s %+v: %v", field, l, err)
				}
			}
		}
		_, _, err := b.Create(t.Context(), b.mine, NewKey{Name: "n", Limits: Limits{LinksPerDay: new(1)},
			Scopes: []workspace.Permission{workspace.WriteLinks}})
		if !errs.Is(err, errs.InvalidInput) || !slices.Equal(errs.From(err).Field, []string{"linksPerDay"}) {
			t.Errorf("of a key that is not publishable: %v", err)
		}
	})
}
