package admission

import (
	"net/netip"
	"time"
)

// Admission counts a request for its address network at most once. The caller admits the request
// before the limited work, so that concurrent requests cannot exceed the rate, and releases it if
// it proves not to be limited. It is for one goroutine.
type Admission struct {
	// RetryAfter is positive once the request was refused: the time after which the network may try
	// again.
	RetryAfter time.Duration

	limiter *Limiter
	from    netip.Addr
	at      time.Time
	isTaken bool
}

// Admission returns the admission of a request that arrived at an instant.
func (l *Limiter) Admission(from netip.Addr, at time.Time) Admission {
	return Admission{limiter: l, from: from, at: at}
}

// Admit reports whether the request is within the rate. It counts the request if that has not been
// done.
func (a *Admission) Admit() bool {
	if !a.isTaken {
		a.RetryAfter = a.limiter.Take("", a.from, a.at)
		a.isTaken = a.RetryAfter == 0
	}
	return a.isTaken
}

// Release reverts the count of a request that proved not to be limited.
func (a *Admission) Release() {
	if a.isTaken {
		a.limiter.Release("", a.from, a.at)
		a.isTaken = false
	}
}
