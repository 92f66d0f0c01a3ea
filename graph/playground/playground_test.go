package playground

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
)

func get(t *testing.T, h http.Handler, method string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "/playground", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func read(t *testing.T, res *http.Response) []byte {
	t.Helper()
	body := must.Value(io.ReadAll(res.Body))(t)
	return body
}

func unzip(t *testing.T, zipped []byte) []byte {
	t.Helper()
	zr := must.Value(gzip.NewReader(bytes.NewReader(zipped)))(t)
	plain := must.Value(io.ReadAll(zr))(t)
	return plain
}

func TestHandler_SetsHeaders(t *testing.T) {
	t.Parallel()
	res := get(t, Handler(), "GET", "Accept-Encoding", "gzip, br")
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
	want := map[string]string{
		"Content-Type":           "text/html; charset=utf-8",
		"Content-Encoding":       "gzip",
		"Cache-Control":          "no-cache",
		"Vary":                   "Accept-Encoding",
		"X-Content-Type-Options": "nosniff",
		"Referrer-Policy":        "no-referrer",
	}
	got := map[string]string{}
	for name := range want {
		got[name] = res.Header.Get(name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if etag := res.Header.Get("ETag"); !regexp.MustCompile(`^"[0-9a-f]{32}-gzip"$`).MatchString(etag) {
		t.Errorf("ETag %s is not a strong one", etag)
	}
}

func TestHandler_CompressesAssets(t *testing.T) {
	t.Parallel()
	h := Handler()
	zipped, plain := get(t, h, "GET", "Accept-Encoding", "gzip"), get(t, h, "GET")
	body := read(t, plain)
	if !bytes.Equal(unzip(t, read(t, zipped)), body) {
		t.Error("the two forms are not the same page")
	}
	if plain.Header.Get("Content-Encoding") != "" || !bytes.HasPrefix(body, []byte("<!doctype html>")) {
		t.Error("without Accept-Encoding the page is not plain HTML")
	}
	if zipped.ContentLength != int64(len(bundle)) || plain.ContentLength != int64(len(body)) {
		t.Errorf("lengths %d and %d, want %d and %d", zipped.ContentLength, plain.ContentLength, len(bundle), len(body))
	}
	if zipped.Header.Get("ETag") == plain.Header.Get("ETag") {
		t.Error("the two forms share an ETag")
	}
	post := get(t, h, "POST")
	if post.StatusCode != http.StatusMethodNotAllowed || post.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: status %d, Allow %q", post.StatusCode, post.Header.Get("Allow"))
	}
}

func TestHandler_AnswersNotModified(t *testing.T) {
	t.Parallel()
	h := Handler()
	for _, accept := range []string{"gzip", "identity"} { // which share no ETag
		etag := get(t, h, "GET", "Accept-Encoding", accept).Header.Get("ETag")
		for _, match := range []string{etag, `"other", ` + etag, "W/" + etag, "*"} {
			res := get(t, h, "GET", "Accept-Encoding", accept, "If-None-Match", match)
			if res.StatusCode != http.StatusNotModified || len(read(t, res)) != 0 {
				t.Errorf("%s, If-None-Match %s: status %d", accept, match, res.StatusCode)
			}
			if res.Header.Get("ETag") != etag || res.Header.Get("Content-Security-Policy") == "" {
				t.Errorf("%s: a 304 lacks its ETag or its policy", accept)
			}
		}
	}
}

func TestPolicy_NamesNoHost(t *testing.T) {
	t.Parallel()
	res := get(t, Handler(), "GET")
	page := read(t, res)
	policy := map[string][]string{}
	for directive := range strings.SplitSeq(res.Header.Get("Content-Security-Policy"), "; ") {
		words := strings.Fields(directive)
		policy[words[0]] = words[1:]
	}
	own := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllSubmatch(page, -1)
	if len(own) != 1 {
		t.Fatalf("the page has %d scripts of its own", len(own))
	}
	sum := sha256.Sum256(own[0][1])
	want := map[string][]string{
		"default-src":     {"'none'"},
		"script-src":      {"'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"},
		"style-src":       {"'unsafe-inline'"},
		"img-src":         {"'self'", "data:"},
		"font-src":        {"data:"},
		"connect-src":     {"'self'"},
		"worker-src":      {"blob:"},
		"base-uri":        {"'none'"},
		"form-action":     {"'none'"},
		"frame-ancestors": {"'none'"},
	}
	if diff := cmp.Diff(want, policy); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}

// TestAssets_IncludeLicences checks that NOTICE, which the build writes, belongs to this bundle: the page ends with it.
func TestAssets_IncludeLicences(t *testing.T) {
	t.Parallel()
	notice := must.Value(os.ReadFile("NOTICE"))(t)
	if !bytes.HasSuffix(unzip(t, bundle), []byte("<!--\n"+strings.TrimSpace(string(notice))+"\n-->\n")) {
		t.Error("NOTICE and the page were not built together")
	}
	for _, name := range []string{"graphiql ", "@graphiql/react ", "graphql ", "react-dom ", "monaco-editor ",
		"DOMPurify "} {
		if !bytes.Contains(notice, []byte("\n  "+name)) {
			t.Errorf("NOTICE does not list %s", name)
		}
	}
}
