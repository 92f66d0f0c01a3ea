package main

import (
	"math/bits"
	"math/rand/v2"
)

// code is the path of a link: what generated codes look like, ten letters of Base58.
type code [10]byte

const (
	alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	// codes is how many there are, 58^10. Steps of stride, which has no divisor in common with it, come by each of
	// them once, and never near the one before.
	codes  = 430_804_206_899_405_824
	stride = 266_251_642_360_274_785
)

// codeOf is the code of a link, by its number. Every process computes it: nothing has to be handed over.
func codeOf(number int) code {
	high, low := bits.Mul64(uint64(number)+1, stride)
	_, n := bits.Div64(high, low, codes)
	var c code
	for i := range c {
		c[i] = alphabet[n%58]
		n /= 58
	}
	return c
}

// urlOf is where the link leads.
func urlOf(number int) string {
	c := codeOf(number)
	return "https://www.example.com/articles/" + string(c[:5]) + "/a-title-of-some-words?utm_source=" + string(c[5:])
}

const (
	// skew is the exponent of Zipf's law: near 1 is what visits of pages were found to follow, and of a million links
	// the first has every eighth visit then.
	skew = 1.1
	// drawn is how many visits are drawn: more than a burst has. Should it have more, they come again.
	drawn = 1 << 20
)

// draw draws the links to visit by Zipf's law. Which links are the popular ones is always the same, and has nothing to do
// with when they were made.
func draw(links, n int, seed uint64) []code {
	byRank := rand.New(rand.NewPCG(0, 0)).Perm(links)
	rank := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), skew, 1, uint64(links-1))
	visits := make([]code, n)
	for i := range visits {
		visits[i] = codeOf(byRank[rank.Uint64()])
	}
	return visits
}
