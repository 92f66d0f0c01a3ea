package redisx_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/faulttest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// TestProtect_BoundsCommandsOfAnUnreachableRedis: the first command ends within the deadline, the
// others at once, and commands work again soon after Redis answers.
func TestProtect_BoundsCommandsOfAnUnreachableRedis(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faulttest.Mode{"black hole": faulttest.BlackHole, "reset": faulttest.Refuse} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Redis(t, "")
			options := redisx.OptionsOf(server)
			p := faulttest.NewProxy(t, options.Addr)
			k := must.Value(redisx.Open("redis://:"+options.Password+"@"+p.Address, 5))(t)
			defer k.Close()
			k.Protect(slog.New(slog.DiscardHandler))
			must.NoError(t, k.Set(t.Context(), "key", 1, 0).Err())
			p.Set(fault)
			began := time.Now()
			if err := k.Get(t.Context(), "key").Err(); err == nil || time.Since(began) > 2*time.Second {
				t.Errorf("the first command ends after %s: %v", time.Since(began), err)
			}
			if !k.IsOpen() {
				t.Fatal("the circuit breaker is closed")
			}
			began = time.Now()
			for range 100 {
				errstest.Want(t, errs.Unavailable, "a command")(k.Get(t.Context(), "key").Err())
				must.Value(k.Pipeline().Exec(t.Context()))(t) // an empty pipeline
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("100 commands took %s while the breaker is open", took)
			}
			p.Set(faulttest.Pass)
			polltest.Until(t, "commands work again", func() bool { return k.Get(t.Context(), "key").Val() == "1" })
		})
	}
}
