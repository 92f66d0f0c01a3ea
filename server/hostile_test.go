package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/console"
	"github.com/linkforge/linkforge/internal/platform/must"
)

const (
	// marker stands in hostile input wherever a value can: no answer repeats it, and no log.
	marker = "mArKeR7f3a9c"
	// quick is how soon hostile input is answered, at the latest, on a busy machine.
	quick = 10 * time.Second
)

// harmless checks what holds of every answer.
func harmless(t *testing.T, a answer, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > quick {
		t.Errorf("answered after %s", took)
	}
	if a.status >= 500 || strings.Contains(a.body, `"code":"INTERNAL"`) {
		t.Errorf("status %d: %.500s", a.status, a.body)
	}
	for _, leak := range []string{marker, "goroutine ", ".go:", "runtime error", "SQLSTATE", "sqlite", "pgx"} {
		if strings.Contains(a.body, leak) {
			t.Errorf("the answer holds %q: %.500s", leak, a.body)
		}
		for name, values := range a.header {
			if strings.Contains(strings.Join(values, " "), leak) {
				t.Errorf("the header %s holds %q: %.500s", name, leak, values)
			}
		}
	}
}

// TestServer_SurvivesHostileInput sends one server everything that is wrong with HTTP, and one of each kind that is
// wrong with GraphQL. It must be alive at the end, and have logged nothing of it.
func TestServer_SurvivesHostileInput(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t), "LINKFORGE_LOG_LEVEL=debug")
	who := s.tenant(t, "victim")
	for name, c := range map[string]struct {
		body, authorization string
		status              int
	}{
		"broken JSON": {`{"query": "` + marker, "Bearer " + who.token, http.StatusBadRequest},
		"an argument": {`{"query": "{ node(id: {a: \"` + marker + `\"}) { id } }"}`, "Bearer " + who.token,
			http.StatusBadRequest},
		"a document": {`{"query": "{ ` + strings.Repeat(marker+" ", 50_000) + `}"}`, "Bearer " + who.token,
			http.StatusBadRequest},
		"a token":   {`{"query": "{ me { id } }"}`, "Bearer " + marker, http.StatusUnauthorized},
		"no scheme": {`{"query": "{ me { id } }"}`, who.token, http.StatusUnauthorized},
	} {
		began := time.Now()
		a := must.Value(client{server: s}.post([]byte(c.body), "Authorization", c.authorization))(t)
		harmless(t, a, began)
		wantStatus(t, name, a, c.status)
	}
	hostilePaths(t, s)

	select {
	case <-s.exited:
		t.Fatal("the server has ended")
	default:
	}
	who.shorten(t, "https://example.com/alive")
	said := content(t, s.err)
	for _, secret := range []string{marker, who.token, who.password, jwtSecret, codeSecret, "evil.com"} {
		if strings.Contains(said, secret) {
			t.Errorf("the log holds %q:\n%.5000s", secret, said)
		}
	}
}

// raw sends a request as it is written, which no client would.
func (s *server) raw(t *testing.T, request string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	must.NoError(t, err)
	defer conn.Close()
	must.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	must.Value(io.WriteString(conn, request))(t)
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if errors.Is(err, syscall.ECONNRESET) { // the server may close the connection on invalid HTTP
		return answer{status: http.StatusBadRequest}
	}
	must.NoError(t, err)
	defer response.Body.Close()
	if response.Close { // net/http has removed the field
		response.Header.Set("Connection", "close")
	}
	body, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// hostilePaths requests invalid short URLs, names invalid hosts, and sends what is no HTTP. None redirects to another
// server.
func hostilePaths(t *testing.T, s *server) {
	ask := func(name, request string) answer {
		t.Helper()
		began := time.Now()
		a := s.raw(t, request)
		shown := a.header.Get("Location")
		if a.header.Del("Location"); shown != "" && (shown[0] != '/' || strings.HasPrefix(shown, "//") ||
			strings.ContainsAny(shown, `\`) || strings.Contains(shown, "evil")) {
			t.Errorf("%.100s leads to %q", name, shown)
		}
		harmless(t, answer{a.status, a.header, strings.ReplaceAll(a.body, shown, "")}, began)
		if a.header.Get("Set-Cookie") != "" || strings.Contains(a.body, "<script>") {
			t.Errorf("%.100s: %v %.300s", name, a.header, a.body)
		}
		return a
	}
	for _, path := range []string{
		"/%00", "/%ff", "/%0d%0aSet-Cookie:x", "/..%2f..%2fetc%2fpasswd", "//evil.com", "/%2f%2fevil.com",
		"/%5c%5cevil.com", `/\evil.com`, "/a//evil.com", "/graphql/", "/victim/", "/" + strings.Repeat("x", 10_000),
		"/" + strings.Repeat("%41/", 3000), "/'%20OR%201=1%20--", "/<script>" + marker, "/%3Cscript%3E" + marker,
		"/livez/", "/?" + marker, "/abc;x=" + marker, "http://evil.com/abc", "*",
	} {
		a := ask(path, "GET "+path+" HTTP/1.1\r\nHost: "+s.address+"\r\nAccept: text/html\r\nConnection: close\r\n\r\n")
		isConsole := strings.Contains(a.body, `href="`+console.Path+`"`) // to which / leads browsers
		if a.status < 300 || a.status == http.StatusFound && !isConsole {
			t.Errorf("%.100s: status %d: %.300s", path, a.status, a.body)
		}
	}
	for _, host := range []string{
		"evil.com", "<script>" + marker, marker + "@evil.com", "", strings.Repeat("x", 5000), "evil.com/" + marker,
		"\xff\xfe", "evil.com:99999",
	} {
		for _, path := range []string{"/", "/nosuchcode", "/playground", "//double"} {
			a := ask(host+path, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
			if strings.Contains(a.body, "evil.com") {
				t.Errorf("Host %.100s is in the answer to %s: %.300s", host, path, a.body)
			}
		}
	}
	for _, request := range []string{
		marker, "GET / HTTP/1.1", "POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6",
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat(marker, 10_000),
		"CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\nConnection: close",
		"TRACE / HTTP/1.1\r\nHost: x\r\nX-Secret: " + marker + "\r\nConnection: close",
		"GET /nosuchcode HTTP/1.1\r\nHost: x\r\nX-Request-Id: <" + marker + ">\r\nConnection: close",
	} {
		if a := ask(request, request+"\r\n\r\n"); a.status < 400 {
			t.Errorf("%.100s: status %d: %.300s", request, a.status, a.body)
		}
	}
}
