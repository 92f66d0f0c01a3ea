package statspage

import (
	"math"
	"strconv"
)

// ticks are the gridlines for counts up to the most: three to five whole numbers from zero on, a
// round step apart, the last of them no less than the most.
func ticks(most int64) []uint64 {
	step := step(uint64(max(1, most)))
	count := max(2, (uint64(max(1, most))-1)/step+1)
	all := make([]uint64, 0, count+1)
	for i := range count + 1 {
		all = append(all, i*step)
	}
	return all
}

// step returns the smallest of 1, 2, 5, 10, 20, 50 and so on that reaches the maximum in four
// steps.
func step(most uint64) uint64 {
	for power := uint64(1); ; power *= 10 {
		for _, digit := range []uint64{1, 2, 5} {
			if (most-1)/(digit*power) < 4 {
				return digit * power
			}
		}
	}
}

// tickLabel writes a tick in at most six letters, on an axis that ends at top.
func tickLabel(tick, top uint64) string {
	if top < 10_000 {
		return group(int64(tick))
	}
	units := []string{"", "k", "M", "B", "T", "Q"}
	value, unit := float64(tick), 0
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	return strconv.FormatFloat(value, 'f', -1, 64) + units[unit]
}

// The widths that labels are placed by are in the size of their own letters. No date is wider than
// labelWidth in any of the usual fonts.
const (
	labelWidth = 3.75
	labelGap   = .25
)

// tiers are how wide the plot is at least on screens of three sizes. A class shows a label on
// screens of its size and up; style.css knows them by the same names, and says from where on they
// apply.
var tiers = []struct {
	class string
	plot  float64
}{{"", 8}, {"mid", 17}, {"wide", 34}}

// label is a date below the plot. X is a percentage of the plot's width.
type label struct {
	X                         float64
	Anchor, Class, Text, Year string
}

// span is where a label begins and ends on a plot of that width.
func (l label) span(plot float64) (from, to float64) {
	x := l.X / 100 * plot
	switch l.Anchor {
	case "start":
		return x, x + labelWidth
	case "end":
		return x - labelWidth, x
	}
	return x - labelWidth/2, x + labelWidth/2
}

// dateLabels are the first day, the last day, and as many between them as each size of screen has
// room for.
func dateLabels(days []Day) []label {
	var all []label
	for t, tier := range tiers {
		for _, i := range candidates(t, len(days)) {
			l := newLabel(days, i)
			l.Class = tier.class
			if fits(l, all, tier.plot) {
				all = append(all, l)
			}
		}
	}
	return all
}

// candidates are the days that a screen of a size would like to name.
func candidates(tier, n int) []int {
	last := n - 1
	switch {
	case tier == 0:
		return []int{0, last}
	case tier == 1 && (n > 15 || n%2 == 1):
		return []int{last / 2}
	case tier == 2 && n <= 7:
		return []int{1 % n, 2 % n, 3 % n, 4 % n, 5 % n}
	case tier == 2:
		return []int{last / 4, last / 2, last - last/4}
	}
	return nil
}

func fits(l label, among []label, plot float64) bool {
	from, to := l.span(plot)
	for _, other := range among {
		if otherFrom, otherTo := other.span(plot); from < otherTo+labelGap && otherFrom < to+labelGap {
			return false
		}
	}
	return true
}

// newLabel puts a date below its day. The first and the last of many days would stick out of the
// plot, were they in the middle of theirs. They say the year where it is not the same for both.
func newLabel(days []Day, i int) label {
	n := len(days)
	slot := slotOf(i, n)
	l := label{X: round(slot.middle()), Anchor: "middle", Text: days[i].Start.Format("2 Jan")}
	switch {
	case n > 7 && i == 0:
		l.X, l.Anchor = round(slot.from), "start"
	case n > 7 && i == n-1:
		l.X, l.Anchor = round(slot.to), "end"
	}
	if (i == 0 || i == n-1) && days[0].Start.Year() != days[n-1].Start.Year() {
		l.Year = days[i].Start.Format("2006")
	}
	return l
}

// round keeps a coordinate short.
func round(x float64) float64 { return math.Round(x*100) / 100 }
