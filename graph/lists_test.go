package graph

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestEnterList_BoundsAnOperation: two lists of an operation at once; those of another do not wait.
func TestEnterList_BoundsAnOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(withLists(t.Context()))
		var held []func()
		enter := func(ctx context.Context) {
			t.Helper()
			leave := must.Value(enterList(ctx))(t)
			held = append(held, leave)
		}
		for range maxLists {
			enter(ctx)
		}
		enter(withLists(t.Context()))
		third := make(chan error, 1)
		go func() {
			_, err := enterList(ctx)
			third <- err
		}()
		synctest.Wait()
		select {
		case err := <-third:
			t.Fatalf("a third list did not wait: %v", err)
		default:
		}
		held[0]()
		if err := <-third; err != nil {
			t.Errorf("after another has ended: %v", err)
		}
		cancel()
		if _, err := enterList(ctx); !errs.Is(err, errs.Unavailable) {
			t.Errorf("after the operation's time: %v", err)
		}
	})
}
