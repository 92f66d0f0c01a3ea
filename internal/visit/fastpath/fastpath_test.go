package fastpath

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// site answers paths of one segment with redirects and pages, and leaves the others to the rest of
// the site.
func site(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/abort":
		panic(http.ErrAbortHandler)
	case "/break":
		panic("broken")
	case "/bare":
		return true
	case "/page":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, "no page for %s %#v %s %s %d.%d %q %s %d %v %t %v %v", r.Method, *r.URL, r.RequestURI,
			r.Proto,
			r.ProtoMajor, r.ProtoMinor,
			r.Header, r.Host, r.ContentLength, r.TransferEncoding, r.Close, r.Trailer, r.Body == http.NoBody)
	case "/html":
		_, _ = io.WriteString(w, "<html>")
		_, _ = io.WriteString(w, strings.Repeat("long ", 200))
	case "/long":
		w.Header().Set("Content-Length", strconv.Itoa(3*keptBytes))
		_, _ = io.WriteString(w, strings.Repeat("!", 3*keptBytes))
	case "/twice":
		w.WriteHeader(http.StatusGone)
		w.WriteHeader(http.StatusOK)
	case "/inject":
		w.Header()["Location"] = []string{"/x\r\nX-Bad: 1"}
		w.Header()["Content-Length"] = []string{"0"}
		w.WriteHeader(http.StatusFound)
	default:
		if strings.Contains(r.URL.Path[1:], "/") {
			return false
		}
		w.Header()["Location"] = []string{"https://" + r.Host + r.URL.EscapedPath()}
		w.Header()["Content-Length"] = []string{"0"}
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	return true
}

// whole is the site as net/http serves it.
var whole = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if site(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "rest: "+r.Method+" "+r.Host+" "+string(body))
})

// sites serve the same handler behind net/http alone and behind a Listener, which counts its own
// responses.
type sites struct {
	alone, both string
	fast        atomic.Int64
}

