package click

import (
	"strconv"
	"strings"
)

// Dimension is a property that clicks are filtered and broken down by. Its text is the name in the
// GraphQL schema.
type Dimension string

// Referrer is a host, Country an ISO 3166-1 code, Language an ISO 639 code, Status the HTTP status
// of the redirect, ByLink the id of the link, Rule and Target those of the rule that chose the
// destination and of its target, and QRSource the name of the scanned QR code.
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
	Rule     Dimension = "RULE"
	Target   Dimension = "TARGET"
	QRSource Dimension = "QR_SOURCE"
)

// Definition is a row of the table of dimensions.
type Definition struct {
	// Number is written to the database: it keeps its meaning for ever.
	Number byte
	// Name is empty for the dimensions that only rollups count by.
	Name Dimension
	// Column is its column in clicks.
	Column string

	text func(*Click) *string // nil for dimensions without text
}

// Text returns the field of a click; only the dimensions of VisitDimensions have one.
func (d *Definition) Text(c *Click) *string { return d.text(c) }

// FieldName returns the name of the field of clicks, in GraphQL and in exports: utmSource, ruleId.
func (d *Definition) FieldName() string { return camelCase(d.Column) }

// FilterName returns the name of the field of filters in GraphQL: utmSource, rule.
func (d *Definition) FilterName() string { return camelCase(strings.ToLower(string(d.Name))) }

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// The numbers of the dimensions that are not texts. The values of LatencyDimension are
// steps (see LatencyStep), those of QuarterDimension quarters of an hour on a day.
const (
	StatusDimension  = 12
	LinkDimension    = 13
	LatencyDimension = 14
	QuarterDimension = 15
)

// Dimensions is the table that columns, filters, breakdowns, exports and the click log are derived
// from. Add new dimensions at its end.
var Dimensions = []Definition{
	{1, Referrer, "referrer", func(c *Click) *string { return &c.Referrer }},
	{2, Country, "country", func(c *Click) *string { return &c.Country }},
	{3, Device, "device", func(c *Click) *string { return &c.Device }},
	{4, Browser, "browser", func(c *Click) *string { return &c.Browser }},
	{5, OS, "os", func(c *Click) *string { return &c.OS }},
	{6, Language, "language", func(c *Click) *string { return &c.Language }},
	{7, Source, "utm_source", func(c *Click) *string { return &c.Source }},
	{8, Medium, "utm_medium", func(c *Click) *string { return &c.Medium }},
	{9, Campaign, "utm_campaign", func(c *Click) *string { return &c.Campaign }},
	{10, Term, "utm_term", func(c *Click) *string { return &c.Term }},
	{11, Content, "utm_content", func(c *Click) *string { return &c.Content }},
	{StatusDimension, Status, "status", nil},
	{LinkDimension, ByLink, "link_id", nil},
	{Number: LatencyDimension},
	{Number: QuarterDimension},
	{16, Rule, "rule_id", func(c *Click) *string { return &c.RuleID }},
	{17, Target, "target_id", func(c *Click) *string { return &c.TargetID }},
	{18, QRSource, "qr_source", func(c *Click) *string { return &c.QRSource }},
}

// VisitDimensions are the dimensions that are texts, in the order of the click log.
var VisitDimensions = selected(func(d *Definition) bool { return d.text != nil })

// StoredDimensions are the dimensions that each click is stored with.
var StoredDimensions = selected(func(d *Definition) bool { return d.Column != "" })

func selected(isSelected func(*Definition) bool) (found []*Definition) {
	for i := range Dimensions {
		if d := &Dimensions[i]; isSelected(d) {
			found = append(found, d)
		}
	}
	return found
}

// Definition returns the row of a dimension. It panics for one that is not in the table: GraphQL
// accepts no other.
func (d Dimension) Definition() *Definition {
	for _, known := range StoredDimensions {
		if known.Name == d {
			return known
		}
	}
	panic("click: unknown dimension " + strconv.Quote(string(d)))
}
