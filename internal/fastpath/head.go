package fastpath

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// mostFields is how many fields a plain request has: what a connection keeps for its next one is
// bounded by it.
const mostFields = 40

// head is the request that a connection has, of which there is one at a time: the next one takes
// its place in memory. Its texts stay what they are.
type head struct {
	request http.Request
	url     url.URL
	header  http.Header
	values  []string
}

// next is the request that comes next and the size of its head, without taking it off the
// connection; nil if it is not plain, or not there as a whole. It holds until next is called again.
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

// plainHead is the size of the head of a GET that the text begins with; 0 if it does not end there,
// or is written in a way that anybody might read differently: lines end in CRLF and are not
// continued, names of fields have no odd characters.
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

// isPlainText says that a text is not empty, and has nothing but what names have, and these others.
func isPlainText(text, others string) bool {
	for i := range len(text) {
		if !isPlainName(text[i]) && strings.IndexByte(others, text[i]) < 0 {
			return false
		}
	}
	return text != ""
}

// read understands the text of a head, and reports false if there is more to the request than that.
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

// readTarget understands a path in which nothing is escaped, and leaves the query to whoever wants
// it.
func (h *head) readTarget(target string) bool {
	path, query, asked := strings.Cut(target, "?")
	if asked && query == "" {
		return false
	}
	h.url = url.URL{Path: path, RawQuery: query}
	return isPlainText(path, "/.~+")
}

// readFields understands the lines of fields, the last of which is empty.
func (h *head) readFields(lines string) bool {
	if h.header == nil {
		h.header = http.Header{}
	}
	clear(h.header)
	clear(h.values) // each would keep the whole text of the head that it was a part of
	h.values = h.values[:0]
	for lines != "\r\n" {
		var line string
		line, lines, _ = strings.Cut(lines, "\r\n")
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" || len(h.values) == mostFields {
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

// isPlain says that there is nothing to a request but its head, and nothing in that about the
// connection, or with an older name.
func isPlain(header http.Header) bool {
	for _, name := range [...]string{
		"Content-Length", "Transfer-Encoding", "Expect", "Upgrade", "Te", "Trailer", "Proxy-Connection", "Http2-Settings",
		"Pragma",
	} {
		if header[name] != nil {
			return false
		}
	}
	connection := header["Connection"]
	return len(connection) == 0 || len(connection) == 1 && (connection[0] == "keep-alive" || connection[0] == "Keep-Alive")
}
