// Package polltest waits for conditions in tests. Tests that can run in a testing/synctest bubble
// need none of it.
package polltest

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// interval is the time between two checks.
const interval = 5 * time.Millisecond

// deadline is how long a condition may take: long enough for a slow machine, and for the race
// detector, with which a program takes many times as long.
var deadline = map[bool]time.Duration{false: time.Minute, true: 5 * time.Minute}[suitetest.Race]

// Until waits until the condition holds. It ends the test when that takes too long.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Within(t, deadline, what, holds)
}

// Within is Until with a deadline of its own, for conditions that depend on the size of a test.
func Within(t testing.TB, deadline time.Duration, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); {
		if time.Since(began) > deadline {
			t.Fatalf("waited %s in vain until %s", deadline, what)
		}
		time.Sleep(max(interval, deadline/10_000))
	}
}

// Settled waits until the value has not changed for the given time. It ends the test when that
// takes too long.
func Settled(t testing.TB, what string, quiet time.Duration, value func() int64) {
	t.Helper()
	last, since := value(), time.Now()
	Until(t, what, func() bool {
		if now := value(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= quiet
	})
}

// Elapse lets an outage, or the pause between two requests of a client, take its time. It waits for
// no condition: use Until for that.
func Elapse(d time.Duration) { time.Sleep(d) }
