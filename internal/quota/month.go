package quota

import "time"

// Month is a calendar month in UTC, the period of every quota.
type Month struct {
	// Start is its first instant, End the first one after it.
	Start, End time.Time
}

// MonthOf is the month that t lies in.
func MonthOf(t time.Time) Month {
	t = t.UTC()
	start := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return Month{Start: start, End: start.AddDate(0, 1, 0)}
}

// String is the month as YYYY-MM.
func (m Month) String() string { return m.Start.Format("2006-01") }
