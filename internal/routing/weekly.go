package routing

import (
	"slices"
	"time"
)

// Weekly are times of the week on the clock of a time zone. If To is not after From, the window ends on
// the next day, and belongs to the day on which it begins.
type Weekly struct {
	Zone *time.Location
	Days []time.Weekday
	// From and To are minutes of the day, 0 to 1439 and 0 to 1440, and differ.
	From, To int
}

// Holds reports whether the window is open at an instant. A local time that occurs twice is in the
// window twice; one that is skipped never is.
func (w *Weekly) Holds(at time.Time) bool {
	local := at.In(w.Zone)
	minute, day := local.Hour()*60+local.Minute(), local.Weekday()
	if w.From < w.To {
		return minute >= w.From && minute < w.To && slices.Contains(w.Days, day)
	}
	if minute >= w.From {
		return slices.Contains(w.Days, day)
	}
	return minute < w.To && slices.Contains(w.Days, (day+6)%7)
}
