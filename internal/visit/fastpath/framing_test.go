package fastpath

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestMustClose_EndsAmbiguousConnections sends a request before another one, in one write and byte
// by byte. The connection stays open unless servers may differ on where the request ends.
func TestMustClose_EndsAmbiguousConnections(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if MustClose(r) {
			w.Header().Set("Connection", "close")
		}
		whole(w, r)
	}))
	server.Config.ConnContext = ConnContext
	server.Listener = Listen(server.Listener, site, slog.New(slog.DiscardHandler))
	server.Start()
	t.Cleanup(server.Close)
	const (
		chunks, encoded, length = "3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 3\r\n"
		keep                    = "Connection: keep-alive\r\n"
		read                    = "GET /abc HTTP/1.1\r\n" + host
		post, old               = "POST /rest/a HTTP/1.1\r\n" + host, "POST /rest/a HTTP/1.0\r\n" + host + keep
	)
	address := server.Listener.Addr().String()
	for name, c := range map[string]struct {
		text   string
		closes bool
	}{
		"chunks":                    {post + encoded + "\r\n" + chunks, false},
		"a length":                  {post + length + "\r\nabc", false},
		"both":                      {post + encoded + length + "\r\n" + chunks, true},
		"both, the length first":    {post + "Content-Length: 13\r\n" + encoded + "\r\n" + chunks, true},
		"both, in other case":       {post + "CONTENT-length:3\r\ntransfer-ENCODING:chunked\r\n\r\n" + chunks, true},
		"both, in lines without CR": {strings.ReplaceAll(post+encoded+length+"\r\n", "\r", "") + chunks, true},
		"both, far apart": {
			post + encoded + strings.Repeat("A: b HTTP/1.1\r\n", 99) + length + "\r\n" + chunks, true,
		},
		"both, in a redirect": {read + encoded + length + "\r\n" + chunks, true},
		"both, after plain ones": {
			read + "\r\n" + read + "\r\n" + post + encoded + length + "\r\n" + chunks, true,
		},
		"both, after a body":          {post + length + "\r\nabc" + post + encoded + length + "\r\n" + chunks, true},
		"chunks after a length":       {post + length + "\r\nabc" + post + encoded + "\r\n" + chunks, false},
		"HTTP/1.0":                    {old + "\r\n", false},
		"HTTP/1.0, a length":          {old + length + "\r\nabc", false},
		"HTTP/1.0, chunks":            {old + encoded + "\r\n", true},
		"HTTP/1.0, an unknown coding": {old + "Transfer-Encoding: x\r\n" + length + "\r\nabc", true},
		"HTTP/1.0, both":              {old + encoded + length + "\r\nabc", true},
		"HTTP/1.0, in a redirect":     {"GET /abc HTTP/1.0\r\n" + host + keep + encoded + "\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, got := range []string{
				exchange(t, address, c.text+end), trickle(t, address, c.text+end),
			} {
				if !strings.HasPrefix(got, "HTTP/1.") || strings.HasSuffix(got, "rest: GET a.example ") == c.closes {
					t.Errorf("closes is not %t:\n%s", c.closes, got)
				}
			}
		})
	}
}

// trickle is exchange with a write for each byte.
func trickle(t *testing.T, address, text string) string {
	t.Helper()
	c := must.Value(net.Dial("tcp", address))(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	go func() {
		for i := range len(text) {
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				return // the server need not read all
			}
		}
	}()
	all, _ := io.ReadAll(c) // a closed connection may be reset after the response
	return string(all)
}

// TestMustClose_OfEncryptedConnections has no bytes of the heads, and so counts all requests that
// may be ambiguous.
func TestMustClose_OfEncryptedConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request http.Request
		want    bool
	}{
		"HTTP/1.1": {http.Request{ProtoMajor: 1, ProtoMinor: 1}, false},
		"chunks":   {http.Request{ProtoMajor: 1, ProtoMinor: 1, TransferEncoding: []string{"chunked"}}, true},
		"HTTP/1.0": {http.Request{ProtoMajor: 1, ProtoMinor: 0}, true},
		"HTTP/2":   {http.Request{ProtoMajor: 2}, false},
	} {
		if got := MustClose(&c.request); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
