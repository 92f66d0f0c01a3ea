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
		if !strings.Contains(style, "."+tier.class+" { display: inline; }") {
			t.Errorf("the style does not know labels of class %s", tier.class)
		}
	}
}

var drawn = regexp.MustCompile(`<rect class="bar" x="([\d.]+)%" y="([\d.]+)%" width="([\d.]+)%" height="([\d.]+)%"/>`)

// TestBars_FitTheChart: days without clicks have no bar, and few clicks beside many have a low one.
func TestBars_FitTheChart(t *testing.T) {
	t.Parallel()
	for n, clicks := range [][]int64{{0, 1, 2, 4}, {7}, {0, 0}, {1, 1000, math.MaxInt64}} {
		p := example(len(clicks))
		end, bars := 0.0, []int64{}
		for i, some := range clicks {
			if p.Days[i].Clicks = some; some > 0 {
				bars = append(bars, some)
			}
		}
		c, top := newChart(p.Days), ticks(slices.Max(clicks))
		found := drawn.FindAllStringSubmatch(string(c.Marks), -1)
		if len(found) != len(bars) || c.Empty != (len(bars) == 0) || !c.Bars || c.Outline != "" {
			t.Fatalf("chart %d: %d bars for %d days with clicks", n, len(found), len(bars))
		}
		for i, bar := range found {
			x, y, width, height := coordinate(bar[1]), coordinate(bar[2]), coordinate(bar[3]), coordinate(bar[4])
			want := max(lowestBar, 100*float64(bars[i])/float64(top[len(top)-1]))
			if math.Abs(height-want) > .01 || math.Abs(y+height-100) > .02 || x < end || width <= 0 || x+width > 100 {
				t.Errorf("chart %d: %d clicks are drawn as %v, want a height of %v", n, bars[i], bar, want)
			}
			end = x + width
		}
	}
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
