package graph

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
)

// TestBudget_BoundsGroups: the keys of a workspace, each with its own rate, share a wider one. The
// caller's own allowance is reported.
func TestBudget_BoundsGroups(t *testing.T) {
	t.Parallel()
	limiter := ratelimit.New(dbtest.Redis(t, ""), slog.New(slog.DiscardHandler), time.Now)
	c := &Config{Meter: ratelimit.NewMeter(limiter, time.Now)}
	spend := c.budget("requests", 10)
	group := transport.Group{Subject: "keys:ws_1", Callers: 5}
	admitted := 0
	for i := range 100 {
		key := transport.Caller{Subject: fmt.Sprint("key_", i%20), Groups: []transport.Group{group}}
		a, err := spend(t.Context(), key, 1)
		switch {
		case err == nil:
			admitted++
		case !errs.Is(err, errs.RateLimited) || errs.From(err).RetryAfter <= 0 || !a.OfGroup ||
			!strings.Contains(err.Error(), "account, workspace or network"):
			t.Fatalf("request %d: %+v, %v", i, a, err)
		}
		if a.Limit != 10 {
			t.Fatalf("the allowance is %+v, want the caller's", a)
		}
	}
	if admitted != 50 {
		t.Errorf("%d of 100 requests by 20 keys with 10 each were admitted, want 50", admitted)
	}
	other := transport.Caller{Subject: "key_other", Groups: []transport.Group{{Subject: "keys:ws_2", Callers: 5}}}
	if _, err := spend(t.Context(), other, 10); err != nil {
		t.Errorf("another workspace: %v", err)
	}
}
