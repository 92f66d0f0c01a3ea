package creation

import (
	"fmt"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

func (b *bundle) anonymous(t *testing.T, url string) (*link.Link, string) {
	t.Helper()
	l, token, err := b.CreateAnonymous(t.Context(), "192.0.2.1", url)
	must.NoError(t, err)
	return l, token
}

func TestStore_CreateAnonymous(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l, token := b.anonymous(t, "https://example.com/a")
		if l.Kind() != link.Temporary || l.Strategy != link.Counter || !l.ExpiresAt.Equal(noon.Add(8*time.Hour)) ||
			l.CreatedBy != nil || b.ShortURL(l) != "http://sho.rt/"+l.Code {
			t.Errorf("%+v", l)
		}
		other, otherToken := b.anonymous(t, "https://example.com/a")
		if other.ID == l.ID || otherToken == token {
			t.Error("two visitors got one link")
		}
		if _, _, err := b.CreateAnonymous(t.Context(), "192.0.2.1", "http://sho.rt/a"); !errs.Is(err, errs.UnsafeURL) {
			t.Errorf("a loop: %v", err)
		}
		b.config.AnonymousTTL = 0
		if _, _, err := b.CreateAnonymous(t.Context(), "192.0.2.1", "https://example.com/a"); !errs.Is(err,
			errs.Forbidden) {
			t.Errorf("switched off: %v", err)
		}
	})
}

func TestStore_CreateAnonymousLimitsPerAddress(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for range 60 {
			b.anonymous(t, "https://example.com/a")
		}
		if _, _, err := b.CreateAnonymous(t.Context(), "192.0.2.1",
			"https://example.com/a"); !errs.Is(err, errs.RateLimited) {
			t.Errorf("one more: %v", err)
		}
		if _, _, err := b.CreateAnonymous(t.Context(), "192.0.2.2", "https://example.com/a"); err != nil {
			t.Errorf("from elsewhere: %v", err)
		}
		var last error
		for i := range 241 { // from a network each of one IPv6 site
			_, _, last = b.CreateAnonymous(t.Context(), fmt.Sprintf("2001:db8:0:%x::/64", i), "https://example.com/a")
			if i < 240 {
				must.NoError(t, last)
			}
		}
		linktest.Refused(0, last)(t, errs.RateLimited, "one more of the site")
	})
}
