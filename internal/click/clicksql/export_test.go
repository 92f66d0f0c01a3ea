package clicksql

func init() { busyToday = BusyDay }

// What tests of the database need to know.
const (
	BusyDay = 3
	Days    = days
)

// Day is a row of the days.
type Day = day
