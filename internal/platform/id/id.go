// Package id creates and checks the identifiers of rows: a prefix that names the type, and a UUIDv7
// in the base32 of TypeID (https://github.com/jetify-com/typeid/tree/main/spec), so ids sort by
// their creation time. Every package with rows calls it.
package id

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Prefix identifies the type of an object in its ID.
type Prefix string

// The prefixes, one per type.
const (
	Account    Prefix = "usr_"
	Session    Prefix = "ses_"
	Workspace  Prefix = "ws_"
	Invitation Prefix = "inv_"
	Key        Prefix = "key_"
	Domain     Prefix = "dom_"
	Event      Prefix = "evt_"
	Folder     Prefix = "fld_"
	Link       Prefix = "lnk_"
	Click      Prefix = "clk_"
	Log        Prefix = "log_"
	Report     Prefix = "rep_"
	Member     Prefix = "mem_"
	Rule       Prefix = "rul_"
	Target     Prefix = "tgt_"
	Template   Prefix = "utm_"
	Webhook    Prefix = "whk_"
	Delivery   Prefix = "dlv_"
	Scheduled  Prefix = "sch_"
	Operation  Prefix = "opn_"
	Task       Prefix = "tsk_"
)

// PublicWorkspace is the ID of the workspace of anonymous links.
const PublicWorkspace = string(Workspace) + "00000000000000000000000000"

// alphabet is Crockford's base32 in lower case: no i, l, o or u.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

const encodedLength = 26 // 128 bits, five at a time, after two bits of padding

// New returns an ID. IDs of one process are ordered by creation.
func New(p Prefix) string {
	u, err := uuid.NewV7()
	if err != nil {
		panic(err) // the system has no randomness: nothing can be kept secret, nothing should run
	}
	return string(p) + encode(u)
}

// Daily returns the ID that all calls with these parts return on a day of UTC: a UUIDv8 of the
// start of the day and a hash of the parts (https://www.rfc-editor.org/rfc/rfc9562#section-5.8). It
// sorts before the IDs that New returns on the day, except for its first millisecond.
func Daily(p Prefix, parts ...string) string { return daily(p, time.Now(), parts) }

func daily(p Prefix, at time.Time, parts []string) string {
	text, err := json.Marshal(parts) // keeps the parts apart
	if err != nil {
		panic(err) // texts are JSON
	}
	hash := sha256.Sum256(text)
	u := uuid.UUID(hash[:16])
	start := uint64(at.UTC().Truncate(day).UnixMilli())
	binary.BigEndian.PutUint64(u[:8], start<<16|uint64(versionDaily)<<12|uint64(binary.BigEndian.Uint16(u[6:8])&0x0fff))
	u[8] = u[8]&0x3f | 0x80
	return string(p) + encode(u)
}

const (
	day = 24 * time.Hour
	// versionDaily is the version of the UUIDs of Daily.
	versionDaily = 8
)

// Span returns the interval during which New has returned an ID, or Daily may return it. ok is
// false if s is no ID of the type.
func Span(p Prefix, s string) (from, to time.Time, ok bool) {
	high, _, ok := Split(p, s)
	from = time.UnixMilli(high >> 16)
	if high>>12&0xf == versionDaily {
		return from, from.Add(day), ok
	}
	return from, from, ok
}

// From returns the smallest ID that New can return from an instant on.
func From(p Prefix, at time.Time) string { return Join(p, at.UnixMilli()<<16, 0) }

// Join returns an ID of two numbers, which orders such IDs. The first must not be negative.
func Join(p Prefix, high, low int64) string {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:8], uint64(high))
	binary.BigEndian.PutUint64(u[8:], uint64(low))
	return string(p) + encode(u)
}

// Split is the inverse of Join; ok is false if s is no ID of the type.
func Split(p Prefix, s string) (high, low int64, ok bool) {
	if !Valid(p, s) {
		return 0, 0, false
	}
	var h, l uint64
	for _, digit := range []byte(s[len(p):]) {
		h = h<<5 | l>>59
		l = l<<5 | uint64(strings.IndexByte(alphabet, digit))
	}
	return int64(h), int64(l), true
}

// Pair returns an ID of two IDs without their prefixes.
func Pair(p Prefix, first, second string) string {
	return string(p) + first[len(first)-encodedLength:] + second[len(second)-encodedLength:]
}

// SplitPair is the inverse of Pair; ok is false unless s is a pair of valid IDs of the two types.
func SplitPair(p Prefix, s string, of, with Prefix) (first, second string, ok bool) {
	digits, ok := strings.CutPrefix(s, string(p))
	if !ok || len(digits) != 2*encodedLength {
		return "", "", false
	}
	first, second = string(of)+digits[:encodedLength], string(with)+digits[encodedLength:]
	return first, second, Valid(of, first) && Valid(with, second)
}

// PrefixOf returns the prefix of an ID, which may be unknown; empty if there is none.
func PrefixOf(s string) Prefix { return Prefix(s[:strings.IndexByte(s, '_')+1]) }

// Valid reports whether s is an ID of the type, exactly as New writes it.
func Valid(p Prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, string(p))
	if !ok || len(rest) != encodedLength || rest[0] > '7' {
		return false
	}
	for i := range len(rest) {
		if strings.IndexByte(alphabet, rest[i]) < 0 {
			return false
		}
	}
	return true
}

func encode(u uuid.UUID) string {
	var out [encodedLength]byte
	// 130 bits of output for 128 of input: the first digit carries three bits, every other one
	// five.
	acc, bits, next := uint(0), 2, 0
	for _, b := range u {
		acc, bits = acc<<8|uint(b), bits+8
		for bits >= 5 {
			bits -= 5
			out[next] = alphabet[acc>>bits&31]
			next++
		}
		acc &= 1<<bits - 1
	}
	return string(out[:])
}
