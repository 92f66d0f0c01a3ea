package fastpath

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// response buffers a response until it is complete.
type response struct {
	header http.Header
	status int
	body   []byte
	out    bytes.Buffer
	names  []string
	second int64  // of date, since 1970
	date   []byte // the value of the Date field
}

// keptBytes is the largest buffer that a connection retains for its next response.
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

// encode returns the bytes of the response.
func (w *response) encode(now time.Time) []byte {
	w.WriteHeader(http.StatusOK)
	length, said := strconv.Itoa(len(w.body)), w.header["Content-Length"] != nil
	if said && w.header.Get("Content-Length") != length {
		w.header.Set("Content-Length", length) // the client would take the rest for the next response
	}
	w.out.WriteString("HTTP/1.1 ")
	w.out.Write(strconv.AppendInt(w.out.AvailableBuffer(), int64(w.status), 10))
	w.out.WriteString(" " + http.StatusText(w.status) + "\r\n")
	w.encodeHeader()
	if now.Unix() != w.second || len(w.date) == 0 {
		w.second, w.date = now.Unix(), now.UTC().AppendFormat(w.date[:0], http.TimeFormat)
	}
	w.out.WriteString("Date: ")
	w.out.Write(w.date)
	if !said {
		w.out.WriteString("\r\nContent-Length: " + length)
	}
	if len(w.body) > 0 && w.header["Content-Type"] == nil {
		w.out.WriteString("\r\nContent-Type: " + http.DetectContentType(w.body))
	}
	w.out.WriteString("\r\n\r\n")
	w.out.Write(w.body)
	return w.out.Bytes()
}

// encodeHeader writes the fields in the order of their names. Values with special characters are
// encoded by http.Header.
func (w *response) encodeHeader() {
	w.names = w.names[:0]
	for name, values := range w.header {
		if !isPlainField(name, values) {
			_ = w.header.Write(&w.out) // a buffer returns no error
			return
		}
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
	for _, name := range w.names {
		for _, value := range w.header[name] {
			w.out.WriteString(name)
			w.out.WriteString(": ")
			w.out.WriteString(value)
			w.out.WriteString("\r\n")
		}
	}
}

func isPlainField(name string, values []string) bool {
	for _, value := range values {
		if strings.HasPrefix(value, " ") || strings.HasSuffix(value, " ") {
			return false
		}
		for _, b := range []byte(value) {
			if b < ' ' {
				return false
			}
		}
	}
	return isPlainText(name, "")
}
