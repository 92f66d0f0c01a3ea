package transport

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestBodies_AreSharedBetweenOwners: the large bodies of one owner wait for each other, those of
// others and small ones do not.
func TestBodies_AreSharedBetweenOwners(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{config: Config{Bounds: config.Bounds{Body: 16 << 20}}}
		h.bodies = newBodies(h.config.Bounds)
		admit := func(owner string, size int64) (func(), error) {
			ctx := Caller{Owner: owner}.attach(t.Context())
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/graphql", strings.NewReader("{}"))
			r.ContentLength = size
			return h.admitBody(ctx, r)
		}
		for name, c := range map[string]struct {
			owner   string
			size    int64
			refused bool
		}{
			"the second large body of an owner": {"flood", 16 << 20, true},
			"one of unknown size":               {"flood", -1, true},
			"a small one":                       {"flood", smallBody, false},
			"one of another owner":              {"victim", 16 << 20, false},
			"one that announces too much":       {"victim", 1 << 40, false}, // it is refused when it is read
		} {
			var held []func()
			for range 1 { // a share is an eighth of eight
				release := must.Value(admit("flood", 16<<20))(t)
				held = append(held, release)
			}
			began := time.Now()
			release, err := admit(c.owner, c.size)
			if c.refused != errs.Is(err, errs.Unavailable) || time.Since(began) > maxBodyWait {
				t.Errorf("%s: %v after %s, want it refused: %t", name, err, time.Since(began), c.refused)
			}
			if err == nil {
				held = append(held, release)
			}
			for _, release := range held {
				release()
			}
		}
		if used, waiting := h.bodies.Stats(); used != 0 || waiting != 0 {
			t.Errorf("%d bytes are in use and %d requests wait", used, waiting)
		}
	})
}

// TestBodies_AreReleased: also after requests that fail.
func TestBodies_AreReleased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, body := range []string{
		`{"query": "{ __typename }"` + strings.Repeat(" ", smallBody) + "}", "{" + strings.Repeat("x", smallBody),
		strings.Repeat(" ", b.config.Bounds.Body+1),
	} {
		b.send(t, member, http.MethodPost, "/graphql", mediaJSON, body, mediaGraphQL)
	}
	if used, _ := b.bodies.Stats(); used != 0 {
		t.Errorf("%d bytes are still in use", used)
	}
}
