package main

import (
	"math/rand/v2"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// urlOf is the destination of a link, by its number.
func urlOf(number int) string {
	c := rig.Code(number)
	return "https://www.example.com/articles/" + c[:5] + "/a-title-of-some-words?utm_source=" + c[5:]
}

// drawnVisits is how many visits are drawn: a burst that has more repeats them.
const drawnVisits = 1 << 18

// draw draws the links to visit by Zipf's law. Which links are popular is always the same, and does
// not depend on when they were created.
func draw(links int, seed uint64) []int {
	byRank := rand.New(rand.NewPCG(0, 0)).Perm(links)
	rank := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), rig.Skew, 1, uint64(links-1))
	visits := make([]int, drawnVisits)
	for i := range visits {
		visits[i] = byRank[rank.Uint64()]
	}
	return visits
}
