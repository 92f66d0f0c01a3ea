package console

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

func get(method, path string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Accept-Encoding", "identity")
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	var b strings.Builder
	must.NoError(t, res.Write(&b))
	return b.String()
}

// TestHandler_ServesThePageAndItsFiles: the page at each path, and the files that it names, which
// browsers keep.
func TestHandler_ServesThePageAndItsFiles(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/app", "/app/", "/app/own/links/lnk_1", "/app/index.html"} {
		res := get(http.MethodGet, path)
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
			res.Header.Get("Content-Security-Policy") != policy || res.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d, %v", path, res.StatusCode, res.Header)
		}
	}
	page := body(t, get(http.MethodGet, Path))
	named := regexp.MustCompile(`"(/app/assets/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(named) < 3 { // an icon, a script and a style
		t.Errorf("the page names %v", named)
	}
	for _, file := range named {
		res := get(http.MethodGet, file[1])
		if res.StatusCode != http.StatusOK || !strings.Contains(res.Header.Get("Cache-Control"), "immutable") ||
			res.Header.Get("Content-Type") == "" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %v", file[1], res.StatusCode, res.Header)
		}
	}
	for _, path := range []string{"/app/assets/old.js", "/app/assets/", "/app/assets/../index.html"} {
		if res := get(http.MethodGet, path); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	if res := get(http.MethodPost, Path); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", res.StatusCode)
	}
}

// TestPage_HasNothingInline: the policy would refuse it.
func TestPage_HasNothingInline(t *testing.T) {
	t.Parallel()
	page := body(t, get(http.MethodGet, Path))
	inline := regexp.MustCompile(`<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|https?://`)
	if found := inline.FindString(page); found != "" {
		t.Errorf("the page has %q", found)
	}
}

// TestBuild_IsSmall: scripts and styles, compressed.
func TestBuild_IsSmall(t *testing.T) {
	t.Parallel()
	sizes := map[string]int{}
	must.NoError(t, fs.WalkDir(dist, "dist", func(at string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			kind := at[strings.LastIndex(strings.TrimSuffix(at, ".gz"), ".")+1:]
			sizes[kind] += len(must.Value(dist.ReadFile(at))(t))
		}
		return err
	}))
	for kind, most := range map[string]int{"js.gz": 150_000, "css.gz": 20_000} {
		if sizes[kind] == 0 || sizes[kind] > most {
			t.Errorf("%d bytes of %s, want at most %d", sizes[kind], kind, most)
		}
	}
}
