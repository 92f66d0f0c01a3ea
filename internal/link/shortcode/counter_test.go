package shortcode

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var secret = []byte("a secret of thirty-two bytes....")

// TestCounter_CodesAreUnique walks the ends and the middle of the range: no code comes twice.
func TestCounter_CodesAreUnique(t *testing.T) {
	t.Parallel()
	p := NewPermutation(secret)
	seen := map[string]uint64{}
	for _, first := range []uint64{0, Counters / 2, Counters - 50_000} {
		for counter := first; counter < first+50_000; counter++ {
			code := p.Code(counter)
			if other, ok := seen[code]; ok {
				t.Fatalf("%d and %d are both %s", other, counter, code)
			}
			seen[code] = counter
		}
	}
}

// TestPermutation_IsInvertible proves that it is a permutation of the whole range, not only of the
// values tried.
func TestPermutation_IsInvertible(t *testing.T) {
	t.Parallel()
	p := NewPermutation(secret)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1<<(2*halfBits)-1).Draw(t, "n")
		if m := p.permute(n); m >= 1<<(2*halfBits) || p.invert(m) != n {
			t.Fatalf("%d becomes %d, whose inverse is %d", n, m, p.invert(m))
		}
		counter := n % Counters
		if got, ok := p.Counter(p.Code(counter)); !ok || got != counter {
			t.Fatalf("the code of %d is that of %d, %t", counter, got, ok)
		}
	})
}

func TestPermutation_CounterRefusesOtherTexts(t *testing.T) {
	t.Parallel()
	p := NewPermutation(secret)
	for _, code := range []string{"", "abc", "abcdefgh", "abc-efg", "abcdef\u00e9", "\xffbcdefg"} {
		if n, ok := p.Counter(code); ok {
			t.Errorf("%q is the code of %d", code, n)
		}
	}
}

func TestCounter_DependsOnSecret(t *testing.T) {
	t.Parallel()
	one, same, other := NewPermutation(secret), NewPermutation(secret),
		NewPermutation([]byte("another secret of thirty-two byte"))
	equal := 0
	for counter := range uint64(1000) {
		if one.Code(counter) != same.Code(counter) {
			t.Fatalf("%d has two codes under one secret", counter)
		}
		if one.Code(counter) == other.Code(counter) {
			equal++
		}
	}
	if equal > 0 {
		t.Errorf("%d of 1000 counters have the same code under another secret", equal)
	}
}

// TestCounter_NeighboursAreUnrelated counts the digits of consecutive counters' codes, and of their
// differences: each must be as frequent as chance has it. The secret is fixed, so the test always
// sees the same codes.
func TestCounter_NeighboursAreUnrelated(t *testing.T) {
	t.Parallel()
	p := NewPermutation(secret)
	const codes = 62 * 1000
	var digits, steps [CounterLength][62]int
	last := p.Code(0)
	for counter := uint64(1); counter <= codes; counter++ {
		code := p.Code(counter)
		for i := range code {
			digit, before := strings.IndexByte(base62, code[i]), strings.IndexByte(base62, last[i])
			digits[i][digit]++
			steps[i][(digit-before+62)%62]++
		}
		last = code
	}
	for i := range CounterLength {
		for name, counts := range map[string][62]int{"digits": digits[i], "steps": steps[i]} {
			// 61 degrees of freedom: mean 61, deviation 11. Five deviations are one in millions.
			if got := chiSquare(counts[:], codes/62); got > 61+5*math.Sqrt(2*61) {
				t.Errorf("%s at place %d: chi-square %.1f", name, i, got)
			}
		}
	}
}

func chiSquare(counts []int, expected float64) float64 {
	var sum float64
	for _, n := range counts {
		sum += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	return sum
}

func TestCounter_DigitsAreUniform(t *testing.T) {
	t.Parallel()
	counts := make([]int, 62)
	const codes = 62 * 500
	for range codes {
		code := Random()
		if len(code) != CounterLength {
			t.Fatalf("%q", code)
		}
		for i := range code {
			counts[strings.IndexByte(base62, code[i])]++
		}
	}
	// Ten deviations: chance does not reach that, a digit that is never made does.
	if got := chiSquare(counts, codes*CounterLength/62); got > 61+10*math.Sqrt(2*61) {
		t.Errorf("chi-square %.1f", got)
	}
}

func BenchmarkCounter(b *testing.B) {
	p := NewPermutation(secret)
	b.ReportAllocs()
	for b.Loop() {
		p.Code(12345)
	}
}
