package edit_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
)

// TestEvents_HaveTheOrderOfVersions: of calls that change the same links at the same time, too. A
// call may have begun to write, and wait for the lock of a link, before another changes that link.
func TestEvents_HaveTheOrderOfVersions(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ids := make([]string, 20)
		for i := range ids {
			l := b.Make(t, creation.Input{URL: "https://example.com/a", Strategy: new(link.Random)})
			ids[i] = l.ID
		}
		var callers sync.WaitGroup
		for caller := range 4 {
			callers.Go(func() {
				for i := range 30 {
					var changes []link.Change
					for _, n := range rand.Perm(len(ids))[:1+rand.IntN(len(ids)/2)] {
						changes = append(changes, link.Change{ID: ids[n], Title: to(new(fmt.Sprint(caller, i)))})
					}
					if _, err := b.Edit.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
		expected := 0
		for _, linkID := range ids {
			expected += b.Reload(t, &link.Link{ID: linkID}).Version
		}
		seen := map[string]int{}
		for _, e := range b.Events(t, expected) {
			if *e.Version != seen[e.TargetID]+1 {
				t.Errorf("version %d of %s follows %d", *e.Version, e.TargetID, seen[e.TargetID])
			}
			seen[e.TargetID] = *e.Version
		}
	})
}
