// Package shortcode computes and checks the codes at the end of short URLs, and lists the reserved
// words. It is pure: package codecounter issues the codes of counters, package creation decides
// which code a link gets.
package shortcode

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"math/bits"
	"strconv"
)

const (
	// Length is the number of characters of a deterministic code.
	Length = 10
	// Salts is the number of candidates that a URL has in a workspace, salts 0 to 9.
	Salts = 10
)

// alphabet is Base58: no 0, O, I or l, which readers confuse.
const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

const (
	base = uint64(len(alphabet))
	// tooManyDigits is 58^10, the smallest number of eleven digits.
	tooManyDigits = base * base * base * base * base * base * base * base * base * base
)

// Candidates yields the deterministic codes of a canonical URL in a workspace with their salts, in
// the order of their use. Each is computed on demand. A candidate may be a Reserved word.
func Candidates(canonical, workspaceID string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for salt := range Salts {
			if !yield(salt, Deterministic(canonical, workspaceID, salt)) {
				return
			}
		}
	}
}

// Deterministic returns the code of a canonical URL in a workspace for one salt, 0 to Salts-1.
func Deterministic(canonical, workspaceID string, salt int) string {
	sum := digest(canonical, workspaceID, salt)
	return base58(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16]))
}

// digest hashes the canonical URL and the workspace with the salt. Salt 0 adds nothing to the
// input.
func digest(canonical, workspaceID string, salt int) [sha256.Size]byte {
	text := make([]byte, 0, 256) // most URLs fit, and it stays on the stack
	text = append(text, canonical...)
	text = append(text, '|')
	text = append(text, workspaceID...)
	if salt != 0 {
		text = append(text, '|')
		text = strconv.AppendInt(text, int64(salt), 10)
	}
	return sha256.Sum256(text)
}

// base58 returns the first ten Base58 digits of a 128-bit number, or all of them padded on the left
// when it has fewer.
func base58(high, low uint64) string {
	for high != 0 || low >= tooManyDigits {
		rest := high % base
		high /= base
		low, _ = bits.Div64(rest, low, base) // drops the last digit
	}
	var code [Length]byte
	for i := Length - 1; i >= 0; i-- {
		code[i] = alphabet[low%base]
		low /= base
	}
	return string(code[:])
}
