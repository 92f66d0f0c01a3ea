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

// Dimensions are all that sums are kept by, and their columns in clicks. The numbers are written to the database: they keep
// their meaning for ever.
var Dimensions = []struct {
	Number byte
	Name   Dimension
	Column string
}{
	{1, Referrer, "referrer"}, {2, Country, "country"}, {3, Device, "device"}, {4, Browser, "browser"}, {5, OS, "os"}, {6, Language, "language"},
	{7, Source, "utm_source"}, {8, Medium, "utm_medium"}, {9, Campaign, "utm_campaign"}, {10, Term, "utm_term"}, {11, Content, "utm_content"},
	{StatusDimension, Status, "status"}, {LinkDimension, ByLink, "link_id"}, {LatencyDimension, latency, ""},
	{QuarterDimension, ofQuarter, ""},
}

// The numbers of what is no text of a visit.
const (
	StatusDimension  = 12
	LinkDimension    = 13
	LatencyDimension = 14
	QuarterDimension = 15

	LastDimension = QuarterDimension
)

func NumberOf(d Dimension) byte {
	for _, known := range Dimensions {
		if known.Name == d {
			return known.Number
		}
	}
	return 0
}