func serveSites(t testing.TB) *sites {
	s := &sites{}
	quiet := slog.New(slog.DiscardHandler)
	start := func(wrap func(net.Listener) net.Listener) string {
		server := httptest.NewUnstartedServer(whole)
		server.Config.ErrorLog = slog.NewLogLogger(quiet.Handler(), slog.LevelDebug)
		server.Config.MaxHeaderBytes = 64 << 10
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetHTTP1(true)
		server.Listener = wrap(server.Listener)
		server.Start()
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	s.alone = start(func(l net.Listener) net.Listener { return l })
	s.both = start(func(l net.Listener) net.Listener {
		return Listen(l, func(w http.ResponseWriter, r *http.Request) bool {
			done := site(w, r)
			if done {
				s.fast.Add(1)
			}
			return done
		}, quiet)
	})
	return s
}

const end = "GET /rest/end HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"

var dates = regexp.MustCompile(`Date: [^\r]*\r\n`)

// exchange sends a text and returns all bytes that it receives until the connection ends.
func exchange(t testing.TB, address, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must.NoError(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	go func() { _, _ = io.WriteString(c, text) }() // a server that refuses it need not read all
	var all strings.Builder
	if _, err = io.Copy(&all, c); err != nil && errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("after %q: %v", all.String(), err)
	}
	return dates.ReplaceAllString(all.String(), "Date: now\r\n")
}

const host = "Host: a.example\r\n"

// requests are sent before an end, and say how many of them are plain.
var requests = []struct {
	text string
	fast int64
}{
	{"GET /abc HTTP/1.1\r\n" + host + "\r\n", 1},
	{"GET /abc?x=%20y HTTP/1.1\r\n" + host + "User-Agent: me\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n", 1},
	{"GET /page?q HTTP/1.1\r\n" + host + "User-Agent: you\r\nX-A: 1\r\nx-a: 2\r\n\r\n", 1},
	{"GET /html HTTP/1.1\r\n" + host + "\r\nGET /twice HTTP/1.1\r\n" + host + "\r\nGET /inject HTTP/1.1\r\n" + host +
		"\r\n", 3},
	{"GET /long HTTP/1.1\r\n" + host + "\r\nGET /long HTTP/1.1\r\n" + host + "\r\n", 2},
	{"GET /bare HTTP/1.1\r\n" + host + "\r\nGET /b%2fc HTTP/1.1\r\n" + host + "\r\n", 1},
	{"GET //c HTTP/1.1\r\n" + host + "\r\n", 0},
	{"GET /a HTTP/1.1\r\n" + host + "\r\nGET /rest/b HTTP/1.1\r\n" + host + "\r\nGET /c HTTP/1.1\r\n" + host + "\r\n",
		1},
	{"GET /a HTTP/1.1\r\n" + host + "\r\nPOST /rest/b HTTP/1.1\r\n" + host +
		"Content-Length: 3\r\n\r\nabcGET /c HTTP/1.1\r\n" + host + "\r\n", 1},
	{"HEAD /abc HTTP/1.1\r\n" + host + "\r\n", 0},
	{"POST /abc HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Content-Length: 0\r\nContent-Length: 4\r\n\r\nabcd", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Expect: 100-continue\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Expect: wonders\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: " +
		"AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n", 0},
	{"GET /abc HTTP/1.0\r\n" + host + "\r\n", 0},
	{"GET /abc HTTP/1.0\r\n" + host + "Connection: keep-alive\r\n\r\n", 0},
	{"GET /abc HTTP/2.0\r\n" + host + "\r\n", 0},
	{"GET /abc HTTP/1.1\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\nHost:\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Host: b.example\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\nHost: a/b\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\nHost: a b\r\n\r\n", 0},
	{"GET http://b.example/abc HTTP/1.1\r\n" + host + "\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "X: 1\r\n 2\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "X: \x01\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "X: \xe4\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "X\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "X y: 1\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "(x): 1\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + ": 1\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\n" + "Host: a.example\n\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "X: 1\r2\r\n\r\n", 0},
	{"GET /abc HTTP/1.1 \r\n" + host + "\r\n", 0},
	{"GET  /abc HTTP/1.1\r\n" + host + "\r\n", 0},
	{"GET /a bc HTTP/1.1\r\n" + host + "\r\n", 0},
	{"GET /%zz HTTP/1.1\r\n" + host + "\r\n", 0},
	{"GET /a#b HTTP/1.1\r\n" + host + "\r\n", 0},
	{"GET /a?b#c?d HTTP/1.1\r\n" + host + "\r\n", 1},
	{"GET /page? HTTP/1.1\r\n" + host + "\r\n", 0},
	{"GET /page?? HTTP/1.1\r\n" + host + "\r\n", 1},
	{"GET /a~b.c_d-e+ HTTP/1.1\r\n" + host + "\r\n", 1},
	{"GET /../abc HTTP/1.1\r\n" + host + "\r\n", 0},
	{"GET /page HTTP/1.1\r\n" + host + "X-A:  1  \r\nX-B: b\r\nX_a: 3\r\nX-a: 2 \r\nX-A:\r\n\r\n", 1},
	{"GET /page HTTP/1.1\r\nhOST: a.example:80 \r\nUSER-AGENT: \"me\"\r\n\r\nGET /page HTTP/1.1\r\n" + host + "\r\n",
		2},
	{"GET /abc HTTP/1.1\r\n" + host + "Pragma: no-cache\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "X: \t1\r\n\r\n", 0},
	{"GET /page HTTP/1.1\r\n" + host + strings.Repeat("A: b\r\n", maxFields-1) + "\r\n", 1},
	{"GET /page HTTP/1.1\r\n" + host + strings.Repeat("A: b\r\n", maxFields) + "\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Cookie: " + strings.Repeat("c", headBytes) + "\r\n\r\n", 0},
	{"GET /abc HTTP/1.1\r\n" + host + "Cookie: " + strings.Repeat("c", 80<<10) + "\r\n\r\n", 0},
	{"\r\nGET /abc HTTP/1.1\r\n" + host + "\r\n", 0},
	{"get /abc HTTP/1.1\r\n" + host + "\r\n", 0},
	{"\x16\x03\x01\x00\x00", 0},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0},
	{"", 0},
}

func TestServer_AnswersLikeNetHTTP(t *testing.T) {
	t.Parallel()
	s := serveSites(t)
	for _, r := range requests {
		before := s.fast.Load()
		if diff := cmp.Diff(exchange(t, s.alone, r.text+end), exchange(t, s.both, r.text+end)); diff != "" {
			t.Errorf("%q is answered differently (-net/http +here):\n%s", r.text, diff)
		}
		if got := s.fast.Load() - before; got != r.fast {
			t.Errorf("of %q %d were answered here, not %d", r.text, got, r.fast)
		}
	}
}

func FuzzAnswersAreThoseOfNetHTTP(f *testing.F) {
	for _, r := range requests {
		f.Add(r.text)
	}
	s := serveSites(f)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "/abort") || strings.Contains(text, "/break") { // connections end at different times
			t.Skip()
		}
		if diff := cmp.Diff(exchange(t, s.alone, text+end), exchange(t, s.both, text+end)); diff != "" {
			t.Errorf("%q is answered differently (-net/http +here):\n%s", text, diff)
		}
	})
}

func TestServer_PanicEndsOneConnection(t *testing.T) {
	t.Parallel()
	s := serveSites(t)
	for _, path := range []string{"/abort", "/break"} {
		if got := exchange(t, s.both, "GET "+path+" HTTP/1.1\r\n"+host+"\r\n"+end); got != "" {
			t.Errorf("%s: got %q", path, got)
		}
	}
	if got := exchange(t, s.both, end); !strings.Contains(got, "rest: GET") {
		t.Errorf("afterwards: got %q", got)
	}
}

// pipes is a listener whose connections are in memory, so that time can be the test's.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() (net.Conn, *bufio.Reader) {
	client, server := net.Pipe()
	p <- server
	return client, bufio.NewReader(client)
}

const plainRequest = "GET /abc HTTP/1.1\r\nHost: a.example\r\n\r\n"

