package click

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// CommonStatus is the status of clicks whose counts omit it.
const CommonStatus = 302

// Count is how many clicks there were, how many of them were the first of a visitor on a day (UTC),
// and how many a bot's.
type Count struct{ Clicks, Visits, Bots int64 }

func (c *Count) Add(o Count) {
	c.Clicks += o.Clicks
	c.Visits += o.Visits
	c.Bots += o.Bots
}

// Values are counts by the values of one dimension. Clicks whose value is not known are in none of
// them.
type Values map[string]Count

func (v Values) Add(value string, c Count) {
	sum := v[value]
	sum.Add(c)
	v[value] = sum
}

// Others is the value of clicks beyond the bound on values. No visitor can send it. The number of
// values of a dimension per row is bounded, so that made-up values cannot make rows grow.
const (
	Others    = "\x01"
	MaxValues = 1000
)

// Counts are counts by dimension and value.
type Counts map[countKey]Count

type countKey struct {
	Dimension byte
	Value     string
}

func (c Counts) Add(dimension byte, value string, n Count) {
	key := countKey{dimension, value}
	sum := c[key]
	sum.Add(n)
	c[key] = sum
}

// Of are the counts of one dimension.
func (c Counts) Of(dimension byte) Values {
	found := Values{}
	for key, n := range c {
		if key.Dimension == dimension {
			found[key.Value] = n
		}
	}
	return found
}

// countedValue is a value with its count.
type countedValue struct {
	countKey
	Count
}

// QuartersBytes bounds the quarters of a day, which come first in its counts. A query of quarters
// does not read the rest.
const QuartersBytes = 2 + int(Day/BucketLength)*(2+3*binary.MaxVarintLen64)

// Encode writes counts: for each dimension its number, how many values and, for each, its length
// and text and the counts. Of values that are too many, those with the most clicks find room.
func (c Counts) Encode() []byte {
	all := make([]countedValue, 0, len(c))
	size := 0
	for key, n := range c {
		all = append(all, countedValue{key, n})
		size += len(key.Value) + 7
	}
	slices.SortFunc(all, func(a, b countedValue) int {
		return cmp.Or(cmp.Compare(a.place(), b.place()), cmp.Compare(a.Value, b.Value))
	})
	b := make([]byte, 0, size)
	for len(all) > 0 {
		end := 1
		for end < len(all) && all[end].Dimension == all[0].Dimension {
			end++
		}
		of := bounded(all[:end])
		b = append(b, all[0].Dimension)
		b = binary.AppendUvarint(b, uint64(len(of)))
		for _, v := range of {
			b = AppendText(b, v.Value)
			b = binary.AppendUvarint(b, uint64(v.Clicks))
			b = binary.AppendUvarint(b, uint64(v.Visits))
			b = binary.AppendUvarint(b, uint64(v.Bots))
		}
		all = all[end:]
	}
	return b
}

// place is that of the dimension among those of a row.
func (k countKey) place() byte {
	if k.Dimension == QuarterDimension {
		return 0
	}
	return k.Dimension
}

// bounded are values that find room, and the others.
func bounded(of []countedValue) []countedValue {
	if len(of) <= MaxValues {
		return of
	}
	rest := countedValue{countKey: countKey{of[0].Dimension, Others}}
	of = slices.DeleteFunc(slices.Clone(of), func(v countedValue) bool {
		if v.Value == Others {
			rest.Add(v.Count)
		}
		return v.Value == Others
	})
	slices.SortStableFunc(of, func(a, b countedValue) int { return cmp.Compare(b.Clicks, a.Clicks) })
	for _, v := range of[min(len(of), MaxValues):] {
		rest.Add(v.Count)
	}
	of = of[:min(len(of), MaxValues)]
	if rest.Count != (Count{}) {
		of = append(of, rest)
	}
	return of
}

var errCounts = errors.New("counts that cannot be read")

