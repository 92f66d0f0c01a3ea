package ingest

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestQueue_KeepsOrder: an idle process has no queue; one whose goroutines are all ready has one.
func TestQueue_KeepsOrder(t *testing.T) {
	var q queue
	if q.isLong() {
		t.Error("a queue before anything was seen")
	}
	var busy sync.WaitGroup
	for range 100 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for range 50 { // however little of the machine is left for the test
				for began := time.Now(); time.Since(began) < 20*time.Microsecond; {
				}
				runtime.Gosched()
			}
		})
	}
	busy.Wait()
	if !q.isLong() {
		t.Error("no queue, though a hundred goroutines wanted each processor")
	}
	handed := make(chan bool)
	go func() {
		for range handed {
		}
	}()
	defer close(handed)
	for range 1000 { // until others leave this machine alone
		q.isLong()
		for range 100 {
			handed <- true // wakes the receiver at once
		}
		if !q.isLong() {
			return
		}
	}
	t.Error("a queue, though there was nothing to do")
}
