package routing

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"net/netip"
	"strings"
)

// Stickiness says whether a visitor gets the same target of a rule again.
type Stickiness string

// The kinds of stickiness.
const (
	// NotSticky draws a target for each visit.
	NotSticky Stickiness = "NONE"
	// ByVisitor draws the same target for the same network and agent.
	ByVisitor Stickiness = "VISITOR"
	// ByCookie remembers the target in a cookie.
	ByCookie Stickiness = "COOKIE"
)

// DrawKey derives the key of draws from the secret of an instance, which all nodes share.
func DrawKey(secret []byte) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, "routing stickiness", sha256.Size)
	if err != nil {
		panic(err) // only a longer key could fail
	}
	return key
}

// maxSeedAgent is how many bytes of a user agent distinguish visitors.
const maxSeedAgent = 512

// VisitorSeed is the seed of a draw that does not change for the same link, rule, network and user
// agent. The key never changes and is the same on all nodes.
func VisitorSeed(key []byte, linkID, ruleID string, address netip.Addr, agent string) uint64 {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{linkID, ruleID, networkOf(address), agent[:min(len(agent), maxSeedAgent)]} {
		mac.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(part))))
		mac.Write([]byte(part))
	}
	return binary.LittleEndian.Uint64(mac.Sum(nil))
}

// networkOf returns the network that a visitor keeps: the IPv4 address, or the IPv6 /64.
func networkOf(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.Is4() || !address.IsValid() {
		return address.String()
	}
	prefix, _ := address.Prefix(64) // 64 is a valid length
	return prefix.Addr().String()
}

// targetHash is the part of a target in a draw.
func targetHash(targetID string) uint64 {
	sum := sha256.Sum256([]byte(targetID))
	return binary.LittleEndian.Uint64(sum[:])
}

// rank is the rank of a target in a draw by weighted rendezvous hashing: the lowest wins. Raising a
// share moves visitors into that target only; removing a target moves only its own.
func rank(seed, target uint64, share int) float64 {
	x := splitmix64(seed ^ target)
	u := (float64(x>>11) + 0.5) / (1 << 53)
	return -math.Log(u) / float64(share)
}

// splitmix64 mixes the bits of a number (https://prng.di.unimi.it/splitmix64.c).
func splitmix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draw returns an available target and its position, or -1 if there is none. isCertain: every visit
// like this one gets it. Without a seed, it is the target with the largest share.
func (p *Program) draw(
	rule string, stickiness byte, targets FlatReader, r *Request,
) (chosen target, at int, isCertain bool) {
	largest, position, count := largestShare(targets, r)
	if count <= 1 || r.Head || r.Visit.Bot {
		return largest, position, true
	}
	isByCookie := stickiness == drawByCookie && !r.Visit.Private
	if isByCookie {
		if chosen, at, ok := remembered(rule, targets, r); ok {
			return chosen, at, true
		}
	}
	isByVisitor := stickiness != drawAgain && !isByCookie
	switch {
	case isByVisitor && r.DrawKey != nil && r.Visit.Address.IsValid():
		seed := VisitorSeed(r.DrawKey, p.LinkID, rule, r.Visit.Address, r.Visit.Agent)
		chosen, at = lowestRank(seed, targets, r)
		return chosen, at, true
	case r.DrawSeed != 0:
		chosen, at = lowestRank(r.DrawSeed, targets, r)
		return chosen, at, false
	}
	return largest, position, false
}

// largestShare returns the available target with the largest share, the first among equals, and how
// many are available.
func largestShare(targets FlatReader, r *Request) (largest target, at, count int) {
	at = -1
	for i := range int(targets.Byte()) {
		t := readTarget(&targets)
		if !t.isAvailable(r) {
			continue
		}
		if count++; t.share > largest.share {
			largest, at = t, i
		}
	}
	return largest, at, count
}

// lowestRank returns the available target that the draw chooses.
func lowestRank(seed uint64, targets FlatReader, r *Request) (chosen target, at int) {
	lowest := 0.0
	at = -1
	for i := range int(targets.Byte()) {
		t := readTarget(&targets)
		if !t.isAvailable(r) {
			continue
		}
		if x := rank(seed, t.hash, t.share); at < 0 || x < lowest {
			chosen, at, lowest = t, i, x
		}
	}
	return chosen, at
}

// remembered returns the first available target that a cookie of the rule names.
func remembered(rule string, targets FlatReader, r *Request) (found target, at int, ok bool) {
	for _, header := range r.Cookies {
		for pair := range strings.SplitSeq(header, ";") {
			rest, isTarget := strings.CutPrefix(strings.TrimLeft(pair, " "), cookiePrefix)
			name, value, _ := strings.Cut(rest, "=")
			if !isTarget || name != rule {
				continue
			}
			if found, at, ok = findTarget(strings.TrimSpace(value), targets); ok && found.isAvailable(r) {
				return found, at, true
			}
		}
	}
	return found, at, false
}

func findTarget(id string, targets FlatReader) (found target, at int, ok bool) {
	for i := range int(targets.Byte()) {
		if t := readTarget(&targets); t.id == id {
			return t, i, true
		}
	}
	return found, 0, false
}
