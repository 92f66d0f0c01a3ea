package clicksql

func init() { minDetailedClicks = BusyDay }

// What tests of the database need to know.
const (
	BusyDay  = 3
	Details  = details
	Quarters = quarters
	Days     = days
)

// Bucket is a row of sums.
type Bucket = bucket
