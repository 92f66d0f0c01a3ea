package jobs

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
)

// The environment variables that make TestHolder_Process hold a lease, and the line that it prints
// once it does.
const (
	holderKind = "LINKFORGE_TEST_HOLDER_KIND"
	holderURL  = "LINKFORGE_TEST_HOLDER_URL"
	holding    = "holding"
)

// TestHolder_Process runs in the process that TestLease_OfAKilledHolderIsTakenOver kills. It does
// nothing in the test process itself. Its clock is fixed at noon.
func TestHolder_Process(t *testing.T) {
	t.Parallel()
	kind := db.Kind(os.Getenv(holderKind))
	if kind == "" {
		return
	}
	r, _ := setup(dbtest.Open(t, kind, os.Getenv(holderURL)))
	_, err := r.Try(t.Context(), quarterly(func(ctx context.Context) error {
		fmt.Println(holding)
		<-ctx.Done()
		return nil
	}))
	t.Errorf("the holder was not killed: %v", err)
}

// TestLease_OfAKilledHolderIsTakenOver kills the process that runs a job. A node that looks at the
// latest possible second of each minute runs the job within 15 minutes, when its run would have ended.
func TestLease_OfAKilledHolderIsTakenOver(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, kind db.Kind, where string) {
		d := dbtest.Open(t, kind, where)
		dbtest.Kill(t, "TestHolder_Process", holding, holderKind+"="+string(kind), holderURL+"="+where)
		if l := leaseOf(t, d, "tidy"); l.LeaseHolder == nil {
			t.Errorf("the killed holder released its lease: %+v", l)
		}
		const late = 59 * time.Second
		for minute := range time.Duration(14) { // until 13m59s
			tryAt(t, d, minute*time.Minute+late, quarterly(noop), false)
		}
		tryAt(t, d, 14*time.Minute+late, quarterly(noop), true)
	})
}
