package statspage

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTicks_OfAnAxis(t *testing.T) {
	t.Parallel()
	for most, want := range map[int64]string{
		-1: "0 1 2", 0: "0 1 2", 1: "0 1 2", 2: "0 1 2", 3: "0 1 2 3", 4: "0 1 2 3 4", 5: "0 2 4 6", 9: "0 5 10",
		100: "0 50 100",
		687: "0 200 400 600 800", 9_000: "0 5k 10k", 1_500_000: "0 500k 1M 1.5M", 1_000_000_000: "0 500M 1B",
		math.MaxInt64: "0 5000Q 10000Q",
	} {
		all := ticks(most)
		var got []string
		for _, tick := range all {
			got = append(got, tickLabel(tick, all[len(all)-1]))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d has %v, want %s", most, got, want)
		}
	}
}

var roundStep = regexp.MustCompile(`^[125]0*$`)

func TestTicks_AreRoundAndCoverTheMaximum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(1, 63).Draw(t, "bits")
		most := rapid.Int64Range(0, math.MaxInt64>>(63-bits)).Draw(t, "most")
		all := ticks(most)
		if len(all) < 3 || len(all) > 5 || all[0] != 0 || all[len(all)-1] < uint64(most) {
			t.Fatalf("%d: %v", most, all)
		}
		if len(all) > 3 && all[len(all)-2] >= uint64(most) {
			t.Fatalf("%d does not need all of %v", most, all)
		}
		step := all[1]
		if !roundStep.MatchString(strconv.FormatUint(step, 10)) {
			t.Fatalf("%d: the step %d is not round", most, step)
		}
		seen := map[string]bool{}
		for i, tick := range all {
			label := tickLabel(tick, all[len(all)-1])
			if tick != uint64(i)*step || seen[label] || len(label) > 6 {
				t.Fatalf("%d: %v, %q", most, all, label)
			}
			seen[label] = true
		}
	})
}

// TestDates_DoNotOverlap estimates the width of labels: no character is wider than .62 of the font
// size.
func TestDates_DoNotOverlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := example(rapid.IntRange(1, 400).Draw(t, "days"))
		offset := rapid.IntRange(0, 400).Draw(t, "offset")
		for i := range p.Days {
			p.Days[i].Start = p.Days[i].Start.AddDate(0, 0, offset)
		}
		tier := rapid.IntRange(0, len(tiers)-1).Draw(t, "tier")
		plot := tiers[tier].plot * rapid.Float64Range(1, 3).Draw(t, "zoom")
		var shown []label
		for _, l := range dateLabels(p.Days) {
			if slices.IndexFunc(tiers, func(t struct {
				class string
				plot  float64
			}) bool {
				return t.class == l.Class
			}) <= tier {
				shown = append(shown, l)
			}
		}
		slices.SortFunc(shown, func(a, b label) int { return int(math.Copysign(1, a.X-b.X)) })
		end := math.Inf(-1)
		for _, l := range shown {
			wide := .62 * float64(max(len(l.Text), len(l.Year)))
			from := l.X/100*plot - map[string]float64{"start": 0, "middle": .5, "end": 1}[l.Anchor]*wide
			if from < end+labelGap/2 {
				t.Fatalf("%d days: %q runs into its neighbour: %v", len(p.Days), l.Text, shown)
			}
			if end = from + wide; from < -1.5 || end > plot+1.5 {
				t.Fatalf("%d days: %q sticks out of the page: %v", len(p.Days), l.Text, shown)
			}
		}
		if want := min(len(p.Days), 2); len(shown) < want || len(shown) > 7 ||
			shown[0].Text != p.Days[0].Start.Format("2 Jan") {
			t.Fatalf("%d days: %v", len(p.Days), shown)
		}
	})
}

