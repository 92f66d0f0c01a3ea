package routing

import (
	"math"
	"strings"
	"time"
)

// Status is the state of a link at an instant.
type Status string

// The states.
const (
	Scheduled Status = "SCHEDULED" // before its start
	Active    Status = "ACTIVE"
	Expired   Status = "EXPIRED"   // from its end on
	Exhausted Status = "EXHAUSTED" // has granted its maximum of clicks
	Deleted   Status = "DELETED"   // by a member
	Disabled  Status = "DISABLED"  // by the operator
)

// Lifecycle holds the facts that determine the state of a link.
type Lifecycle struct {
	Disabled, Deleted, Exhausted bool
	// Start and End are in microseconds since 1970, the precision of the database.
	Start, End int64
}

// Open bounds: a link that has always started, and one that never ends.
const (
	NoStart int64 = math.MinInt64
	NoEnd   int64 = math.MaxInt64
)

// NewLifecycle returns the life cycle of a link that is neither deleted, disabled nor exhausted.
// Nil bounds are open.
func NewLifecycle(startsAt, expiresAt *time.Time) Lifecycle {
	l := Lifecycle{Start: NoStart, End: NoEnd}
	if startsAt != nil {
		l.Start = startsAt.UnixMicro()
	}
	if expiresAt != nil {
		l.End = expiresAt.UnixMicro()
	}
	return l
}

// states are the states in order of precedence: a link is in the first one whose condition holds,
// and Active if none holds. The conditions in SQL are on rows of links; conditions that end in a
// placeholder take the instant, and granted is an expression of the caller. Lifecycle.Status has
// the same conditions, in the same order.
var states = [...]struct {
	status    Status
	condition string
}{
	{Disabled, "link.disabled_at IS NOT NULL"},
	{Deleted, "link.deleted_at IS NOT NULL"},
	{Expired, "link.expires_at <= ?"},
	{Exhausted, "link.max_clicks IS NOT NULL AND link.max_clicks <= granted"},
	{Scheduled, "link.starts_at > ?"},
}

// Status returns the state at an instant.
func (l *Lifecycle) Status(now time.Time) Status {
	at := now.UnixMicro()
	holds := [len(states)]bool{l.Disabled, l.Deleted, at >= l.End, l.Exhausted, at < l.Start}
	for i, hold := range holds {
		if hold {
			return states[i].status
		}
	}
	return Active
}

// StatusSQL returns an SQL expression for the state at an instant of a row of links, aliased
// "link", and its arguments. Granted is an SQL expression for how many redirects the link has
// granted.
func StatusSQL(now time.Time, granted string) (expression string, args []any) {
	b := new(strings.Builder)
	b.WriteString("CASE")
	for _, s := range states {
		b.WriteString(" WHEN " + strings.Replace(s.condition, "granted", granted, 1) + " THEN '" + string(s.status) +
			"'")
		if strings.HasSuffix(s.condition, "?") {
			args = append(args, now)
		}
	}
	b.WriteString(" ELSE '" + string(Active) + "' END")
	return b.String(), args
}
