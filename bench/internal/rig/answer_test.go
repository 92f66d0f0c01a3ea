package rig

import "testing"

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		status       int
		whole, bad   bool
	}{
		{name: "empty"},
		{name: "half a head", answer: "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n"},
		{name: "no body", answer: "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", status: 302, whole: true},
		{name: "names in lower case", answer: "HTTP/1.1 302 Found\r\ncontent-length:0\r\n\r\n", status: 302, whole: true},
		{name: "half a body", answer: "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nno", status: 404},
		{name: "a body", answer: "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", status: 404, whole: true},
		{name: "half in chunks", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n", status: 200},
		{name: "in chunks", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\n\r\n", status: 200, whole: true},
		{name: "too much", answer: "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\nHTTP", bad: true},
		{name: "no length", answer: "HTTP/1.1 302 Found\r\nX-Content-Length: 0\r\n\r\n", bad: true},
		{name: "a bad length", answer: "HTTP/1.1 302 Found\r\nContent-Length: some\r\n\r\n", bad: true},
		{name: "no status", answer: "HTTP/1.1 Found it\r\nContent-Length: 0\r\n\r\n", bad: true},
		{name: "another protocol", answer: "+OK and more of it\r\n\r\n", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status, whole, err := ParseAnswer([]byte(c.answer))
			if (err != nil) != c.bad {
				t.Fatalf("error %v", err)
			}
			if err == nil && (status != c.status || whole != c.whole) {
				t.Errorf("status %d, whole %v; want %d, %v", status, whole, c.status, c.whole)
			}
		})
	}
}
