package routing

import "time"

// weekly are times of the week on the clock of a time zone. If to is not after from, the window ends on
// the next day, and belongs to the day on which it begins.
type weekly struct {
	zone *time.Location
	// days has a bit for each time.Weekday.
	days byte
	// from and to are minutes of the day, 0 to 1439 and 0 to 1440, and differ.
	from, to int
}

// holds reports whether the window is open at an instant. A local time that occurs twice is in the
// window twice; one that is skipped never is.
func (w *weekly) holds(at time.Time) bool {
	local := at.In(w.zone)
	minute, day := local.Hour()*60+local.Minute(), local.Weekday()
	if w.from < w.to {
		return minute >= w.from && minute < w.to && w.has(day)
	}
	if minute >= w.from {
		return w.has(day)
	}
	return minute < w.to && w.has((day+6)%7)
}

func (w *weekly) has(day time.Weekday) bool { return w.days&(1<<day) != 0 }
