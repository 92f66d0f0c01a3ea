package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// leastLinks is how few links an estate may have, mostLinks how many: serials have eight digits.
	leastLinks = 1000
	mostLinks  = 99_999_999
	// mostHot is how many links every node remembers, mostFollowed how many of those are followed over
	// and over.
	mostHot      = 20_000
	mostFollowed = 1000
	// mostAsked is in how many workspaces links are made and looked for.
	mostAsked = 1000
	// rare is how many links have a word that no other has; all of them are the largest workspace's.
	rare     = 20
	rareWord = "zebrafish"
)

// shape says what an estate holds. Everything about it is computed, by every process: nothing has
// to be handed over. Ids hold the number of the estate, so that no two estates share a key of
// Redis.
type shape struct{ Number, Links, Tenants int }

// isLike says that another estate holds as much.
func (s shape) isLike(other shape) bool { return s.Links == other.Links && s.Tenants == other.Tenants }

// Ids are in the order of their numbers, and come before those of today. What they are made of are
// digits of base32 as well.
func (s shape) linkID(link int) string { return fmt.Sprintf("lnk_00%04x%020x", s.Number, link) }
func (s shape) workspaceID(workspace int) string {
	return fmt.Sprintf("ws_00%04x%020x", s.Number, workspace)
}
func (s shape) ownerID(workspace int) string {
	return fmt.Sprintf("usr_00%04x%020x", s.Number, workspace)
}

// The workspace 0 has every tenth link, and the others take turns with the rest.
const largest = 10

// home is the workspace of a link.
func (s shape) home(link int) int {
	if link%largest == 0 {
		return 0
	}
	return 1 + (link/largest*(largest-1)+link%largest-1)%(s.Tenants-1)
}

// size is how many links a workspace has.
func (s shape) size(workspace int) int {
	ofLargest := (s.Links + largest - 1) / largest
	if workspace == 0 {
		return ofLargest
	}
	rest, others := s.Links-ofLargest, s.Tenants-1
	size := rest / others
	if workspace-1 < rest%others {
		size++
	}
	return size
}

// linkOf is a link of a workspace, from 0 to below its size.
func (s shape) linkOf(workspace, index int) int {
	if workspace == 0 {
		return index * largest
	}
	turn := workspace - 1 + index*(s.Tenants-1)
	return turn/(largest-1)*largest + turn%(largest-1) + 1
}

// asked is in how many workspaces, the first of all, links are made and looked for.
func (s shape) asked() int { return min(s.Tenants, mostAsked) }

// hot is how many links, the newest, every node remembers. All others are looked for once at most.
func (s shape) hot() int { return min(s.Links/5, mostHot) }

// followed is how many of those, the first, are followed over and over.
func (s shape) followed() int { return min(s.hot(), mostFollowed) }

// scatter has no divisor in common with any number below it: its multiples come by all indexes
// below a number, in no order.
const scatter = 2_654_435_761

// scattered is each index below n once, for n turns.
func scattered(turn, n int) int { return int(uint64(turn%n) * scatter % uint64(n)) }

// cold is a link that is not hot: each once, for as many turns as there are.
func (s shape) cold(turn int) int { return scattered(turn, s.colds()) }

func (s shape) colds() int { return s.Links - s.hot() }

// draw draws hot links by Zipf's law.
func (s shape) draw(n int, seed uint64) []int {
	rank := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), rig.Skew, 1, uint64(s.followed()-1))
	visits := make([]int, n)
	for i := range visits {
		visits[i] = s.colds() + scattered(int(rank.Uint64()), s.followed())
	}
	return visits
}

// serial is a number of eight digits that no other link has, with all digits alike.
func serial(link int) int { return int(uint64(link) * 61_803_399 % 100_000_000) }

// urlOf is where a link leads, which also is its canonical form.
func urlOf(link int) string {
	return fmt.Sprintf("https://www.example.com/articles/%08d/a-title-of-some-words", serial(link))
}

// titleOf is a link's title. Those with the rare word are spread over the largest workspace's.
func (s shape) titleOf(link int) string {
	every := s.size(0) / rare * largest
	if link%every == 0 && link/every < rare {
		return fmt.Sprintf("A %s of the catalogue", rareWord)
	}
	return "A page of the catalogue"
}
