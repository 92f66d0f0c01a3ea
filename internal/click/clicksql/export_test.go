package clicksql

func init() { minDetailedClicks, maxDetailedClicks, busyToday = BusyDay, LargeDay, BusyDay }

// What tests of the database need to know.
const (
	BusyDay  = 3
	LargeDay = 1000
	Details  = details
	Days     = days
)

// Day is a row of the days.
type Day = day
