package shortcode

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strings"
	"sync"
)

const (
	// CounterLength is the number of characters of a counter's code, and of a random one.
	CounterLength = 7
	// Counters is how many counters there are: 62^7, each with a code of its own.
	Counters = uint64(62 * 62 * 62 * 62 * 62 * 62 * 62)

	// A Feistel network works on two halves: 42 bits are the fewest even number that holds every
	// counter.
	halfBits = 21
	halfMask = 1<<halfBits - 1
	// rounds: four make a strong pseudo-random permutation (Luby and Rackoff, 1988); the others are
	// margin, the blocks being small.
	rounds = 10
)

// base62 has the digits of a counter's code.
const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Permutation encodes counters as codes. No two counters share a code, and without the secret a
// code reveals neither its counter nor its neighbours.
type Permutation struct {
	// macs are HMAC-SHA256 keyed with the secret: one is needed at a time, and keying one costs two
	// blocks.
	macs sync.Pool
}

// NewPermutation is the permutation of a secret, the same on every node that has it.
func NewPermutation(secret []byte) *Permutation {
	return &Permutation{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

// Code is the code of a counter, which must be less than Counters.
func (p *Permutation) Code(counter uint64) string {
	n := p.permute(counter)
	for n >= Counters { // walking the cycle stays a permutation of those below; four in five need no step
		n = p.permute(n)
	}
	return encode62(n)
}

// Counter is the inverse of Code. It reports false for a text that is the code of no counter.
func (p *Permutation) Counter(code string) (counter uint64, ok bool) {
	n, ok := decode62(code)
	if !ok {
		return 0, false
	}
	n = p.invert(n)
	for n >= Counters {
		n = p.invert(n)
	}
	return n, true
}

// permute is a permutation of the numbers of 42 bits.
func (p *Permutation) permute(n uint64) uint64 {
	mac := p.mac()
	defer p.macs.Put(mac)
	left, right := n>>halfBits, n&halfMask
	for round := range uint8(rounds) {
		left, right = right, left^roundValue(mac, round, right)
	}
	return left<<halfBits | right
}

// invert is the inverse of permute.
func (p *Permutation) invert(n uint64) uint64 {
	mac := p.mac()
	defer p.macs.Put(mac)
	left, right := n>>halfBits, n&halfMask
	for round := rounds - 1; round >= 0; round-- {
		left, right = right^roundValue(mac, uint8(round), left), left
	}
	return left<<halfBits | right
}

func (p *Permutation) mac() hash.Hash { return p.macs.Get().(hash.Hash) }

// roundValue is half a block of pseudo-random bits, for a round and a half.
func roundValue(mac hash.Hash, round uint8, half uint64) uint64 {
	message := [...]byte{'c', 'o', 'd', 'e', round, byte(half >> 16), byte(half >> 8), byte(half)}
	mac.Reset()
	mac.Write(message[:])
	var sum [sha256.Size]byte
	return binary.BigEndian.Uint64(mac.Sum(sum[:0])) & halfMask
}

func encode62(n uint64) string {
	var code [CounterLength]byte
	for i := CounterLength - 1; i >= 0; i-- {
		code[i] = base62[n%62]
		n /= 62
	}
	return string(code[:])
}

// decode62 reports false for a text that encode62 does not write.
func decode62(code string) (n uint64, ok bool) {
	if len(code) != CounterLength {
		return 0, false
	}
	for i := range len(code) {
		digit := strings.IndexByte(base62, code[i])
		if digit < 0 {
			return 0, false
		}
		n = n*62 + uint64(digit)
	}
	return n, true
}
