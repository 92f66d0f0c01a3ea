package statspage

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
)

const (
	mostBars   = 62   // more days than this are drawn as an area
	widestBar  = 12.0 // percent of the plot
	lowestBar  = .75  // percent of the plot: one click stays visible next to a billion
	areaHeight = 1000 // units of the area's own coordinates
)

// chart is a drawing of clicks by day. Its lengths are percentages of the plot, whose size is the
// style's affair: so it is as wide as the screen, and its letters are as large as any other.
type chart struct {
	Title, Summary string
	Lines          []gridline
	Labels         []label
	Bars           bool
	Empty          bool
	Marks          template.HTML // Marks are the bars with their tooltips.
	Area, Outline  string        // Area and Outline are paths.
	AreaWidth      int
	AreaHeight     int
}

type gridline struct {
	Y    float64
	Text string
}

// newChart draws the days; there is nothing to draw of none.
func newChart(days []Day) *chart {
	if len(days) == 0 {
		return nil
	}
	most := days[0]
	for _, d := range days[1:] {
		if d.Clicks > most.Clicks {
			most = d
		}
	}
	grid := ticks(most.Clicks)
	top := grid[len(grid)-1]
	c := &chart{
		Title: "Clicks per day", Summary: summary(days, most),
		Labels: dateLabels(days), Bars: len(days) <= mostBars, Empty: most.Clicks <= 0,
		Marks: marks(days, top), AreaWidth: len(days) - 1, AreaHeight: areaHeight,
	}
	for _, tick := range grid {
		c.Lines = append(c.Lines, gridline{Y: round(100 - percent(tick, top)), Text: tickLabel(tick, top)})
	}
	if !c.Bars {
		c.Outline = outline(days, top)
		c.Area = fmt.Sprintf("%sV%dH0Z", c.Outline, areaHeight)
	}
	return c
}

// summary describes the chart for screen readers.
func summary(days []Day, most Day) string {
	kind := "Bar chart"
	if len(days) > mostBars {
		kind = "Area chart"
	}
	s := fmt.Sprintf("%s, %s. ", kind, period(days))
	if most.Clicks <= 0 {
		return s + "There are no clicks."
	}
	return s + fmt.Sprintf("The most on one day: %s, on %s.", count(most.Clicks, "click"), most.Start.Format(longDate))
}

func count(n int64, noun string) string { return string(appendCount(nil, n, noun)) }

func appendCount(b []byte, n int64, noun string) []byte {
	b = append(append(appendGrouped(b, n), ' '), noun...)
	if n != 1 {
		b = append(b, 's')
	}
	return b
}

// slot is the part of the plot's width that belongs to a day.
type slot struct{ from, to float64 }

func (s slot) middle() float64 { return (s.from + s.to) / 2 }

// slotOf gives each day of a bar chart the same room. In an area a day is a point: the first and
// the last lie on the edges, and have half the room.
func slotOf(i, n int) slot {
	if n <= mostBars {
		return slot{100 * float64(i) / float64(n), 100 * float64(i+1) / float64(n)}
	}
	wide := 100 / float64(n-1)
	return slot{max(0, (float64(i)-.5)*wide), min(100, (float64(i)+.5)*wide)}
}

// marks writes what there is for each day by hand, as newTable does.
func marks(days []Day, top uint64) template.HTML {
	b := make([]byte, 0, 256*len(days))
	for i, d := range days {
		slot := slotOf(i, len(days))
		b = append(b, "<g><title>"...)
		b = d.Start.AppendFormat(b, shortDate)
		b = append(b, ": "...)
		b = appendCount(b, d.Clicks, "click")
		b = append(b, ", "...)
		b = appendCount(b, d.Visitors, "visitor")
		b = append(b, `</title><rect class="hit" height="100%"`...)
		b = appendLength(b, "x", slot.from)
		b = appendLength(b, "width", slot.to-slot.from)
		b = append(b, "/>"...)
		if len(days) <= mostBars && d.Clicks > 0 {
			b = appendBar(b, slot, max(lowestBar, percent(uint64(d.Clicks), top)))
		}
		b = append(b, "</g>\n"...)
	}
	return template.HTML(b)
}

// appendBar writes a bar that stands on the axis in the middle of its slot.
func appendBar(b []byte, s slot, height float64) []byte {
	width := min(widestBar, .72*(s.to-s.from))
	b = append(b, `<rect class="bar"`...)
	b = appendLength(b, "x", s.middle()-width/2)
	b = appendLength(b, "y", 100-height)
	b = appendLength(b, "width", width)
	b = appendLength(b, "height", height)
	return append(b, "/>"...)
}

// appendLength writes an attribute that is a percentage.
func appendLength(b []byte, name string, length float64) []byte {
	b = append(append(append(b, ' '), name...), `="`...)
	b = strconv.AppendFloat(b, round(length), 'f', -1, 64)
	return append(b, `%"`...)
}

// outline is the path along the days' clicks, one unit a day.
func outline(days []Day, top uint64) string {
	b := make([]byte, 0, 12*len(days))
	for i, d := range days {
		height := areaHeight * percent(uint64(max(0, d.Clicks)), top) / 100
		b = append(b, "ML"[min(i, 1)])
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, areaHeight-int64(math.Round(height)), 10)
	}
	return string(b)
}

func percent(part, whole uint64) float64 { return 100 * float64(part) / float64(whole) }
