package clicksql

func init() { minDetailedClicks, busyToday = BusyDay, BusyDay }

// What tests of the database need to know.
const (
	BusyDay = 3
	Details = details
	Days    = days
)

// Day is a row of the days.
type Day = day
