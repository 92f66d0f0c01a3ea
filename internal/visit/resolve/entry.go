package resolve

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/linkforge/linkforge/internal/route/routing"
)

// Target is a link as a redirect needs it. Its texts are parts of the cache's entry, so a copy
// allocates nothing.
type Target struct {
	routing.Program
	WorkspaceID string
	// Indexable lets search engines index the short URL.
	Indexable bool
	// HitQuota is the workspace's own; a negative one means the instance's.
	HitQuota int64
	// MonthClicks is how many clicks the database had of the link in the month of ReadAt, when the
	// link was read, in microseconds since 1970. The number is negative if it is unknown.
	MonthClicks, ReadAt int64
	// At is the address of the link, of those that the requested one may mean; or else the requested
	// one.
	At Address
}

// The flags of a link's entry.
const (
	isDeleted = 1 << iota
	isDisabled
	// isRouted means that the compiled routing follows the location.
	isRouted
)

// Kinds of entries.
const (
	entryAbsent byte = iota
	entryLink
	entryPlace     // a slug or a host: whose it is
	entryWorkspace // what holds for all links of a workspace
	entryHost      // a host with settings
	entryDocument  // an app association document of a host
	entryScheduled // a link with pending changes
	entryCode      // a code key: the code
)

// entry is one string without pointers, so that a million entries are a million objects for the
// garbage collector, and not ten million. It contains a kind, the subject, and fields in a fixed
// order.
type entry string

// startOf returns the start of an entry.
func startOf(kind byte, s subject) []byte {
	return routing.AppendText(routing.AppendText([]byte{kind}, s.space), s.name)
}

// absence returns the entry of a subject that does not exist, with the time of the query.
func absence(s subject, now time.Time) entry {
	return entry(binary.LittleEndian.AppendUint64(startOf(entryAbsent, s), uint64(now.UnixMicro())))
}

func codeEntry(s subject, code string) entry {
	return entry(append(startOf(entryCode, s), code...))
}

func placeEntry(s subject, workspaceID string) entry {
	return entry(append(startOf(entryPlace, s), workspaceID...))
}

// The flags of a workspace's entry.
const (
	isGone = 1 << iota
	foldsCodes
)

func workspaceEntry(s subject, w *settings) entry {
	b := binary.LittleEndian.AppendUint64(startOf(entryWorkspace, s), uint64(w.hitQuota))
	var flags byte
	if w.isGone {
		flags |= isGone
	}
	if w.foldsCodes {
		flags |= foldsCodes
	}
	b = append(b, flags)
	if w.isGone || w.notFoundURL == "" && w.endedURL == "" {
		return entry(b)
	}
	return entry(routing.AppendText(routing.AppendText(b, w.notFoundURL), w.endedURL))
}

func readSettings(r routing.FlatReader) (w settings) {
	w.hitQuota = int64(r.Number(8))
	flags := r.Byte()
	w.isGone, w.foldsCodes = flags&isGone != 0, flags&foldsCodes != 0
	if len(r) > 0 {
		w.notFoundURL, w.endedURL = r.Text(), r.Text()
	}
	return w
}

// The flags of a host's entry.
const (
	isIndexable = 1 << iota
	isCaseSensitive
)

func hostEntry(s subject, h *Host) entry {
	b := routing.AppendText(startOf(entryHost, s), h.WorkspaceID)
	for _, url := range []string{h.RootURL, h.NotFoundURL, h.EndedURL, h.FaviconURL} {
		b = routing.AppendText(b, url)
	}
	var flags byte
	if h.Indexable {
		flags |= isIndexable
	}
	if h.CaseSensitive {
		flags |= isCaseSensitive
	}
	return entry(append(append(b, flags), h.OwnID...))
}

func documentEntry(s subject, text string) entry {
	return entry(append(startOf(entryDocument, s), text...))
}

func readHost(kind byte, r routing.FlatReader) (h Host) {
	if kind == entryPlace {
		h.WorkspaceID = string(r)
		return h
	}
	h.WorkspaceID, h.RootURL, h.NotFoundURL, h.EndedURL, h.FaviconURL = r.Text(), r.Text(), r.Text(), r.Text(), r.Text()
	flags := r.Byte()
	h.Indexable, h.CaseSensitive, h.OwnID = flags&isIndexable != 0, flags&isCaseSensitive != 0, string(r)
	return h
}

func linkEntry(s subject, t *Target) entry {
	return entry(appendTarget(startOf(entryLink, s), t))
}

func appendTarget(b []byte, t *Target) []byte {
	var flags byte
	if t.Deleted {
		flags |= isDeleted
	}
	if t.Disabled {
		flags |= isDisabled
	}
	if t.Compiled != "" {
		flags |= isRouted
	}
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(t.RedirectStatus))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Start))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.End))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.MaxClicks))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.MonthClicks))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.ReadAt))
	b = routing.AppendText(b, t.LinkID)
	b = routing.AppendText(b, t.WorkspaceID)
	if t.Compiled != "" {
		b = routing.AppendText(b, t.Location)
		return append(b, t.Compiled...)
	}
	return append(b, t.Location...)
}

// scheduledEntry returns the entry of a link with pending changes: each state with the instant at
// which the next one begins, so that a redirect compares the time once for each state that has
// passed.
func scheduledEntry(s subject, states []scheduledTarget) entry {
	b := startOf(entryScheduled, s)
	for i, state := range states {
		until := int64(math.MaxInt64)
		if i+1 < len(states) {
			until = states[i+1].from.UnixMicro()
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(until))
		b = routing.AppendText(b, string(appendTarget(nil, &state.Target)))
	}
	return entry(b)
}

// scheduledTarget is a state of a link that begins at an instant; the first one has begun.
type scheduledTarget struct {
	Target
	from time.Time
}

// present returns the fields of the state that holds at an instant.
func present(r routing.FlatReader, now time.Time) routing.FlatReader {
	at := now.UnixMicro()
	for {
		until, fields := int64(r.Number(8)), r.Text()
		if at < until {
			return routing.FlatReader(fields)
		}
	}
}

// open returns the kind and the fields of an entry. It reports false if the entry has another
// subject with the same hash.
func (e entry) open(s subject) (kind byte, rest routing.FlatReader, ok bool) {
	if e == "" {
		return 0, "", false
	}
	rest = routing.FlatReader(e)
	kind = rest.Byte()
	return kind, rest, rest.Text() == s.space && rest.Text() == s.name
}

func readTarget(r routing.FlatReader) Target {
	var t Target
	flags := r.Byte()
	t.Deleted, t.Disabled = flags&isDeleted != 0, flags&isDisabled != 0
	t.RedirectStatus = int(r.Number(2))
	t.Start, t.End, t.MaxClicks = int64(r.Number(8)), int64(r.Number(8)), int64(r.Number(8))
	t.MonthClicks, t.ReadAt = int64(r.Number(8)), int64(r.Number(8))
	t.LinkID, t.WorkspaceID = r.Text(), r.Text()
	if flags&isRouted != 0 {
		t.Location, t.Compiled = r.Text(), routing.Compiled(r)
		return t
	}
	t.Location = string(r)
	return t
}

// entryWeight is the memory of an entry in addition to its bytes: the node and the table of the
// cache (measured).
const entryWeight = 112

func (e entry) weight() uint32 { return uint32(min(len(e)+entryWeight, math.MaxUint32)) }
