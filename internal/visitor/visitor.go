package visitor

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
)

// Key makes hashes of visitors for one UTC day. Fill it from crypto/rand, and forget it when the
// day is over.
type Key [32]byte

// Visitor is what a visitor of a link is told from others by: a hash of link, address and agent
// under the day's key, never 0. Without the key nobody can make it again. Agents that begin with
// the same 512 bytes are one.
func (k *Key) Visitor(linkID, address, agent string) int64 {
	var room [1024]byte // on the stack: only an absurd link or address is too long for it
	b := append(room[:0], k[:]...)
	b = appendPart(b, linkID)
	b = appendPart(b, address)
	b = appendPart(b, agent[:min(len(agent), maxAgent)])
	sum := sha256.Sum256(b)
	return cmp.Or(int64(binary.LittleEndian.Uint64(sum[:])), 1)
}

// appendPart says how long a part is, so that no two lists of parts are the same bytes.
func appendPart(b []byte, part string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(part)))
	return append(b, part...)
}
