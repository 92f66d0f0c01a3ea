package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// say answers with a word.
func say(word string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, word) })
}

func internalError(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "Internal server error", http.StatusInternalServerError)
}

// serve answers one request, made by edit from a GET.
func serve(h http.Handler, target string, edit func(*http.Request)) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil)
	if edit != nil {
		edit(r)
	}
	h.ServeHTTP(w, r)
	return w
}

// lines returns the records of a JSON log.
func lines(t *testing.T, log *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for decoder := json.NewDecoder(bytes.NewReader(log.Bytes())); ; {
		var line map[string]any
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
}

func newLog(level slog.Level) (*bytes.Buffer, *slog.Logger) {
	var b bytes.Buffer
	return &b, slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: level}))
}

func TestChain_AppliesInOrder(t *testing.T) {
	t.Parallel()
	mark := func(word string) Middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, word+">")
				next.ServeHTTP(w, r)
			})
		}
	}
	if got := serve(Chain(say("x"), mark("a"), mark("b"), mark("c")), "/", nil).Body.String(); got != "a>b>c>x" {
		t.Errorf("passes %s", got)
	}
}

func TestRequestID_IsSetOnce(t *testing.T) {
	t.Parallel()
	for given, kept := range map[string]bool{
		"01234567":                             true,
		"AZaz09-_":                             true,
		strings.Repeat("a", 64):                true,
		"8f14e45f-ceea-467f-a0e6-7d1b1a2c3d4e": true,
		"":                                     false,
		"0123456":                              false,
		strings.Repeat("a", 65):                false,
		"with a space":                         false,
		"line\nbreak":                          false,
		"<script>alert(1)</script>":            false,
		"\"quoted\"":                           false,
		"ünïcödé-":                             false,
		"a;b=c,d/e":                            false,
	} {
		var seen string
		h := Before(NameRequest)(http.HandlerFunc(func(_ http.ResponseWriter,
			r *http.Request) {
			seen = r.Header.Get("X-Request-Id")
		}))
		answered := serve(h, "/", func(r *http.Request) { r.Header.Set("X-Request-Id", given) }).Header().
			Get("X-Request-Id")
		if !plain(answered) || seen != answered || kept != (answered == given) {
			t.Errorf("%q: the handler saw %q, the client %q; want it kept: %t", given, seen, answered, kept)
		}
	}
	first, second := serve(Before(NameRequest)(say("")), "/", nil), serve(Before(NameRequest)(say("")), "/", nil)
	if first.Header().Get("X-Request-Id") == second.Header().Get("X-Request-Id") {
		t.Error("two requests have one id")
	}
}

// TestLog_NamesNobody puts middleware and routes together as the server does.
func TestLog_NamesNobody(t *testing.T) {
	t.Parallel()
	buffer, log := newLog(slog.LevelDebug)
	tick := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { tick = tick.Add(time.Second); return tick }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{code}", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusGone) })
	h := Chain(mux, Before(NameRequest), Client, Log(log, now), Recover(log, internalError))
	serve(h, "/s3cr3tcode?token=hunter2", func(r *http.Request) {
		r.RemoteAddr = "203.0.113.77:4321"
		r.Header.Set("X-Request-Id", "request-1")
		r.Header.Set("User-Agent", "hunter2")
		r.Header.Set("Authorization", "Bearer hunter2")
		r.Header.Set("X-Forwarded-For", "203.0.113.77")
	})
	for _, private := range []string{"203.0.113", "hunter2", "s3cr3tcode", "example.com"} {
		if strings.Contains(buffer.String(), private) {
			t.Errorf("the log says %s: %s", private, buffer)
		}
	}
	want := []map[string]any{{
		"level": "DEBUG", "msg": "request", "method": "GET", "pattern": "GET /{code}", "status": 410.0,
		"duration": float64(time.Second), "request_id": "request-1",
	}}
	got := lines(t, buffer)
	for _, line := range got {
		delete(line, "time")
	}
	wanttest.Equal(t, want, got, "logged")
}

