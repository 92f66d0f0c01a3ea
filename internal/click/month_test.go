package click

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestOf_FollowsUTC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, month, end string }{
		{"2026-12-31T23:59:59.999999999Z", "2026-12", "2027-01-01T00:00:00Z"},
		{"2027-01-01T00:00:00Z", "2027-01", "2027-02-01T00:00:00Z"},
		{"2027-01-01T00:30:00+01:00", "2026-12", "2027-01-01T00:00:00Z"},
		{"2028-02-29T12:00:00Z", "2028-02", "2028-03-01T00:00:00Z"},
	} {
		at := must.Value(time.Parse(time.RFC3339Nano, c.at))(t)
		m := MonthOf(at)
		if m.String() != c.month || m.End().Format(time.RFC3339) != c.end {
			t.Errorf("%s lies in %s, which ends %s", c.at, m, m.End())
		}
	}
}

func TestMonth_RoundTrips(t *testing.T) {
	t.Parallel()
	for m := MonthOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); m.Start().Year() < 2030; m++ {
		if got, err := ParseMonth(m.String()); got != m || err != nil {
			t.Errorf("%q is read as %q: %v", m, got, err)
		}
		if MonthOf(m.Start()) != m || MonthOf(m.End().Add(-1)) != m || MonthOf(m.End()) != m+1 {
			t.Errorf("%q lasts from %s until %s", m, m.Start(), m.End())
		}
	}
	if got, err := ParseMonth(Month(0).String()); got != 0 || err != nil {
		t.Errorf("no month is read as %q: %v", got, err)
	}
	for _, text := range []string{"2026", "2026-13", "2026-1-1", "now"} {
		if m, err := ParseMonth(text); err == nil {
			t.Errorf("%q is read as %s", text, m)
		}
	}
}
