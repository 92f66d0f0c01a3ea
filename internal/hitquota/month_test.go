package hitquota

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/must"
)

func TestMonthOf_FollowsUTC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, month, end string }{
		{"2026-12-31T23:59:59.999999999Z", "2026-12", "2027-01-01T00:00:00Z"},
		{"2027-01-01T00:00:00Z", "2027-01", "2027-02-01T00:00:00Z"},
		{"2027-01-01T00:30:00+01:00", "2026-12", "2027-01-01T00:00:00Z"},
		{"2028-02-29T12:00:00Z", "2028-02", "2028-03-01T00:00:00Z"},
	} {
		t.Run(c.at, func(t *testing.T) {
			at := must.Value(time.Parse(time.RFC3339Nano, c.at))(t)
			m := MonthOf(at)
			if m.String() != c.month || m.End.Format(time.RFC3339) != c.end {
				t.Errorf("%s lies in %s, which ends %s", c.at, m, m.End)
			}
		})
	}
}

// TestMonth_RoundTrips: the log's text of a month and the number in leases convert back.
func TestMonth_RoundTrips(t *testing.T) {
	t.Parallel()
	for month := (Month{}); month.Start.Year() < 2030; {
		got, err := ParseMonth(month.String())
		if got != month || err != nil {
			t.Errorf("%q is read as %q: %v", month, got, err)
		}
		if got := monthOf(month.number()); got != month {
			t.Errorf("%q, number %d, is %q", month, month.number(), got)
		}
		if month.IsZero() {
			month = MonthOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		} else {
			month = MonthOf(month.End)
		}
	}
	for _, text := range []string{"2026", "2026-13", "2026-1-1", "now"} {
		if m, err := ParseMonth(text); err == nil {
			t.Errorf("%q is read as %s", text, m)
		}
	}
}
