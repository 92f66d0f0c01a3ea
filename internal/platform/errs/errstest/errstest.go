// Package errstest compares errors with those that tests want.
package errstest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// Want returns a function that checks the kind of a call's error, its last result:
// Want(t, errs.NotFound, "twice")(call()).
func Want(t *testing.T, want errs.Kind, what string, arguments ...any) func(results ...any) {
	t.Helper()
	if len(arguments) > 0 {
		what = fmt.Sprintf(what, arguments...)
	}
	return func(results ...any) {
		t.Helper()
		if err, _ := results[len(results)-1].(error); !errs.Is(err, want) {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}

// Same compares the parts of two errors that a client sees.
func Same(t *testing.T, want, got error, format string, arguments ...any) {
	t.Helper()
	wanttest.Equal(t, seen(want), seen(got), format, arguments...)
}

func seen(err error) errs.Error {
	e := errs.From(err)
	return errs.Error{Kind: e.Kind, Message: e.Public(), Field: e.Field, RetryAfter: e.RetryAfter}
}

// AtOnce makes n calls, sixteen at a time, and counts their answers by the code; a good one is OK.
func AtOnce(n int, call func(i int) error) map[string]int {
	var mu sync.Mutex
	answers := map[string]int{}
	var all sync.WaitGroup
	places := make(chan struct{}, 16) // beyond, log-ins of an address are refused
	for i := range n {
		all.Go(func() {
			places <- struct{}{}
			err := call(i)
			<-places
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				answers["OK"]++
			} else {
				answers[errs.From(err).Kind.Code()]++
			}
		})
	}
	all.Wait()
	return answers
}

// Of returns the error of a call.
func Of[V any](_ V, err error) error { return err }
