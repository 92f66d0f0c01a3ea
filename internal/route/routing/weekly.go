package routing

import (
	"slices"
	"strings"
	"time"
)

// weekly are times of the week on the clock of a time zone. If to is not after from, the window
// ends on the next day, and belongs to the day on which it begins.
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

// Weekdays are in the order of time.Weekday.
var Weekdays = [...]Weekday{"SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"}

// MinutesOfDay is the largest result of ParseClock.
const MinutesOfDay = 24 * 60

// ParseClock returns the minute of the day of a time as HH:MM, from 00:00 to 24:00, or -1.
func ParseClock(s string) int {
	if len(s) != 5 || s[2] != ':' {
		return -1
	}
	digits := s[:2] + s[3:]
	if strings.Trim(digits, "0123456789") != "" {
		return -1
	}
	hour, minute := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	if minute > 59 || hour*60+minute > MinutesOfDay {
		return -1
	}
	return hour*60 + minute
}

func appendWeekly(b []byte, w *WeeklySchedule) []byte {
	var days byte
	for _, day := range w.Days {
		days |= 1 << max(slices.Index(Weekdays[:], day), 0)
	}
	b = append(AppendText(b, w.Timezone), days)
	b = AppendNumber(b, uint64(ParseClock(w.From)), 2)
	return AppendNumber(b, uint64(ParseClock(w.To)), 2)
}
