package visitor

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
)

// Key hashes visitors for one UTC day. Fill it from crypto/rand, and delete it at the end of the
// day.
type Key [32]byte

// Visitor returns a hash of link, address and user agent under the day's key, which is never 0.
// Without the key it cannot be computed again. User agents with the same first 512 bytes are equal.
func (k *Key) Visitor(linkID, address, agent string) int64 {
	var room [1024]byte // on the stack: only an absurd link or address is too long for it
	b := append(room[:0], k[:]...)
	b = appendPart(b, linkID)
	b = appendPart(b, address)
	b = appendPart(b, agent[:min(len(agent), maxAgent)])
	sum := sha256.Sum256(b)
	return cmp.Or(int64(binary.LittleEndian.Uint64(sum[:])), 1)
}

// appendPart prefixes a part with its length, so that different lists of parts never have the same
// encoding.
func appendPart(b []byte, part string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(part)))
	return append(b, part...)
}
