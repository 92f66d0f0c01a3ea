package main

import (
	"regexp"
	"testing"
)

func TestCodesAreDifferent(t *testing.T) {
	t.Parallel()
	looks := regexp.MustCompile(`^[1-9A-HJ-NP-Za-km-z]{10}$`)
	seen := map[code]bool{}
	for number := range 200_000 {
		c := codeOf(number)
		if seen[c] || !looks.Match(c[:]) {
			t.Fatalf("the code of link %d is %s: seen before %v", number, c, seen[c])
		}
		seen[c] = true
	}
}

// TestStrideReachesEveryCode: 58 is 2 · 29, and a stride that neither divides comes by all codes.
func TestStrideReachesEveryCode(t *testing.T) {
	t.Parallel()
	n := 1
	for range len(code{}) {
		n *= 58
	}
	if n != codes {
		t.Errorf("there are %d codes, not %d", n, codes)
	}
	if stride%2 == 0 || stride%29 == 0 {
		t.Error("the stride has a divisor in common with the number of codes")
	}
}

// TestDrawFollowsZipf compares with the law: a link of rank k is visited as often as the first, divided by k^1.1.
func TestDrawFollowsZipf(t *testing.T) {
	t.Parallel()
	const links, n = 1000, 200_000
	visits := map[code]float64{}
	for _, c := range draw(links, n, 1) {
		visits[c]++
	}
	var first, rest float64
	var popular code
	for c, times := range visits {
		if times > first {
			first, popular = times, c
		}
	}
	for number := range links {
		rest += visits[codeOf(number)]
	}
	if rest != n {
		t.Errorf("%.0f of %d visits were to links that there are", rest, n)
	}
	if share := first / n; share < 0.16 || share > 0.20 { // 1 / the sum of k^-1.1 for a thousand links is 0.18
		t.Errorf("the first link has %.3f of the visits", share)
	}
	if popular == codeOf(0) {
		t.Error("the oldest link is the most popular one")
	}
}

func TestDrawIsRepeatable(t *testing.T) {
	t.Parallel()
	same, again, other := draw(100, 100, 1), draw(100, 100, 1), draw(100, 100, 2)
	differ := false
	for i := range same {
		if same[i] != again[i] {
			t.Fatal("the same seed drew other links")
		}
		differ = differ || same[i] != other[i]
	}
	if !differ {
		t.Error("another seed drew the same links")
	}
}
