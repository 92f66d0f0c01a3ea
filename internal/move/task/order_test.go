package task

import (
	"maps"
	"testing"
	"time"
)

// TestTurns_OfOutsideTasksAreNoneOfOthers: the tasks of an account that wait for other servers have
// all of their turns, and its tasks that compute still have every third one.
func TestTurns_OfOutsideTasksAreNoneOfOthers(t *testing.T) {
	t.Parallel()
	var turns turns
	served := map[string]int{}
	for range 99 {
		turns.serve(&candidate{Account: "a", Outside: true})
		all := []*candidate{{Account: "a", DueAt: time.Unix(1, 0)}, {Account: "b"}, {Account: "c"}}
		turns.sort(all)
		turns.serve(all[0])
		served[all[0].Account]++
	}
	if !maps.Equal(served, map[string]int{"a": 33, "b": 33, "c": 33}) {
		t.Errorf("served %v", served)
	}
}
