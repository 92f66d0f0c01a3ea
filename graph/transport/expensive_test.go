package transport

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestExpensive_TakesTurns: the expensive operations of one owner wait for each other, cheap ones
// and those of others do not.
func TestExpensive_TakesTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{expensive: newExpensive()}
		enter := func(owner string, cost int) error {
			operation := &graphql.OperationContext{}
			limit.SetBill(operation, &limit.Bill{Cost: cost})
			_, _, err := h.enterExpensive(Caller{Owner: owner}.attach(t.Context()), operation)
			return err
		}
		if most := max(1, int64(runtime.GOMAXPROCS(0))/2); h.expensive.Share != most {
			t.Errorf("an owner has %d turns, want %d, half of the processors", h.expensive.Share, most)
		}
		for range h.expensive.Share {
			must.NoError(t, enter("flood", expensiveCost))
		}
		for name, c := range map[string]struct {
			owner   string
			cost    int
			refused bool
		}{
			"another of the owner":     {"flood", expensiveCost, true},
			"a cheap one of the owner": {"flood", expensiveCost - 1, false},
			"one of another owner":     {"victim", expensiveCost, false},
			"a cheap one of another":   {"victim", 1, false},
		} {
			if err := enter(c.owner, c.cost); c.refused != errs.Is(err, errs.Unavailable) || !c.refused && err != nil {
				t.Errorf("%s: %v, want it refused: %t", name, err, c.refused)
			}
		}
		other := &Handler{expensive: newExpensive()}
		operation := &graphql.OperationContext{}
		limit.SetBill(operation, &limit.Bill{Cost: 9 * pointsPerTurn})
		within, leave, err := other.enterExpensive(Caller{Owner: "one"}.attach(t.Context()), operation)
		must.NoError(t, err)
		if used, _ := other.expensive.Stats(); used != min(10, other.expensive.Share) {
			t.Errorf("an operation of the largest cost has %d turns", used)
		}
		used := func(when string, want int64) {
			t.Helper()
			if used, _ := other.expensive.Stats(); used != want {
				t.Errorf("an operation has %d turns %s, want %d", used, when, want)
			}
		}
		EndTurn(t.Context())()
		most := other.expensive.Share
		for range 2 { // as of two fields
			resume := EndTurn(within)
			EndTurn(within)()
			used("while it waits for another server", 0)
			end := must.Value(other.expensive.Enter(t.Context(), most, "one"))(t)
			began := time.Now()
			time.AfterFunc(2*maxExpensiveWait, end.Leave)
			resume()
			if time.Since(began) < 2*maxExpensiveWait {
				t.Error("it goes on without a turn")
			}
			used("then", min(10, most))
		}
		resume := EndTurn(within)
		leave()
		resume()
		used("after its end", 0)
	})
}
