package click

import "time"

// Month is a calendar month in UTC, the period of every quota: twelve times the year, plus the
// months of it that are over. The zero Month is unknown.
type Month int32

// MonthCount is a number of clicks of a link in a month. Outage is how many of them have a hit that a
// node has granted without Redis, whose counter may lack it therefore.
type MonthCount struct{ Clicks, Outage int64 }

// MonthOf returns the month that t lies in.
func MonthOf(t time.Time) Month {
	t = t.UTC()
	return Month(t.Year()*12 + int(t.Month()) - 1)
}

// Start is the first instant of the month.
func (m Month) Start() time.Time {
	return time.Date(int(m/12), time.Month(m%12+1), 1, 0, 0, 0, 0, time.UTC)
}

// End is the first instant after the month.
func (m Month) End() time.Time { return (m + 1).Start() }

// String is the month as YYYY-MM, and nothing for the zero Month.
func (m Month) String() string {
	if m == 0 {
		return ""
	}
	return m.Start().Format("2006-01")
}

// ParseMonth reads what String writes. It returns an error for anything else.
func ParseMonth(s string) (Month, error) {
	if s == "" {
		return 0, nil
	}
	start, err := time.Parse("2006-01", s)
	if err != nil {
		return 0, err
	}
	return MonthOf(start), nil
}