// get sends a request on the connection. It returns the status, or 0 if the connection is closed.
func get(t *testing.T, c net.Conn, in *bufio.Reader) int {
	t.Helper()
	if _, err := io.WriteString(c, plainRequest); err != nil {
		return 0
	}
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0
	}
	_ = r.Body.Close()
	return r.StatusCode
}

func TestServer_ClosesIdleConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := make(pipes)
		l := Listen(below, site, slog.New(slog.DiscardHandler))
		silent, _ := below.dial()
		unread, _ := below.dial()
		slow, in := below.dial()
		began := time.Now()
		must.Value(io.WriteString(unread, plainRequest))(t)
		if _, err := silent.Read(make([]byte, 1)); err == nil || time.Since(began) != firstDeadline {
			t.Errorf("a connection without requests: %v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if got := get(t, slow, in); got != 0 {
			t.Errorf("a late request: got status %d, want a closed connection", got)
		}

		kept, in := below.dial()
		for range 20 { // it may be kept for as long as it is used
			if got := get(t, kept, in); got != http.StatusTemporaryRedirect {
				t.Fatalf("after %v: %d", time.Since(began), got)
			}
			time.Sleep(idleDeadline - moveEvery - time.Second)
		}
		time.Sleep(moveEvery + time.Second)
		synctest.Wait()
		if _, err := unread.Write([]byte("x")); err == nil {
			t.Error("who does not read was waited for")
		}
		if got := get(t, kept, in); got != 0 {
			t.Errorf("who was idle: %d", got)
		}
		_ = l.Close()
		if err := l.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdown_CompletesAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below, hold := make(pipes), make(chan struct{})
		l := Listen(below, func(w http.ResponseWriter, r *http.Request) bool {
			<-hold
			return site(w, r)
		}, slog.New(slog.DiscardHandler))
		idle, _ := below.dial()
		busy, in := below.dial()
		other, _ := below.dial()
		status := make(chan int)
		go func() { status <- get(t, busy, in) }()
		if _, err := io.WriteString(other, "POST / HTTP/1.1\r\n"); err != nil { // no caller accepts it
			t.Fatal(err)
		}
		synctest.Wait()
		_ = l.Close()
		if _, err := idle.Read(make([]byte, 1)); err == nil {
			t.Error("an idle connection stays open")
		}
		if _, err := other.Read(make([]byte, 1)); err == nil {
			t.Error("a connection that is not accepted stays open")
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait does not wait: %v", err)
		}
		close(hold)
		if got := <-status; got != 0 {
			t.Errorf("an answer came after the deadline: %d", got)
		}
		if err := l.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestIsBusy_CountsNewConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := make(pipes)
		l := Listen(below, site, slog.New(slog.DiscardHandler))
		began := time.Now()
		time.Sleep(time.Minute)
		_, _ = below.dial()
		synctest.Wait()
		if !l.IsBusy(began) {
			t.Error("a connection whose first request may be on its way is idle")
		}
		time.Sleep(time.Second)
		if l.IsBusy(time.Now().Add(-time.Second)) {
			t.Error("a connection without requests stays busy")
		}
		_ = l.Close()
		if err := l.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdown_WaitsForAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := make(pipes)
		l := Listen(below, func(w http.ResponseWriter, r *http.Request) bool {
			time.Sleep(time.Minute)
			return site(w, r)
		}, slog.New(slog.DiscardHandler))
		busy, in := below.dial()
		status := make(chan int)
		go func() { status <- get(t, busy, in) }()
		synctest.Wait()
		_ = l.Close()
		go func() { _ = l.Wait(t.Context()) }()
		if got := <-status; got != http.StatusTemporaryRedirect {
			t.Errorf("got %d", got)
		}
		if err := l.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got := get(t, busy, in); got != 0 {
			t.Errorf("after Close: %d", got)
		}
	})
}

// TestServer_ReusesOneHeadBuffer: what one request said is forgotten when the next one is read.
func TestServer_ReusesOneHeadBuffer(t *testing.T) {
	t.Parallel()
	var h head
	if !h.read("GET /a HTTP/1.1\r\n"+host+strings.Repeat("A: b\r\n", maxFields-1)+"\r\n") || !h.read(plainRequest) {
		t.Fatal("plain requests were not read")
	}
	for i, value := range h.values[:cap(h.values)] {
		if i > 0 && value != "" {
			t.Fatalf("value %d is still %q", i, value)
		}
	}
	if len(h.header) != 0 {
		t.Errorf("fields are still %q", h.header)
	}
}

// TestResponse_BodyMatchesContentLength: for any Content-Length that the handler sets. Otherwise
// the next response would begin inside the body.
func TestResponse_BodyMatchesContentLength(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"0", "1", "5"} {
		var w response
		w.reset()
		w.Header().Set("Content-Length", said)
		_, _ = io.WriteString(&w, "ab")
		if got := string(w.encode(time.Unix(0, 0))); strings.Count(got, "\nContent-Length: 2\r\n") != 1 ||
			!strings.HasSuffix(got, "\r\n\r\nab") {
			t.Errorf("of %s bytes: %q", said, got)
		}
	}
}
