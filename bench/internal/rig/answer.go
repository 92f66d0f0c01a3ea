package rig

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
)

var (
	endOfHead     = []byte("\r\n\r\n")
	endOfLine     = []byte("\r\n")
	contentLength = []byte("content-length:")
	chunked       = []byte("transfer-encoding: chunked")
	endOfChunks   = []byte("0\r\n\r\n")
)

// ParseAnswer tells the status of an answer, and whether all of it is there. Whatever comes after it is an error: nothing
// was asked for.
func ParseAnswer(b []byte) (status int, whole bool, err error) {
	head := bytes.Index(b, endOfHead)
	if head < 0 {
		return 0, false, nil
	}
	if len(b) < len("HTTP/1.1 302") || !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		return 0, false, fmt.Errorf("no answer of HTTP/1.1: %q", b[:min(len(b), 40)])
	}
	if status, err = strconv.Atoi(string(b[9:12])); err != nil {
		return 0, false, fmt.Errorf("no status: %q", b[:min(len(b), 40)])
	}
	rest := len(b) - head - len(endOfHead)
	length, err := bodyLength(b[:head])
	switch {
	case err != nil:
		return 0, false, err
	case length < 0: // in chunks, the last of which is empty
		return status, bytes.HasSuffix(b[head+len(endOfHead):], endOfChunks), nil
	case rest > length:
		return 0, false, errors.New("more came than was asked for")
	}
	return status, rest == length, nil
}

// Exchange sends a request and reads the answer into the buffer, of which it returns the body as it was sent: in chunks, maybe.
func Exchange(conn net.Conn, request, buffer []byte) (status int, body []byte, err error) {
	if _, err := conn.Write(request); err != nil {
		return 0, nil, err
	}
	for have := 0; have < len(buffer); {
		n, err := conn.Read(buffer[have:])
		if err != nil {
			return 0, nil, fmt.Errorf("within an answer: %w", err)
		}
		have += n
		status, whole, err := ParseAnswer(buffer[:have])
		if err != nil {
			return 0, nil, err
		}
		if whole {
			_, body, _ := bytes.Cut(buffer[:have], endOfHead)
			return status, body, nil
		}
	}
	return 0, nil, errors.New("an answer is longer than the load generator reads")
}

// bodyLength is what the head says of the body: its length, or -1 when it comes in chunks.
func bodyLength(head []byte) (int, error) {
	for len(head) > 0 {
		line := head
		if i := bytes.Index(head, endOfLine); i >= 0 {
			line, head = head[:i], head[i+len(endOfLine):]
		} else {
			head = nil
		}
		if len(line) > len(contentLength) && line[len(contentLength)-1] == ':' && bytes.EqualFold(line[:len(contentLength)], contentLength) {
			return strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):])))
		}
		if bytes.EqualFold(line, chunked) {
			return -1, nil
		}
	}
	return 0, errors.New("an answer says nothing of its length")
}
