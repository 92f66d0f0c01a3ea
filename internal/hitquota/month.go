package hitquota

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

// IsZero says that it is no month.
func (m Month) IsZero() bool { return m.Start.IsZero() }

// String is the month as YYYY-MM, and nothing for the zero month.
func (m Month) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Start.Format("2006-01")
}

// ParseMonth reads what String writes. It returns an error for anything else.
func ParseMonth(s string) (Month, error) {
	if s == "" {
		return Month{}, nil
	}
	start, err := time.Parse("2006-01", s)
	return MonthOf(start), err
}
