// Package console is what people use the product with: a single-page application on the public API
// alone, built from the folder ui into dist. The server mounts the handler at Path.
package console

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/web"
)

// Path is where the application is: its page for each path below, and its files in Path/assets/.
const Path = "/app"

//go:embed dist
var dist embed.FS

// policy lets the page run the scripts and styles of its own host, and talk to it. Nothing else is
// loaded, and no text becomes markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; frame-ancestors 'none'; form-action 'self'; require-trusted-types-for 'script'"

// types are the types of the files that a build has, independent of the machine's.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// Handler answers GET and HEAD. A file of the application is found by a name that its content
// determines, and stays the same forever.
func Handler() http.Handler {
	files := load()
	page := files["index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, Path), "/")
		if !strings.HasPrefix(name, "assets/") {
			w.Header().Set("Cache-Control", "no-cache")
			page.ServeHTTP(w, r)
			return
		}
		file, ok := files[name]
		if !ok { // of an earlier build
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		file.ServeHTTP(w, r)
	})
}

// Documents returns what the application sends, by names that begin with console/. It panics if dist
// is broken.
func Documents() map[string]string {
	var documents map[string]string
	if err := json.Unmarshal(load()["documents.json"].Plain(), &documents); err != nil {
		panic("console: " + err.Error())
	}
	return documents
}

// load returns the files of the application by their paths in dist, without the suffix of gzip. It
// panics if dist is broken, which no test would have passed.
func load() map[string]*web.Gzipped {
	files := map[string]*web.Gzipped{}
	err := fs.WalkDir(dist, "dist", func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		gzipped, err := dist.ReadFile(at)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(at, "dist/"), ".gz")
		files[name] = web.NewGzipped(types[path.Ext(name)], gzipped)
		return nil
	})
	if err != nil {
		panic("console: " + err.Error())
	}
	return files
}
