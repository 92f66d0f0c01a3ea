package fastpath

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// maxFields is the largest number of fields of a plain request. It bounds the memory of a
// connection.
const maxFields = 40

// head is the present request of a connection. The next request reuses its memory; strings stay
// valid.
type head struct {
	request http.Request
	url     url.URL
	header  http.Header
	values  []string
}

// next returns the next request and the size of its head, without consuming it; nil if the request
// is not plain or not complete. The request is valid until the next call.
func (c *conn) next() (r *http.Request, size int) {
	ahead, _ := c.in.Peek(c.in.Buffered())
	size = plainHead(ahead)
	if size == 0 || !c.head.read(string(ahead[:size])) {
		return nil, 0
	}
	if c.address == "" {
		c.address = c.RemoteAddr().String()
	}
	c.head.request.RemoteAddr = c.address
	return &c.head.request, size
}

// plainHead returns the size of the head of a GET at the start of the text; 0 if the head is
// incomplete or ambiguous: lines must end in CRLF without continuation, and field names must be
// tokens.
func plainHead(text []byte) int {
	if !bytes.HasPrefix(text, []byte("GET /")) {
		return 0
	}
	inName := false
	for i, b := range text {
		switch {
		case b == '\n':
			if text[i-1] != '\r' {
				return 0
			}
			if bytes.HasPrefix(text[i+1:], []byte("\r\n")) {
				return i + 3
			}
			inName = true
		case b == '\r':
			if i+1 == len(text) || text[i+1] != '\n' {
				return 0
			}
		case b < ' ' || b > '~':
			return 0
		case inName && b == ':':
			inName = false
		case inName && !isPlainName(b):
			return 0
		}
	}
	return 0
}

func isPlainName(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_'
}

// isPlainText reports whether a text is not empty and has only characters of names and these
// others.
func isPlainText(text, others string) bool {
	for i := range len(text) {
		if !isPlainName(text[i]) && strings.IndexByte(others, text[i]) < 0 {
			return false
		}
	}
	return text != ""
}

// read parses a head. It reports false if the request has more than a head.
func (h *head) read(text string) bool {
	line, fields, _ := strings.Cut(text, "\r\n")
	target, version, _ := strings.Cut(line[len("GET "):], " ")
	if version != "HTTP/1.1" || !h.readTarget(target) || !h.readFields(fields) {
		return false
	}
	host := h.header["Host"]
	if len(host) != 1 || !isPlainText(host[0], ".:") || !isPlain(h.header) {
		return false
	}
	delete(h.header, "Host")
	h.request = http.Request{
		Method: http.MethodGet, URL: &h.url, RequestURI: target, Host: host[0],
		Proto: version, ProtoMajor: 1, ProtoMinor: 1, Header: h.header, Body: http.NoBody,
	}
	return true
}

// readTarget parses a path without percent-encoding. It does not parse the query.
func (h *head) readTarget(target string) bool {
	path, query, asked := strings.Cut(target, "?")
	if asked && query == "" {
		return false
	}
	h.url = url.URL{Path: path, RawQuery: query}
	return isPlainText(path, "/.~+")
}

// readFields parses the lines of fields, which end with an empty line.
func (h *head) readFields(lines string) bool {
	if h.header == nil {
		h.header = http.Header{}
	}
	clear(h.header)
	clear(h.values) // each references the text of its whole head
	h.values = h.values[:0]
	for lines != "\r\n" {
		var line string
		line, lines, _ = strings.Cut(lines, "\r\n")
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" || len(h.values) == maxFields {
			return false
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		h.values = append(h.values, strings.Trim(value, " "))
		if n := len(h.values); h.header[name] == nil {
			h.header[name] = h.values[n-1 : n : n]
		} else {
			h.header[name] = append(h.header[name], h.values[n-1])
		}
	}
	return true
}

// isPlain reports whether a request has no body, and no fields about the connection or with an
// obsolete name.
func isPlain(header http.Header) bool {
	for _, name := range [...]string{
		"Content-Length", "Transfer-Encoding", "Expect", "Upgrade", "Te", "Trailer", "Proxy-Connection",
		"Http2-Settings", "Pragma",
	} {
		if header[name] != nil {
			return false
		}
	}
	connection := header["Connection"]
	return len(connection) == 0 ||
		len(connection) == 1 && (connection[0] == "keep-alive" || connection[0] == "Keep-Alive")
}
