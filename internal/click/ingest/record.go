package ingest

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

// The types of records in the log. A number keeps its meaning forever, because a later version may
// read the log.
const (
	leaseRecord = 2
	clickRecord = 3
)

// Clicks of other times are damage: no clock is so wrong.
const firstYear, lastYear = 2000, 2200

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
		c.LinkID, c.WorkspaceID = r.text(), r.text()
		r.visit(c)
		if year := c.ClickedAt.Year(); year < firstYear || year > lastYear || math.IsNaN(c.LatencyMs) ||
			math.IsInf(c.LatencyMs, 0) || c.LinkID == "" || c.WorkspaceID == "" {
			r.failed = true
		}
		return c, nil, r.end()
	case leaseRecord:
		l := &hitquota.Lease{Number: r.varint(), Hits: r.varint(), LinkID: r.text()}
		var err error
		l.Month, err = click.ParseMonth(r.text())
		return nil, l, errors.Join(err, r.end())
	}
	return nil, nil, errRecord
}

// visit reads the visitor's properties.
func (r *reader) visit(c *click.Click) {
	c.Status, c.Visitor, c.Bot = int(r.uvarint()), int64(r.fixed()), r.byte() == 1
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
	if strings.IndexByte(text, 0) >= 0 { // no database takes it, and the batch would be tried for ever
		r.failed = true
	}
	return text
}

func (r *reader) end() error {
	if r.failed || len(r.rest) > 0 {
		return errRecord
	}
	return nil
}