func TestDates_OfAnAxis(t *testing.T) {
	t.Parallel()
	say := func(days []Day) string {
		var all []string
		for _, l := range dateLabels(days) {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s", l.Text, l.Year))+"/"+l.Class)
		}
		return strings.Join(all, ", ")
	}
	got := map[int]string{}
	for _, n := range []int{1, 2, 4, 30, 400} {
		got[n] = say(example(n).Days)
	}
	want := map[int]string{
		1:   "18 Oct/",
		2:   "18 Oct/, 19 Oct/",
		4:   "18 Oct/, 21 Oct/, 19 Oct/wide, 20 Oct/wide",
		30:  "18 Oct/, 16 Nov/, 1 Nov/mid, 25 Oct/wide, 9 Nov/wide",
		400: "18 Oct 2025/, 21 Nov 2026/, 5 May/mid, 25 Jan/wide, 14 Aug/wide",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dates (-want +got):\n%s", diff)
	}
	for _, tier := range tiers[1:] {
		if css := style(pageText); !strings.Contains(css, "."+tier.class+" { display: inline; }") {
			t.Errorf("the style does not know labels of class %s", tier.class)
		}
	}
}

var drawn = regexp.MustCompile(`<rect class="bar" x="([\d.]+)%" y="([\d.]+)%" width="([\d.]+)%" height="([\d.]+)%"/>`)

func TestBars_FitTheChart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := example(rapid.IntRange(1, mostBars).Draw(t, "days"))
		most := rapid.SampledFrom([]int64{0, 1, 10, 1000, 1_000_000_000, math.MaxInt64}).Draw(t, "most")
		var some []Day
		for i := range p.Days {
			if p.Days[i].Clicks = rapid.Int64Range(0, most).Draw(t, "clicks"); p.Days[i].Clicks > 0 {
				some = append(some, p.Days[i])
			}
		}
		c := newChart(p.Days)
		all := ticks(slices.MaxFunc(p.Days, func(a,
			b Day) int {
			return int(math.Copysign(1, float64(a.Clicks)-float64(b.Clicks)))
		}).Clicks)
		bars := drawn.FindAllStringSubmatch(string(c.Marks), -1)
		if len(bars) != len(some) || c.Empty != (len(some) == 0) || !c.Bars || c.Outline != "" {
			t.Fatalf("%d bars for %d days with clicks", len(bars), len(some))
		}
		end := 0.0
		for i, bar := range bars {
			x, y, width, height := coordinate(bar[1]), coordinate(bar[2]), coordinate(bar[3]), coordinate(bar[4])
			want := max(lowestBar, 100*float64(some[i].Clicks)/float64(all[len(all)-1]))
			if math.Abs(height-want) > .01 || math.Abs(y+height-100) > .02 || x < end || width <= 0 || x+width > 100 {
				t.Fatalf("%d clicks are drawn as %v, want a height of %v", some[i].Clicks, bar, want)
			}
			end = x + width
		}
	})
}

func coordinate(s string) float64 {
	x, _ := strconv.ParseFloat(s, 64) // the pattern lets only numbers through
	return x
}

func TestChart_DrawsManyDaysAsAnArea(t *testing.T) {
	t.Parallel()
	p := example(63)
	c := newChart(p.Days)
	if c.Bars || strings.Contains(string(c.Marks), `"bar"`) || c.AreaWidth != 62 ||
		strings.Count(string(c.Marks), "<title>") != 63 {
		t.Errorf("63 days are drawn as %+v", c)
	}
	if !strings.HasPrefix(c.Outline, "M0 1000L1 987L2 975L") || !strings.HasSuffix(c.Outline, "L62 225") ||
		c.Area != c.Outline+"V1000H0Z" {
		t.Errorf("the outline is %s, the area %s", c.Outline, c.Area)
	}
	p.Days[30].Clicks = math.MaxInt64
	if c = newChart(p.Days); strings.ContainsAny(c.Outline, "-NI") {
		t.Errorf("the outline of a huge peak is %s", c.Outline)
	}
}

func TestChart_WithoutClicks(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 30, 400} {
		p := example(n)
		for i := range p.Days {
			p.Days[i].Clicks = 0
		}
		if page := body(p); !strings.Contains(page, ">No clicks</text>") ||
			!strings.Contains(page, "There are no clicks.") {
			t.Errorf("%d days without a click do not say so", n)
		}
	}
}
