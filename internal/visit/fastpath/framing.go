package fastpath

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// framing remembers how the requests that net/http reads of a connection frame their bodies, which
// net/http does not report: it removes the fields. It looks at lines only, so the text of a body may
// count as a field: the connection is closed without need then.
type framing struct {
	// encoded means that a head had a Transfer-Encoding, ambiguous that it had a Content-Length too.
	encoded, ambiguous atomic.Bool

	line        [len("transfer-encoding:")]byte // the beginning of the present line
	size        int                             // of the present line
	hasEncoding bool                            // of the present head
	hasLength   bool
}

// read continues with bytes of the connection.
func (f *framing) read(text []byte) {
	for {
		end := bytes.IndexByte(text, '\n')
		rest := text
		if end >= 0 {
			rest = text[:end]
		}
		if f.size < len(f.line) {
			copy(f.line[f.size:], rest)
		}
		f.size += len(rest)
		if end < 0 {
			return
		}
		f.endLine()
		text = text[end+1:]
	}
}

// endLine evaluates a line. An empty one ends the head.
func (f *framing) endLine() {
	line := f.line[:min(f.size, len(f.line))]
	f.size = 0
	switch {
	case len(line) == 0 || len(line) == 1 && line[0] == '\r':
		f.hasEncoding, f.hasLength = false, false
	case hasName(line, "transfer-encoding:"):
		f.hasEncoding = true
		f.encoded.Store(true)
	case hasName(line, "content-length:"):
		f.hasLength = true
	}
	if f.hasEncoding && f.hasLength {
		f.ambiguous.Store(true)
	}
}

func hasName(line []byte, name string) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], []byte(name))
}

// connKey is the context key of a connection.
type connKey struct{}

// ConnContext is the ConnContext of the http.Server that serves a Listener. MustClose needs it.
func ConnContext(ctx context.Context, below net.Conn) context.Context {
	c, isPlain := below.(*conn) // the bytes of others are encrypted
	if !isPlain {
		return ctx
	}
	c.framing = &framing{}
	return context.WithValue(ctx, connKey{}, c.framing)
}

// MustClose reports whether the connection of a request to net/http has to be closed after the
// response, because another server may read its bytes as other requests: a head had a
// Transfer-Encoding besides a Content-Length, or over HTTP/1.0
// (https://www.rfc-editor.org/rfc/rfc9112#section-6.1). Of encrypted connections the fields are
// unknown: all requests count that may have had both.
func MustClose(r *http.Request) bool {
	if r.ProtoMajor != 1 {
		return false
	}
	f, isPlain := r.Context().Value(connKey{}).(*framing)
	if !isPlain {
		return len(r.TransferEncoding) > 0 || r.ProtoMinor == 0
	}
	return f.ambiguous.Load() || f.encoded.Load() && r.ProtoMinor == 0
}
