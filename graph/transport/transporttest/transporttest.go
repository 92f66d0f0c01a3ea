// Package transporttest sends requests to the GraphQL endpoint, and reads its responses and its log.
package transporttest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Reply is the response to a request.
type Reply struct {
	Status int
	Header http.Header
	Text   string
	Data   json.RawMessage
	Errors []struct {
		Message    string
		Extensions struct{ Code string }
	}
}

// Codes are the codes of the top-level errors, joined.
func (r Reply) Codes() string {
	var codes []string
	for _, e := range r.Errors {
		codes = append(codes, e.Extensions.Code)
	}
	return strings.Join(codes, " ")
}

// Into reads the data of a response that must have no errors.
func (r Reply) Into(t testing.TB, target any) {
	t.Helper()
	if err := json.Unmarshal(r.Data, target); err != nil || len(r.Errors) > 0 {
		t.Fatalf("%s: %v", r.Text, err)
	}
}

// deadlines is a recorder that accepts deadlines, as a connection does: http.ResponseController
// finds its methods.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetReadDeadline(time.Time) error  { return nil }
func (deadlines) SetWriteDeadline(time.Time) error { return nil }

// Serve sends a request with headers that are given as name, value, name, value.
func Serve(
	t testing.TB, h http.Handler, method, target, body string, headers ...string,
) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(deadlines{w}, r)
	return w
}

// Send sends a request whose response is JSON. The token may be empty.
func Send(t testing.TB, h http.Handler, token, method, target, contentType, body, accept string) Reply {
	t.Helper()
	headers := []string{"Content-Type", contentType, "Accept", accept}
	if token != "" {
		headers = append(headers, "Authorization", "Bearer "+token)
	}
	w := Serve(t, h, method, target, body, headers...)
	got := Reply{Status: w.Code, Header: w.Header(), Text: w.Body.String()}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%d %s: %v", w.Code, got.Text, err)
	}
	return got
}

var times = regexp.MustCompile(`^time=\S+ level=INFO msg=operation | ?duration=\S+`)

// Operations returns the operations in a log, without times.
func Operations(log string) (all []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "msg=operation ") {
			all = append(all, strings.TrimSpace(times.ReplaceAllString(line, "")))
		}
	}
	return all
}