// EachCount reads what encode has written, one dimension of it, or all when that is zero. What
// follows the one is not read.
func EachCount(b []byte, only byte, f func(dimension byte, value []byte, n Count)) error {
	for len(b) > 0 {
		dimension := b[0]
		n, size := binary.Uvarint(b[1:])
		if size <= 0 || dimension == 0 || int(dimension) > len(Dimensions) {
			return errCounts
		}
		b = b[1+size:]
		for range n {
			length, size := binary.Uvarint(b)
			if size <= 0 || length > uint64(len(b)-size) {
				return errCounts
			}
			value := b[size : size+int(length)]
			b = b[size+int(length):]
			var numbers [3]int64
			for i := range numbers {
				number, size := binary.Uvarint(b)
				if size <= 0 {
					return errCounts
				}
				numbers[i], b = int64(number), b[size:]
			}
			if only == 0 || only == dimension {
				f(dimension, value, Count{numbers[0], numbers[1], numbers[2]})
			}
		}
		if only == dimension {
			return nil
		}
	}
	return nil
}

// AddEncoded adds what encode has written.
func (c Counts) AddEncoded(b []byte) error {
	return EachCount(b, 0, func(dimension byte, value []byte, n Count) { c.Add(dimension, string(value), n) })
}

// AddClick counts one click by all that is known of it.
func (c Counts) AddClick(k *Click, one Count) {
	for _, d := range VisitDimensions {
		if value := *d.Text(k); value != "" {
			c.Add(d.Number, value, one)
		}
	}
	if k.Status != CommonStatus {
		c.Add(StatusDimension, strconv.Itoa(k.Status), one)
	}
	c.Add(LatencyDimension, string([]byte{LatencyStep(k.LatencyMs)}), one)
}

// AddQuarter counts clicks of the quarter of an hour that an instant lies in among the counts of
// its day (UTC).
func (c Counts) AddQuarter(at time.Time, n Count) {
	quarter := byte(at.Sub(at.UTC().Truncate(Day)) / BucketLength)
	c.Add(QuarterDimension, string([]byte{quarter}), n)
}

// LatencyGrowth is by how much each step of a latency is longer than the one before: a percentile
// is right to five per cent. Step 0 ends at a microsecond.
const LatencyGrowth = 1.1

var latencyScale = 1 / math.Log(LatencyGrowth)

func LatencyStep(ms float64) byte {
	if !(ms > 0.001) { // not a number, too
		return 0
	}
	return byte(min(255, math.Ceil(math.Log(ms*1000)*latencyScale)))
}

// latencyOf is the middle of a step, in milliseconds.
func latencyOf(step byte) float64 {
	return math.Pow(LatencyGrowth, float64(step)) / 1000 * 2 / (1 + LatencyGrowth)
}

// Percentiles of latencies that were counted by step, in milliseconds.
func (v Values) Percentiles(wanted ...float64) []float64 {
	type step struct {
		step   byte
		clicks int64
	}
	var steps []step
	var all int64
	for value, n := range v {
		if len(value) == 1 && n.Clicks > 0 {
			steps = append(steps, step{value[0], n.Clicks})
			all += n.Clicks
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.step, b.step) })
	found := make([]float64, len(wanted))
	for i, p := range wanted {
		rank, passed := int64(math.Ceil(p*float64(all))), int64(0)
		for _, s := range steps {
			if passed += s.clicks; passed >= rank {
				found[i] = latencyOf(s.step)
				break
			}
		}
	}
	return found
}

// Equal reports whether both have the same counts. If a dimension has too many values, its totals
// are compared, because the order of clicks decides which values are stored.
func (c Counts) Equal(o Counts) bool {
	for _, d := range Dimensions {
		a, b := c.Of(d.Number), o.Of(d.Number)
		_, full := a[Others]
		_, alsoFull := b[Others]
		if (full || alsoFull) && a.All() == b.All() {
			continue
		}
		if !maps.Equal(a, b) {
			return false
		}
	}
	return true
}

// Kept are the counts that find room in a row.
func (c Counts) Kept() Counts {
	kept := Counts{}
	_ = kept.AddEncoded(c.Encode()) // it has been written just now
	return kept
}

func (v Values) All() (n Count) {
	for _, one := range v {
		n.Add(one)
	}
	return n
}
