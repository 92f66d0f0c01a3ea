package statspage

import (
	"html"
	"html/template"
	"strconv"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

const (
	shortDate = "Mon 2 Jan 2006"
	longDate  = "2 January 2006"
)

// view is a page in the words of its template.
type view struct {
	Language, Title        string
	Heading, ShortURL      string
	Destination            string
	Href                   template.HTMLAttr
	Period, Zone           string
	Clicks, Visitors, Bots string
	Chart                  *chart
	Table                  table
	Lists                  []list
	IsDBIP                 bool
}

// table holds the numbers of the chart.
type table struct {
	Rows             template.HTML
	Clicks, Visitors string
}

// list is the clicks by one property.
type list struct {
	Title string
	Rows  []row
}

// row is one line of a list. Width is a percentage.
type row struct {
	Name, Clicks, Share string
	Width               float64
}

func newView(p Page) view {
	v := view{
		Heading: tame(p.Title), ShortURL: tame(p.ShortURL), Zone: tame(p.Zone),
		Destination: tame(p.Destination), Href: hrefOf(p.Destination),
		Period: period(p.Days), Chart: newChart(p.Days), Table: newTable(p.Days),
		IsDBIP: p.IsDBIP, Clicks: group(p.Clicks), Visitors: group(p.Visitors), Bots: group(p.Bots),
		Lists: []list{
			{"Referrers", rows(p.Referrers, referrer)},
			{"Countries", rows(p.Countries, country)},
		},
	}
	if v.Heading == "" {
		v.Heading, v.ShortURL = v.ShortURL, ""
	}
	v.Language, v.Title = "en", "Stats of "+v.Heading
	return v
}

// tame removes characters that change the reading order, and control characters.
func tame(s string) string {
	return strings.Map(func(r rune) rune {
		if '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069' {
			return -1
		}
		return r
	}, strings.TrimSpace(strings.ToValidUTF8(s, "\ufffd")))
}

// hrefOf returns the attribute that links to an http or https URL, byte for byte, and nothing for
// any other text. The template would percent-encode some characters of a plain string.
func hrefOf(destination string) template.HTMLAttr {
	if _, err := urlnorm.Canonical(destination); err != nil {
		return ""
	}
	return template.HTMLAttr(`href="` + html.EscapeString(destination) + `"`)
}

// period says which days these are.
func period(days []Day) string {
	if len(days) == 0 {
		return ""
	}
	first, last := days[0].Start.Format(longDate), days[len(days)-1].Start.Format(longDate)
	if first == last {
		return first
	}
	return first + " – " + last
}

// newTable writes the rows by hand: they are only dates and numbers, and there may be hundreds.
func newTable(days []Day) table {
	b := make([]byte, 0, 96*len(days))
	var clicks, visitors int64
	for _, d := range days {
		b = append(b, `<tr><th scope="row">`...)
		b = d.Start.AppendFormat(b, shortDate)
		b = append(b, "</th><td>"...)
		b = appendGrouped(b, d.Clicks)
		b = append(b, "</td><td>"...)
		b = appendGrouped(b, d.Visitors)
		b = append(b, "</td></tr>\n"...)
		clicks, visitors = clicks+d.Clicks, visitors+d.Visitors
	}
	return table{Rows: template.HTML(b), Clicks: group(clicks), Visitors: group(visitors)}
}

// rows are the lines of a list; each has its share of the whole list.
func rows(slices []Slice, name func(string) string) []row {
	var sum float64
	for _, s := range slices {
		sum += float64(max(0, s.Clicks))
	}
	all := make([]row, len(slices))
	for i, s := range slices {
		part := float64(max(0, s.Clicks)) / max(1, sum)
		all[i] = row{Name: tame(name(s.Value)), Clicks: group(s.Clicks), Share: share(part), Width: round(100 * part)}
		if s.Other {
			all[i].Name = "All others"
		}
	}
	return all
}

func referrer(value string) string {
	if value == "" {
		return "Direct / unknown"
	}
	return value
}

// share is a part of one in percent. It says nothing or everything only of nothing and everything.
func share(part float64) string {
	switch {
	case part > 0 && part < .01:
		return "<1%"
	case part > .99 && part < 1:
		return ">99%"
	}
	return strconv.FormatFloat(100*part, 'f', 0, 64) + "%"
}

// group writes a number with a comma between thousands.
func group(n int64) string { return string(appendGrouped(nil, n)) }

func appendGrouped(b []byte, n int64) []byte {
	if n < 0 {
		n = 0 // nothing that is counted here can be fewer than none
	}
	start := len(b)
	b = strconv.AppendInt(b, n, 10)
	digits := len(b) - start
	commas := (digits - 1) / 3
	for range commas {
		b = append(b, 0)
	}
	for from, to := start+digits-1, len(b)-1; from < to; to-- {
		if (len(b)-to)%4 == 0 {
			b[to] = ','
			continue
		}
		b[to] = b[from]
		from--
	}
	return b
}
