package firstvisit_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/visit/firstvisit"
)

// TestMark_OneVisitIsFirst marks the same visit many times at once.
func TestMark_OneVisitIsFirst(t *testing.T) {
	t.Parallel()
	visits := &firstvisit.Visits{Redis: dbtest.Redis(t, ""), Timeout: time.Minute}
	now := time.Now()
	mark := func(linkID string, visitor int64, at time.Time) bool {
		isFirst, err := visits.Mark(t.Context(), linkID, visitor, at)
		if err != nil {
			t.Error(err)
		}
		return isFirst
	}
	var first atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if mark("lnk_1", -7, now) {
				first.Add(1)
			}
		})
	}
	all.Wait()
	if first.Load() != 1 {
		t.Errorf("%d first visits", first.Load())
	}
	if !mark("lnk_2", -7, now) || !mark("lnk_1", 8, now) {
		t.Error("another link or visitor is not new")
	}
	if !mark("lnk_1", -7, now.Add(24*time.Hour)) {
		t.Error("the next day is not another day")
	}
}

// TestMark_LostAnswerIsNoReturn: the client library does not send the command again, which would
// find its own mark.
func TestMark_LostAnswerIsNoReturn(t *testing.T) {
	t.Parallel()
	k := dbtest.Redis(t, "")
	loseAnswer := dbtest.LoseAnswers(t, k)
	loseAnswer()
	visits := &firstvisit.Visits{Redis: k, Timeout: time.Minute}
	if _, err := visits.Mark(t.Context(), "lnk_1", 8, time.Now()); err == nil {
		t.Error("a visit whose answer was lost is known")
	}
}
