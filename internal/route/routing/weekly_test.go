package routing

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestWeekly_FollowsTheWallClock(t *testing.T) {
	t.Parallel()
	berlin := must.Value(time.LoadLocation("Europe/Berlin"))(t)
	office := weekly{zone: berlin, days: 1<<time.Monday | 1<<time.Friday, from: 9 * 60, to: 17 * 60}
	night := weekly{zone: berlin, days: 1 << time.Saturday, from: 22 * 60, to: 6 * 60}
	whole := weekly{zone: berlin, days: 1 << time.Sunday, from: 0, to: 24 * 60}
	twice := weekly{zone: berlin, days: 1 << time.Sunday, from: 2*60 + 15, to: 2*60 + 45}
	for _, c := range []struct {
		window weekly
		at     string // UTC
		want   bool
	}{
		{office, "2026-06-15T07:00:00Z", true}, // Monday, 9:00 in summer
		{office, "2026-06-15T06:59:59Z", false},
		{office, "2026-06-15T14:59:59Z", true},
		{office, "2026-06-15T15:00:00Z", false},
		{office, "2026-01-12T07:30:00Z", false}, // Monday, 8:30 in winter
		{office, "2026-01-12T08:00:00Z", true},
		{office, "2026-06-16T08:00:00Z", false}, // Tuesday
		{night, "2026-06-20T20:00:00Z", true},   // Saturday, 22:00
		{night, "2026-06-20T19:59:00Z", false},
		{night, "2026-06-21T03:59:00Z", true}, // Sunday, 5:59
		{night, "2026-06-21T04:00:00Z", false},
		{night, "2026-06-21T20:30:00Z", false}, // Sunday, 22:30
		{whole, "2026-06-20T22:00:00Z", true},  // Sunday, 0:00
		{whole, "2026-06-21T21:59:59Z", true},
		{whole, "2026-06-21T22:00:00Z", false},
		{twice, "2026-10-25T00:30:00Z", true},  // 2:30 in summer time
		{twice, "2026-10-25T01:30:00Z", true},  // 2:30 again in winter time
		{twice, "2026-03-29T00:30:00Z", false}, // 1:30; 2:30 is skipped
		{twice, "2026-03-29T01:30:00Z", false}, // 3:30
	} {
		at := must.Value(time.Parse(time.RFC3339, c.at))(t)
		if got := c.window.holds(at); got != c.want {
			t.Errorf("%+v at %s: %t", c.window, c.at, got)
		}
	}
}
