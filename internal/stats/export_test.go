package stats

func init() { minDetailedClicks = BusyDay }

// What tests of the database need to know.
const (
	BusyDay = 3
	Details = details
)
