package routing

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
)

// drawn returns the target that a visitor gets.
func drawn(seed uint64, shares map[string]int) (best string) {
	lowest := math.Inf(1)
	for id, share := range shares {
		if r := rank(seed, targetHash(id), share); share > 0 && r < lowest {
			best, lowest = id, r
		}
	}
	return best
}

// visitorSeed is the seed of the n-th visitor.
func visitorSeed(n int) uint64 {
	address := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	return VisitorSeed([]byte("key"), "lnk_a", "rul_a", address, "agent")
}

// TestDraw_FollowsShares compares the targets of 20,000 visitors with the shares by a chi-squared
// test.
func TestDraw_FollowsShares(t *testing.T) {
	t.Parallel()
	shares := map[string]int{"tgt_a": 70, "tgt_b": 20, "tgt_c": 10, "tgt_paused": 0}
	const visitors = 20_000
	got := map[string]int{}
	for n := range visitors {
		got[drawn(visitorSeed(n), shares)]++
	}
	chi := 0.0
	for id, share := range shares {
		if share == 0 {
			continue
		}
		want := visitors * float64(share) / 100
		chi += (float64(got[id]) - want) * (float64(got[id]) - want) / want
	}
	if chi > 13.8 || got["tgt_paused"] > 0 { // 2 degrees of freedom, 0.1 %
		t.Errorf("%v, chi squared %.1f", got, chi)
	}
}

// TestDraw_MovesFewVisitors: raising a share moves visitors into that target only, and removing a
// target moves only its own visitors.
func TestDraw_MovesFewVisitors(t *testing.T) {
	t.Parallel()
	shares := map[string]int{"tgt_a": 70, "tgt_b": 10, "tgt_c": 20}
	raised := map[string]int{"tgt_a": 70, "tgt_b": 20, "tgt_c": 20}
	removed := map[string]int{"tgt_a": 70, "tgt_b": 10}
	moved := 0
	for n := range 20_000 {
		seed := visitorSeed(n)
		before := drawn(seed, shares)
		if after := drawn(seed, raised); after != before {
			moved++
			if after != "tgt_b" {
				t.Fatalf("visitor %d moved from %s to %s", n, before, after)
			}
		}
		if after := drawn(seed, removed); after != before && before != "tgt_c" {
			t.Fatalf("visitor %d moved from %s to %s", n, before, after)
		}
	}
	if moved == 0 {
		t.Error("nobody moved")
	}
}

// TestVisitorSeed_IsOneOfANetwork: the seed depends on each part, and on the network of an address.
func TestVisitorSeed_IsOneOfANetwork(t *testing.T) {
	t.Parallel()
	seed := func(key, link, rule, address, agent string) uint64 {
		return VisitorSeed([]byte(key), link, rule, netip.MustParseAddr(address), agent)
	}
	long := fmt.Sprintf("%0*d", maxSeedAgent, 0)
	base := seed("k", "l", "r", "2001:db8::1", long)
	for name, same := range map[string]uint64{
		"address of the network": seed("k", "l", "r", "2001:db8::2", long),
		"longer agent":           seed("k", "l", "r", "2001:db8::1", long+"x"),
		"zone":                   seed("k", "l", "r", "2001:db8::1%eth0", long),
	} {
		if same != base {
			t.Errorf("another seed by: %s", name)
		}
	}
	for name, other := range map[string]uint64{
		"key":     seed("x", "l", "r", "2001:db8::1", long),
		"link":    seed("k", "x", "r", "2001:db8::1", long),
		"rule":    seed("k", "l", "x", "2001:db8::1", long),
		"network": seed("k", "l", "r", "2001:db8:0:1::1", long),
		"agent":   seed("k", "l", "r", "2001:db8::1", "x"),
		"parts":   seed("k", "lr", "", "2001:db8::1", long),
	} {
		if other == base {
			t.Errorf("the same seed by another %s", name)
		}
	}
	if seed("k", "l", "r", "192.0.2.1", "a") != seed("k", "l", "r", "::ffff:192.0.2.1", "a") {
		t.Error("a mapped IPv4 address is another network")
	}
}
