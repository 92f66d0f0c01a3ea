package click

// Dimension is a way to divide clicks by.
type Dimension string

// The dimensions. Referrer is a host, Country an ISO 3166-1 code, Language an ISO 639 code, Status that of the redirect,
// Link the id of a link.
const (
	Referrer Dimension = "REFERRER"
	Country  Dimension = "COUNTRY"
	Device   Dimension = "DEVICE"
	Browser  Dimension = "BROWSER"
	OS       Dimension = "OS"
	Language Dimension = "LANGUAGE"
	Source   Dimension = "UTM_SOURCE"
	Medium   Dimension = "UTM_MEDIUM"
	Campaign Dimension = "UTM_CAMPAIGN"
	Term     Dimension = "UTM_TERM"
	Content  Dimension = "UTM_CONTENT"
	Status   Dimension = "STATUS"
	ByLink   Dimension = "LINK"

	latency   Dimension = "latency" // the values are steps: see latencyStep
	ofQuarter Dimension = "quarter" // of a day: the values are quarters of an hour: see quarterOf
)

// dimensions are all that sums are kept by, and their columns in clicks. The numbers are written to the database: they keep
// their meaning for ever.
var dimensions = []struct {
	number byte
	name   Dimension
	column string
}{
	{1, Referrer, "referrer"}, {2, Country, "country"}, {3, Device, "device"}, {4, Browser, "browser"}, {5, OS, "os"}, {6, Language, "language"},
	{7, Source, "utm_source"}, {8, Medium, "utm_medium"}, {9, Campaign, "utm_campaign"}, {10, Term, "utm_term"}, {11, Content, "utm_content"},
	{statusDimension, Status, "status"}, {linkDimension, ByLink, "link_id"}, {latencyDimension, latency, ""},
	{quarterDimension, ofQuarter, ""},
}

// The numbers of what is no text of a visit.
const (
	statusDimension  = 12
	linkDimension    = 13
	latencyDimension = 14
	quarterDimension = 15

	lastDimension = quarterDimension
)

func numberOf(d Dimension) byte {
	for _, known := range dimensions {
		if known.name == d {
			return known.number
		}
	}
	return 0
}
