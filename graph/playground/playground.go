// Package playground serves GraphiQL with a log-in form and example operations, as one page without
// external resources. The page is built from the folder ui. The server mounts the handler.
package playground

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/web"
)

//go:embed bundle.html.gz
var bundle []byte

// builtFor is the endpoint that the bundle names in endpointTag.
const builtFor = "/graphql"

const endpointTag = `<meta name="graphql-endpoint" content="%s">`

// Handler answers GET and HEAD with the playground, which sends its operations to endpoint, a path
// on the same host. It panics when endpoint is anything else.
func Handler(endpoint string) http.Handler {
	if !strings.HasPrefix(endpoint, "/") || strings.HasPrefix(endpoint, "//") {
		panic(fmt.Sprintf("playground: the endpoint %q is not a path", endpoint))
	}
	return &handler{
		load:    sync.OnceValue(func() *page { return load(endpoint) }),
		inflate: sync.OnceValue(func() []byte { return inflate(endpoint) }),
	}
}

// handler prepares its responses at the first request, because most processes never serve the
// playground.
type handler struct {
	load    func() *page
	inflate func() []byte
}

// page is the usual form of the playground.
type page struct {
	// gzipped is the embedded file itself, unless the endpoint is another.
	gzipped []byte
	// version is a hash of gzipped.
	version string
	// policy is the Content-Security-Policy.
	policy string
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The playground answers GET and HEAD.", http.StatusMethodNotAllowed)
		return
	}
	p := h.load()
	body, etag := p.gzipped, `"`+p.version+`-gzip"`
	zipped := web.AcceptsGzip(r.Header.Values("Accept-Encoding"))
	if !zipped {
		body, etag = h.inflate(), `"`+p.version+`"`
	}
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Security-Policy", p.policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-cache")
	head.Set("ETag", etag)
	head.Add("Vary", "Accept-Encoding")
	if zipped {
		head.Set("Content-Encoding", "gzip")
		// ServeContent leaves the length out of encoded answers.
		head.Set("Content-Length", strconv.Itoa(len(body)))
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

func load(endpoint string) *page {
	plain, gzipped := inflate(endpoint), bundle
	if endpoint != builtFor {
		gzipped = deflate(plain)
	}
	sum := sha256.Sum256(gzipped)
	return &page{gzipped: gzipped, version: hex.EncodeToString(sum[:16]), policy: policy(plain)}
}

// inflate returns the page as HTML that names endpoint. It panics when the embedded file is no
// gzip: that is a broken build, which no test would have passed.
func inflate(endpoint string) []byte {
	zr, err := gzip.NewReader(bytes.NewReader(bundle))
	if err != nil {
		panic(fmt.Sprintf("playground: open the bundle: %v", err))
	}
	plain, err := io.ReadAll(zr)
	if err != nil {
		panic(fmt.Sprintf("playground: read the bundle: %v", err))
	}
	was, is := fmt.Sprintf(endpointTag, builtFor), fmt.Sprintf(endpointTag, html.EscapeString(endpoint))
	return bytes.Replace(plain, []byte(was), []byte(is), 1)
}

func deflate(plain []byte) []byte {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, _ = zw.Write(plain) // A bytes.Buffer takes everything.
	_ = zw.Close()
	return b.Bytes()
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