func TestLog_IsAtDebugLevel(t *testing.T) {
	t.Parallel()
	buffer, log := newLog(slog.LevelInfo)
	if got := serve(Log(log, time.Now)(say("hello")), "/", nil).Body.String(); got != "hello" || buffer.Len() > 0 {
		t.Errorf("answered %q, logged %s", got, buffer)
	}
}

func TestLog_UnwrapsWriter(t *testing.T) {
	t.Parallel()
	_, log := newLog(slog.LevelDebug)
	w := serve(Log(log, time.Now)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	})), "/", nil)
	if !w.Flushed {
		t.Error("nothing was flushed")
	}
}

func TestRecover_AnswersInternalError(t *testing.T) {
	t.Parallel()
	buffer, log := newLog(slog.LevelInfo)
	h := Before(NameRequest)(Recover(log, internalError)(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		panic("the password is hunter2")
	})))
	w := serve(h, "/", nil)
	if w.Code != http.StatusInternalServerError || w.Body.String() != "Internal server error\n" {
		t.Errorf("answered %d, %s", w.Code, w.Body)
	}
	logged := lines(t, buffer)
	if len(logged) != 1 || logged[0]["panic"] != "the password is hunter2" || !plain(logged[0]["request_id"].(string)) {
		t.Fatalf("logged %v", logged)
	}
	if stack := logged[0]["stack"].(string); !strings.Contains(stack, "TestRecover_AnswersInternalError") {
		t.Errorf("the stack does not lead to the panic: %s", stack)
	}
}

func TestRecover_PassesAbortThrough(t *testing.T) {
	t.Parallel()
	buffer, log := newLog(slog.LevelDebug)
	defer func() {
		if p := recover(); p != http.ErrAbortHandler || buffer.Len() > 0 {
			t.Errorf("panicked with %v, logged %s", p, buffer)
		}
	}()
	serve(Recover(log, internalError)(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })), "/",
		nil)
	t.Error("the abort was swallowed")
}

func TestRecover_CutsOffAStartedAnswer(t *testing.T) {
	t.Parallel()
	buffer, log := newLog(slog.LevelInfo)
	defer func() {
		if p := recover(); p != http.ErrAbortHandler || !strings.Contains(buffer.String(), "half way") {
			t.Errorf("panicked with %v, logged %s", p, buffer)
		}
	}()
	serve(Recover(log, internalError)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half an answer"))
		panic("half way")
	})), "/", nil)
	t.Error("half an answer passes for a whole one")
}

func TestNetworks_Parse(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"203.0.113.77:4321":           "203.0.113.77",
		"127.0.0.1:1":                 "127.0.0.1",
		"[2001:db8:1:2:3:4:5:6]:4321": "2001:db8:1:2::/64",
		"[::1]:4321":                  "::/64",
		"[::ffff:203.0.113.77]:4321":  "203.0.113.77",
		"[fe80::1%eth0]:4321":         "fe80::/64",
		"":                            "",
		"@":                           "",
		"203.0.113.77":                "",
		"example.com:4321":            "",
	} {
		if got := network(remote); got != want {
			t.Errorf("%q is of %q, want %q", remote, got, want)
		}
	}
}

func TestAddress_OfARequest(t *testing.T) {
	t.Parallel()
	var seen string
	h := Client(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = AddressOf(r.Context()) }))
	serve(h, "/", func(r *http.Request) {
		r.RemoteAddr = "203.0.113.77:4321"
		r.Header.Set("X-Forwarded-For", "198.51.100.1") // anyone can write that
	})
	if seen != "203.0.113.77" {
		t.Errorf("the request came from %q", seen)
	}
	if got := AddressOf(t.Context()); got != "" {
		t.Errorf("no request came from %q", got)
	}
}
