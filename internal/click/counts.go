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

// commonStatus is that of a click of which its counts say nothing.
const commonStatus = 302

// Count is how many clicks there were, how many of them were the first of a visitor on a day (UTC), and how many a bot's.
type Count struct{ Clicks, Visits, Bots int64 }

func (c *Count) add(o Count) {
	c.Clicks += o.Clicks
	c.Visits += o.Visits
	c.Bots += o.Bots
}

// values are counts by the values of one dimension. Clicks whose value is not known are in none of them.
type values map[string]Count

func (v values) add(value string, c Count) {
	sum := v[value]
	sum.add(c)
	v[value] = sum
}

// others is the value of what has found no room: no visitor can send it. The values of a dimension in one row are bounded,
// so that nobody makes rows grow by making values up.
const (
	others    = "\x01"
	maxValues = 1000
)

// counts are counts by dimension and value.
type counts map[countKey]Count

type countKey struct {
	dimension byte
	value     string
}

func (c counts) add(dimension byte, value string, n Count) {
	key := countKey{dimension, value}
	sum := c[key]
	sum.add(n)
	c[key] = sum
}

func (c counts) addAll(o counts) {
	for key, n := range o {
		c.add(key.dimension, key.value, n)
	}
}

// of are the counts of one dimension.
func (c counts) of(dimension byte) values {
	found := values{}
	for key, n := range c {
		if key.dimension == dimension {
			found[key.value] = n
		}
	}
	return found
}

// countedValue is a value with its count.
type countedValue struct {
	countKey
	Count
}

// quartersBytes bounds what the quarters of a day take, which come first in its counts: who asks for nothing else need not read
// the rest.
const quartersBytes = 2 + int(day/BucketLength)*(2+3*binary.MaxVarintLen64)

// encode writes counts: for each dimension its number, how many values and, for each, its length and text and the counts. Of
// values that are too many, those with the most clicks find room.
func (c counts) encode() []byte {
	all := make([]countedValue, 0, len(c))
	size := 0
	for key, n := range c {
		all = append(all, countedValue{key, n})
		size += len(key.value) + 7
	}
	slices.SortFunc(all, func(a, b countedValue) int {
		return cmp.Or(cmp.Compare(a.place(), b.place()), cmp.Compare(a.value, b.value))
	})
	b := make([]byte, 0, size)
	for len(all) > 0 {
		end := 1
		for end < len(all) && all[end].dimension == all[0].dimension {
			end++
		}
		of := bounded(all[:end])
		b = append(b, all[0].dimension)
		b = binary.AppendUvarint(b, uint64(len(of)))
		for _, v := range of {
			b = appendText(b, v.value)
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
	if k.dimension == quarterDimension {
		return 0
	}
	return k.dimension
}

// bounded are values that find room, and the others.
func bounded(of []countedValue) []countedValue {
	if len(of) <= maxValues {
		return of
	}
	rest := countedValue{countKey: countKey{of[0].dimension, others}}
	of = slices.DeleteFunc(slices.Clone(of), func(v countedValue) bool {
		if v.value == others {
			rest.add(v.Count)
		}
		return v.value == others
	})
	slices.SortStableFunc(of, func(a, b countedValue) int { return cmp.Compare(b.Clicks, a.Clicks) })
	for _, v := range of[min(len(of), maxValues):] {
		rest.add(v.Count)
	}
	of = of[:min(len(of), maxValues)]
	if rest.Count != (Count{}) {
		of = append(of, rest)
	}
	return of
}

var errCounts = errors.New("counts that cannot be read")

// eachCount reads what encode has written, one dimension of it, or all when that is zero. What follows the one is not read.
func eachCount(b []byte, only byte, f func(dimension byte, value []byte, n Count)) error {
	for len(b) > 0 {
		dimension := b[0]
		n, size := binary.Uvarint(b[1:])
		if size <= 0 || dimension == 0 || dimension > lastDimension {
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

// addEncoded adds what encode has written.
func (c counts) addEncoded(b []byte) error {
	return eachCount(b, 0, func(dimension byte, value []byte, n Count) { c.add(dimension, string(value), n) })
}

// addClick counts one click by all that is known of it.
func (c counts) addClick(k *Click, one Count) {
	for i, value := range k.texts() {
		if *value != "" {
			c.add(byte(i+1), *value, one)
		}
	}
	if k.Status != commonStatus {
		c.add(statusDimension, strconv.Itoa(k.Status), one)
	}
	c.add(latencyDimension, string([]byte{latencyStep(k.LatencyMs)}), one)
}

// quarterOf is the number of the quarter of an hour that an instant lies in, on its day in UTC.
func quarterOf(t time.Time) byte { return byte(t.Sub(t.UTC().Truncate(day)) / BucketLength) }

// addQuarter counts a quarter of an hour among the counts of its day.
func (c counts) addQuarter(start time.Time, n Count) {
	c.add(quarterDimension, string([]byte{quarterOf(start)}), n)
}

// latencyGrowth is by how much each step of a latency is longer than the one before: a percentile is right to five per cent.
// Step 0 ends at a microsecond.
const latencyGrowth = 1.1

var latencyScale = 1 / math.Log(latencyGrowth)

func latencyStep(ms float64) byte {
	if !(ms > 0.001) { // not a number, too
		return 0
	}
	return byte(min(255, math.Ceil(math.Log(ms*1000)*latencyScale)))
}

// latencyOf is the middle of a step, in milliseconds.
func latencyOf(step byte) float64 {
	return math.Pow(latencyGrowth, float64(step)) / 1000 * 2 / (1 + latencyGrowth)
}

// percentiles of latencies that were counted by step, in milliseconds.
func (v values) percentiles(wanted ...float64) []float64 {
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

// equal says that both count the same. Which values found room depends on the order in which they came: of a dimension that
// has too many, all of them together are compared.
func (c counts) equal(o counts) bool {
	for _, d := range dimensions {
		a, b := c.of(d.number), o.of(d.number)
		_, full := a[others]
		_, alsoFull := b[others]
		if (full || alsoFull) && a.all() == b.all() {
			continue
		}
		if !maps.Equal(a, b) {
			return false
		}
	}
	return true
}

// kept are the counts that find room in a row.
func (c counts) kept() counts {
	kept := counts{}
	_ = kept.addEncoded(c.encode()) // it has been written just now
	return kept
}

func (v values) all() (n Count) {
	for _, one := range v {
		n.add(one)
	}
	return n
}
