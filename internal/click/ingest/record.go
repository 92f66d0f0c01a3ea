package ingest

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

// The types of records in the log. A number keeps its meaning forever, because a later version may
// read the log.
const (
	leaseRecord = 2
	clickRecord = 3
)

// A value beyond these is damage: no clock is so wrong, no redirect takes so long, and no id or text
// of a visitor is longer, in bytes. A database that took a longer id could not index it, and one
// that took such a latency could not add later ones to the sum.
const (
	firstYear, lastYear = 2000, 2200
	maxLatencyMs        = 1e9
	maxStatus           = 999
	maxID, maxText      = 200, 4 << 10
)

var errRecord = errors.New("a record that is neither a click nor a lease")

// appendClick writes the record of a click.
func appendClick(b []byte, c *click.Click) []byte {
	b = append(b, clickRecord)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.ClickedAt.UnixMicro()))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.LatencyMs))
	b = binary.AppendVarint(b, c.HitLease)
	b = append(b, 0) // reserved
	b = click.AppendText(b, c.LinkID)
	b = click.AppendText(b, c.WorkspaceID)
	b = binary.AppendUvarint(b, uint64(c.Status))
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Visitor))
	if c.Bot {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return appendVisit(b, c)
}

// recordedTexts is how many texts each record of a click has. Those of dimensions that were added
// later follow up to the last one that is known, so a record without them has the same bytes as
// ever.
const recordedTexts = 11

func appendVisit(b []byte, c *click.Click) []byte {
	texts := click.VisitDimensions
	for len(texts) > recordedTexts && *texts[len(texts)-1].Text(c) == "" {
		texts = texts[:len(texts)-1]
	}
	for _, d := range texts {
		b = click.AppendText(b, *d.Text(c))
	}
	return b
}

// appendLease writes the record of a lease.
func appendLease(b []byte, l *hitquota.Lease) []byte {
	b = append(b, leaseRecord)
	b = binary.AppendVarint(b, l.Number)
	b = binary.AppendVarint(b, l.Hits)
	b = click.AppendText(b, l.LinkID)
	return click.AppendText(b, l.Month.String())
}

// parseRecord reads either of them; the other is nil.
func parseRecord(data []byte) (*click.Click, *hitquota.Lease, error) {
	r := reader{rest: data}
	switch r.byte() {
	case clickRecord:
		c := &click.Click{ClickedAt: time.UnixMicro(int64(r.fixed())).UTC(),
			LatencyMs: math.Float64frombits(r.fixed())}
		c.HitLease = r.varint()
		r.byte() // reserved
		c.LinkID, c.WorkspaceID = r.id(), r.id()
		r.visit(c)
		if year := c.ClickedAt.Year(); year < firstYear || year > lastYear ||
			!(math.Abs(c.LatencyMs) <= maxLatencyMs) { // NaN is not <= anything
			r.failed = true
		}
		return c, nil, r.end()
	case leaseRecord:
		l := &hitquota.Lease{Number: r.varint(), Hits: r.varint(), LinkID: r.id()}
		var err error
		l.Month, err = click.ParseMonth(r.text())
		return nil, l, errors.Join(err, r.end())
	}
	return nil, nil, errRecord
}

// visit reads the visitor's properties.
func (r *reader) visit(c *click.Click) {
	status := r.uvarint()
	c.Status, c.Visitor = int(min(status, maxStatus)), int64(r.fixed())
	bot := r.byte()
	if c.Bot = bot == 1; bot > 1 || status > maxStatus {
		r.failed = true
	}
	for i, d := range click.VisitDimensions {
		if i >= recordedTexts && len(r.rest) == 0 {
			return
		}
		text := r.text()
		if i >= recordedTexts && text == "" && len(r.rest) == 0 {
			r.failed = true // appendVisit omits empty texts at the end
		}
		*d.Text(c) = text
	}
}

// reader takes a record apart from its front. Once something is missing, all that follows is empty.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.failed, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) fixed() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		n = -1
	}
	r.take(n)
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		n = -1
	}
	r.take(n)
	return v
}

func (r *reader) text() string {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(len(r.rest)) {
		size, n = -1, 0
	}
	r.take(size)
	text := string(r.take(int(n)))
	// No database takes these, and the batch would be tried for ever.
	if len(text) > maxText || strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		r.failed = true
	}
	return text
}

// id reads a text that identifies something.
func (r *reader) id() string {
	id := r.text()
	if id == "" || len(id) > maxID {
		r.failed = true
	}
	return id
}

func (r *reader) end() error {
	if r.failed || len(r.rest) > 0 {
		return errRecord
	}
	return nil
}
