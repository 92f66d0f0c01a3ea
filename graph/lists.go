package graph

import (
	"context"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// maxLists is the number of lists of links that one operation reads at once: aliases do not
// multiply its load on the database.
const maxLists = 2

// listsKey is the context key of an operation's turns to read lists.
type listsKey struct{}

// withLists returns a context for one operation.
func withLists(ctx context.Context) context.Context {
	return context.WithValue(ctx, listsKey{}, make(chan struct{}, maxLists))
}

// enterList waits for a turn to read a list, until leave is called. It returns Unavailable when the
// operation's time is over.
func enterList(ctx context.Context) (leave func(), err error) {
	turns, ok := ctx.Value(listsKey{}).(chan struct{})
	if !ok {
		return func() {}, nil
	}
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, errs.New(errs.Unavailable, "The operation took too long. Request fewer lists at once.").
			Because(ctx.Err())
	}
}
