package batcher_test

import (
	"context"
	"fmt"

	"github.com/linkforge/linkforge/internal/platform/batcher"
)

// A lone request is a batch of one. Requests that arrive while a call is running share the next
// one.
func ExampleBatcher() {
	var calls batcher.Batcher[string, int, map[int]string]
	names, err := calls.Do(context.Background(), "names", 7,
		func(_ context.Context, ids []int) (map[int]string, error) {
			names := map[int]string{}
			for _, id := range ids {
				names[id] = fmt.Sprint("name of ", id)
			}
			return names, nil
		})
	fmt.Println(names[7], err)
	// Output:
	// name of 7 <nil>
}
