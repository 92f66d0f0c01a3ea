package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Gzipped answers GET and HEAD with a file of the program that is stored compressed, as most clients
// take it. The caller sets the headers that depend on what the file is for.
type Gzipped struct {
	contentType string
	gzipped     []byte
	// version and inflate work at the first request: most processes serve few of their files.
	version func() string
	inflate func() []byte
}

// NewGzipped returns the handler of a file. Plain panics if the file is no gzip: that is a broken
// build, which no test would have passed.
func NewGzipped(contentType string, gzipped []byte) *Gzipped {
	return &Gzipped{contentType: contentType, gzipped: gzipped,
		version: sync.OnceValue(func() string {
			sum := sha256.Sum256(gzipped)
			return hex.EncodeToString(sum[:16])
		}),
		inflate: sync.OnceValue(func() []byte { return inflate(gzipped) })}
}

// Plain returns what the file contains.
func (f *Gzipped) Plain() []byte { return f.inflate() }

func (f *Gzipped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "This page answers GET and HEAD.", http.StatusMethodNotAllowed)
		return
	}
	head := w.Header()
	head.Set("Content-Type", f.contentType)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Add("Vary", "Accept-Encoding")
	body := f.gzipped
	if AcceptsGzip(r.Header.Values("Accept-Encoding")) {
		head.Set("Content-Encoding", "gzip")
		head.Set("ETag", `"`+f.version()+`-gzip"`)
		// ServeContent leaves the length out of encoded answers.
		head.Set("Content-Length", strconv.Itoa(len(body)))
	} else {
		body = f.Plain()
		head.Set("ETag", `"`+f.version()+`"`)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

func inflate(gzipped []byte) []byte {
	zr, err := gzip.NewReader(bytes.NewReader(gzipped))
	if err != nil {
		panic(fmt.Sprintf("web: open a compressed file: %v", err))
	}
	plain, err := io.ReadAll(zr)
	if err != nil {
		panic(fmt.Sprintf("web: read a compressed file: %v", err))
	}
	return plain
}
