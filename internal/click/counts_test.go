package click_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// drawCounts draws counts as they may become: of few values, each of them something.
func drawCounts(t *rapid.T) map[byte]click.Values {
	number := rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, math.MaxInt64))
	return rapid.MapOfN(rapid.ByteRange(1, byte(len(click.Dimensions))), rapid.Custom(func(t *rapid.T) click.Values {
		return rapid.MapOfN(rapid.String(), rapid.Custom(func(t *rapid.T) click.Count {
			return click.Count{number.Draw(t, "clicks"), number.Draw(t, "visits"), number.Draw(t, "bots")}
		}), 1, 8).Draw(t, "values")
	}), 0, 5).Draw(t, "counts")
}

// countsOf opens counts.
func countsOf(all map[byte]click.Values) click.Counts {
	c := click.Counts{}
	for dimension, values := range all {
		for value, n := range values {
			c.Add(dimension, value, n)
		}
	}
	return c
}

// closed are counts by dimension.
func closed(c click.Counts) map[byte]click.Values {
	all := map[byte]click.Values{}
	for key, n := range c {
		if all[key.Dimension] == nil {
			all[key.Dimension] = click.Values{}
		}
		all[key.Dimension][key.Value] = n
	}
	return all
}

func TestCounts_RoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want, got := drawCounts(t), click.Counts{}
		must.NoError(t, got.AddEncoded(countsOf(want).Encode()))
		if diff := cmp.Diff(want, closed(got)); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
		for dimension, all := range want {
			one := click.Values{}
			err := click.EachCount(countsOf(want).Encode(), dimension, func(d byte, value []byte, n click.Count) {
				if d != dimension {
					t.Errorf("dimension %d, want %d alone", d, dimension)
				}
				one[string(value)] = n
			})
			if diff := cmp.Diff(all, one); diff != "" || err != nil {
				t.Errorf("dimension %d (-want +got):\n%s%v", dimension, diff, err)
			}
		}
	})
}

// TestCounts_ReadQuartersFromTheFront, however many clicks and other dimensions follow.
func TestCounts_ReadQuartersFromTheFront(t *testing.T) {
	t.Parallel()
	c, want := click.Counts{}, click.Values{}
	for quarter := range byte(click.Day / click.BucketLength) {
		n := click.Count{math.MaxInt64, math.MaxInt64, math.MaxInt64 - int64(quarter)}
		want[string([]byte{quarter})] = n
		c.AddQuarter(clicktest.Noon.Truncate(click.Day).Add(time.Duration(quarter)*click.BucketLength), n)
	}
	for i := range click.MaxValues {
		c.Add(1, fmt.Sprintf("%d.example", i), click.Count{Clicks: 1})
	}
	got := click.Values{}
	err := click.EachCount(c.Encode()[:click.QuartersBytes], click.QuarterDimension,
		func(_ byte, value []byte, n click.Count) { got[string(value)] = n })
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("quarters (-want +got):\n%s%v", diff, err)
	}
}

// TestCounts_RefuseDamage: they are neither a panic nor an endless loop.
func TestCounts_RefuseDamage(t *testing.T) {
	t.Parallel()
	first := click.Values{"example.com": {7, 1, 0}, "t.example": {300, 2, 1}}
	whole := countsOf(map[byte]click.Values{1: first, 12: {"301": {1 << 40, 0, 0}}}).Encode()
	for n := 1; n < len(whole); n++ {
		if err := (click.Counts{}).AddEncoded(whole[:n]); err == nil &&
			n != len(countsOf(map[byte]click.Values{1: first}).Encode()) {
			t.Errorf("the first %d of %d bytes are read", n, len(whole))
		}
	}
	for _, damaged := range [][]byte{
		{1}, {1, 0x80}, {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, {1, 1, 5, 'a'}, {1, 1, 0, 1,
			1},
		append([]byte{1, 1}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 'a'),
	} {
		if err := (click.Counts{}).AddEncoded(damaged); err == nil {
			t.Errorf("%x is read", damaged)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := countsOf(drawCounts(t)).Encode()
		for range rapid.IntRange(1, 4).Draw(t, "times") {
			if len(b) > 0 {
				b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			}
		}
		_ = (click.Counts{}).AddEncoded(b)
	})
}

func FuzzCounts(f *testing.F) {
	f.Add(countsOf(map[byte]click.Values{1: {"example.com": {7, 1, 0}}, 14: {"\x07": {1, 0, 0}}}).Encode())
	f.Add([]byte{1, 1, 0, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		read := click.Counts{}
		if read.AddEncoded(b) != nil {
			return
		}
		again := click.Counts{}
		if err := again.AddEncoded(read.Encode()); err != nil {
			t.Errorf("%x is read, and what is written of it is not: %v", b, err)
		}
	})
}

// TestCounts_AreBounded: of more values than there is room for, the rest are counted together,
// and nothing is lost however often the row is read and written.
func TestCounts_AreBounded(t *testing.T) {
	t.Parallel()
	row, want := click.Counts{}, click.Count{}
	again := func() {
		read := click.Counts{}
		must.NoError(t, read.AddEncoded(row.Encode()))
		row = read
	}
	for i := range 3 * click.MaxValues {
		n := click.Count{int64(i%7 + 1), int64(i % 2), int64(i % 3)}
		want.Add(n)
		row.Add(1, fmt.Sprintf("%04d.example", i*7919%(3*click.MaxValues)), n)
		if i%500 == 0 {
			again()
		}
	}
	again()
	if got := row.Of(1); got.All() != want || len(got) != click.MaxValues+1 || got[click.Others].Clicks == 0 {
		t.Errorf("%d values, %+v in all of which %+v are others, want %+v", len(got), got.All(), got[click.Others],
			want)
	}
}

// TestPercentiles_AreWithinFivePercent, of latencies from a microsecond to minutes, however they
// are distributed.
func TestPercentiles_AreWithinFivePercent(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 5))
	for name, draw := range map[string]func() float64{
		"one value":   func() float64 { return 0.137 },
		"exponential": func() float64 { return 0.001 + random.ExpFloat64() },
		"heavy tail":  func() float64 { return math.Exp(random.NormFloat64()*3) + 0.001 },
		"two humps":   func() float64 { return []float64{0.05, 250}[random.IntN(2)] * (1 + random.Float64()) },
		"on the edge": func() float64 { return math.Pow(click.LatencyGrowth, float64(random.IntN(100))) / 1000 },
	} {
		for _, n := range []int{1, 2, 3, 10, 1001} {
			steps, all := click.Values{}, []float64{}
			for range n {
				ms := draw()
				all = append(all, ms)
				steps.Add(string([]byte{click.LatencyStep(ms)}), click.Count{Clicks: 1})
			}
			slices.Sort(all)
			wanted := []float64{0.5, 0.95, 0.99}
			for i, got := range steps.Percentiles(wanted...) {
				want := all[int(math.Ceil(wanted[i]*float64(n)))-1]
				if math.Abs(got-want) > 0.05*want {
					t.Errorf("%s, %d values: percentile %g is %g, want %g", name, n, wanted[i], got, want)
				}
			}
		}
	}
	for _, odd := range []float64{math.NaN(), -1, 0, math.Inf(-1)} {
		if step := click.LatencyStep(odd); step != 0 {
			t.Errorf("%g is step %d", odd, step)
		}
	}
	if step := click.LatencyStep(math.Inf(1)); step != 255 {
		t.Errorf("for ever is step %d", step)
	}
}
