// Package playground serves GraphiQL with a log-in form and example operations, as one page without
// external resources. The page is built from the folder ui. The server mounts the handler.
package playground

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"

	"github.com/linkforge/linkforge/internal/platform/web"
)

//go:embed bundle.html.gz
var bundle []byte

// Handler answers GET and HEAD with the playground, which sends its operations to /graphql on the
// same host.
func Handler() http.Handler {
	page := web.NewGzipped("text/html; charset=utf-8", bundle)
	// at the first request, because most processes never serve the playground
	policy := sync.OnceValue(func() string { return policy(page.Plain()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy())
		w.Header().Set("Cache-Control", "no-cache")
		page.ServeHTTP(w, r)
	})
}

// policy lets the page run its own script, known by its hash, and talk to its own host. Nothing
// else may be loaded.
func policy(plain []byte) string {
	var hashes strings.Builder
	for _, source := range scripts(plain) {
		sum := sha256.Sum256(source)
		hashes.WriteString(" 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'")
	}
	return strings.Join([]string{
		"default-src 'none'",
		"script-src" + hashes.String(),
		// The editor positions lines by style attributes and creates style elements at run time.
		// Neither can have a hash or a nonce.
		"style-src 'unsafe-inline'",
		"img-src 'self' data:",
		"font-src data:",
		"connect-src 'self'",
		// The editor's workers are started from text within the page.
		"worker-src blob:",
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
	}, "; ")
}

// scripts returns what stands in the elements that a browser runs; the workers' sources have a
// type, and are data to it. The build lets neither tag occur within a script.
func scripts(plain []byte) [][]byte {
	var sources [][]byte
	for {
		_, rest, found := bytes.Cut(plain, []byte("<script>"))
		if !found {
			return sources
		}
		source, rest, _ := bytes.Cut(rest, []byte("</script>"))
		sources, plain = append(sources, source), rest
	}
}
