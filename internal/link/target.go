package link

import (
	"encoding/binary"
	"math"
	"time"
)

// Target is what a redirect needs to know of a link. Its texts are parts of what the cache holds: a copy costs nothing.
type Target struct {
	ID          string
	WorkspaceID string
	// Location is where the link leads, fit for a header.
	Location       string
	RedirectStatus int
	// MaxClicks is how many redirects the link answers, ever; zero means any number.
	MaxClicks int64
	// HitQuota is the workspace's own; a negative one means the instance's.
	HitQuota int64
	// Gone says that the workspace has been deleted, whatever state the link is in.
	Gone bool

	flags            byte
	startsAt, endsAt int64 // in microseconds since 1970, with hasStart and hasEnd
}

// The flags of a target.
const (
	isDeleted = 1 << iota
	isDisabled
	hasStart
	hasEnd
)

// Status is the state that the link is in at the instant. That it is exhausted, only whoever grants redirects knows.
func (t *Target) Status(now time.Time) Status {
	switch {
	case t.flags&isDisabled != 0:
		return Disabled
	case t.flags&isDeleted != 0:
		return Deleted
	case t.flags&hasEnd != 0 && now.UnixMicro() >= t.endsAt:
		return Expired
	case t.flags&hasStart != 0 && now.UnixMicro() < t.startsAt:
		return Scheduled
	}
	return Active
}

// What an entry of the cache says of its subject.
const (
	entryAbsent byte = iota
	entryLink
	entryPlace     // a slug or a host: whose it is
	entryWorkspace // what holds for all links of a workspace
)

// An entry is one text without a pointer in it, so that a million of them are a million things to the garbage collector
// and not ten: a kind, the subject that it is of, and fields in a fixed order.
type entry string

// appendSubject begins an entry.
func appendSubject(b []byte, kind byte, s subject) []byte {
	b = append(b, kind)
	b = appendText(b, s.space)
	return appendText(b, s.name)
}

func appendText(b []byte, text string) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// absence is what is known of a subject that does not exist, and since when.
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
	b := append(appendSubject(nil, entryLink, s), t.flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(t.RedirectStatus))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.startsAt))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.endsAt))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.MaxClicks))
	b = appendText(b, t.ID)
	b = appendText(b, t.WorkspaceID)
	return entry(append(b, t.Location...))
}

// read takes an entry apart from its front. Entries are this process's own, and never cut short.
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

// open returns what the entry says after its subject, and false when it is of another subject, whose key is the same
// by chance.
func (e entry) open(s subject) (kind byte, rest read, ok bool) {
	if e == "" {
		return 0, "", false
	}
	rest = read(e)
	kind = rest.byte()
	return kind, rest, rest.text() == s.space && rest.text() == s.name
}

func (r read) target() Target {
	t := Target{flags: r.byte(), RedirectStatus: int(r.number(2)), HitQuota: -1}
	t.startsAt, t.endsAt, t.MaxClicks = int64(r.number(8)), int64(r.number(8)), int64(r.number(8))
	t.ID, t.WorkspaceID = r.text(), r.text()
	t.Location = string(r)
	return t
}

// entryWeight is what an entry costs beside its own bytes: the cache's node and table (measured, see docs/PERFORMANCE.md).
const entryWeight = 112

func (e entry) weight() uint32 { return uint32(min(len(e)+entryWeight, math.MaxUint32)) }
