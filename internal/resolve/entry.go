package resolve

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/linkforge/linkforge/internal/routing"
)

// Target is a link as a redirect needs it. Its texts are parts of the cache's entry, so a copy
// allocates nothing.
type Target struct {
	routing.Program
	ID          string
	WorkspaceID string
	// HitQuota is the workspace's own; a negative one means the instance's.
	HitQuota int64
}

// The flags of a link's entry.
const (
	isDeleted = 1 << iota
	isDisabled
)

// Kinds of entries.
const (
	entryAbsent byte = iota
	entryLink
	entryPlace     // a slug or a host: whose it is
	entryWorkspace // what holds for all links of a workspace
)

// entry is one string without pointers, so that a million entries are a million objects for the
// garbage collector, and not ten million. It contains a kind, the subject, and fields in a fixed
// order.
type entry string

// appendSubject appends the start of an entry.
func appendSubject(b []byte, kind byte, s subject) []byte {
	b = append(b, kind)
	b = appendText(b, s.space)
	return appendText(b, s.name)
}

func appendText(b []byte, text string) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// absence returns the entry of a subject that does not exist, with the time of the query.
func absence(s subject, now time.Time) entry {
	return entry(binary.LittleEndian.AppendUint64(appendSubject(nil, entryAbsent, s), uint64(now.UnixMicro())))
}

func placeEntry(s subject, workspaceID string) entry {
	return entry(append(appendSubject(nil, entryPlace, s), workspaceID...))
}

func workspaceEntry(s subject, hitQuota int64, gone bool) entry {
	b := binary.LittleEndian.AppendUint64(appendSubject(nil, entryWorkspace, s), uint64(hitQuota))
	if gone {
		return entry(append(b, 1))
	}
	return entry(append(b, 0))
}

func linkEntry(s subject, t *Target) entry {
	var flags byte
	if t.Deleted {
		flags |= isDeleted
	}
	if t.Disabled {
		flags |= isDisabled
	}
	b := append(appendSubject(nil, entryLink, s), flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(t.RedirectStatus))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Start))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.End))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.MaxClicks))
	b = appendText(b, t.ID)
	b = appendText(b, t.WorkspaceID)
	return entry(append(b, t.Location...))
}

// read decodes an entry from its front. Entries are written by this process, and never truncated.
type read string

func (r *read) byte() byte {
	b := (*r)[0]
	*r = (*r)[1:]
	return b
}

func (r *read) number(bytes int) (n uint64) {
	for i := range bytes {
		n |= uint64((*r)[i]) << (8 * i)
	}
	*r = (*r)[bytes:]
	return n
}

func (r *read) text() string {
	n, shift := 0, 0
	for {
		b := r.byte()
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		shift += 7
	}
	text := (*r)[:n]
	*r = (*r)[n:]
	return string(text)
}

// open returns the kind and the fields of an entry. It reports false if the entry has another
// subject with the same hash.
func (e entry) open(s subject) (kind byte, rest read, ok bool) {
	if e == "" {
		return 0, "", false
	}
	rest = read(e)
	kind = rest.byte()
	return kind, rest, rest.text() == s.space && rest.text() == s.name
}

func (r read) target() Target {
	var t Target
	flags := r.byte()
	t.Deleted, t.Disabled = flags&isDeleted != 0, flags&isDisabled != 0
	t.RedirectStatus = int(r.number(2))
	t.Start, t.End, t.MaxClicks = int64(r.number(8)), int64(r.number(8)), int64(r.number(8))
	t.ID, t.WorkspaceID = r.text(), r.text()
	t.Location = string(r)
	return t
}

// entryWeight is the memory of an entry in addition to its bytes: the node and the table of the
// cache (measured).
const entryWeight = 112

func (e entry) weight() uint32 { return uint32(min(len(e)+entryWeight, math.MaxUint32)) }
