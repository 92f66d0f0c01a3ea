package fastpath

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// response is an answer, in memory until it is whole.
type response struct {
	header http.Header
	status int
	body   []byte
	out    bytes.Buffer
}

// keptBytes is how much memory a connection keeps for its next answer.
const keptBytes = 4 << 10

func (w *response) reset() {
	if w.header == nil {
		w.header = http.Header{}
	}
	clear(w.header)
	w.status = 0
	w.body = w.body[:0]
	if w.out.Reset(); w.out.Cap() > keptBytes || cap(w.body) > keptBytes {
		w.out, w.body = bytes.Buffer{}, nil
	}
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, b...)
	return len(b), nil
}

// encode is the answer as it goes over the wire.
func (w *response) encode(now time.Time) []byte {
	w.WriteHeader(http.StatusOK)
	w.out.WriteString("HTTP/1.1 ")
	w.out.Write(strconv.AppendInt(w.out.AvailableBuffer(), int64(w.status), 10))
	w.out.WriteString(" " + http.StatusText(w.status) + "\r\n")
	_ = w.header.Write(&w.out) // memory takes everything
	w.out.WriteString("Date: ")
	w.out.Write(now.UTC().AppendFormat(w.out.AvailableBuffer(), http.TimeFormat))
	if w.header["Content-Length"] == nil {
		w.out.WriteString("\r\nContent-Length: ")
		w.out.Write(strconv.AppendInt(w.out.AvailableBuffer(), int64(len(w.body)), 10))
	}
	if len(w.body) > 0 && w.header["Content-Type"] == nil {
		w.out.WriteString("\r\nContent-Type: " + http.DetectContentType(w.body))
	}
	w.out.WriteString("\r\n\r\n")
	w.out.Write(w.body)
	return w.out.Bytes()
}
