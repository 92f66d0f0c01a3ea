package transport

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/internal/platform/web"
)

// result is the response to an operation. Data is absent, not null, if nothing was executed.
type result struct {
	Errors     gqlerror.List   `json:"errors,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Extensions map[string]any  `json:"extensions,omitempty"`
}

func resultOf(r *graphql.Response) result {
	return result{Errors: r.Errors, Data: r.Data, Extensions: r.Extensions}
}

// refuse responds to a request that is not executed.
func (h *Handler) refuse(ctx context.Context, w http.ResponseWriter, media string, status int, err error) {
	observedIn(ctx).finished(nil, err)
	shown := h.present(context.WithoutCancel(ctx), err)
	if wait, ok := shown.Extensions["retryAfter"].(int); ok {
		w.Header().Set("Retry-After", strconv.Itoa(wait))
	}
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	h.write(w, media, status, result{Errors: gqlerror.List{shown}}, false)
}

func (h *Handler) write(w http.ResponseWriter, media string, status int, answer result, compressed bool) {
	body := mustMarshal(answer)
	head := w.Header()
	head.Set("Content-Type", media+"; charset=utf-8")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Add("Vary", "Accept, Accept-Encoding, Authorization")
	if compressed && len(body) >= minCompressedBytes {
		head.Set("Content-Encoding", "gzip")
		body = h.compress(body)
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

// mustMarshal encodes a result of the executor. It panics if the executor's own JSON is malformed.
func mustMarshal(value any) []byte {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return body
}

// minCompressedBytes is the size from which a response is compressed: a smaller one fits into a
// packet as it is.
const minCompressedBytes = 1 << 10

// acceptsCompressed reports whether a response may be compressed: the client accepts gzip, and the
// operation is a query.
//
// The length of a compressed response discloses the rest of it to an attacker who sees it and
// chooses a part (BREACH). That takes many responses that have the same secret and the chosen text.
// Other sites cannot make a browser request any, since there are no cookies; and secrets (tokens,
// keys, signed URLs) are only in the responses of mutations, which are not compressed. Events are
// not compressed either: each of them must arrive without delay.
func acceptsCompressed(r *http.Request, operation *graphql.OperationContext) bool {
	return isKind(operation, ast.Query) && web.AcceptsGzip(r.Header.Values("Accept-Encoding"))
}

// compress prefers speed to size: a response is for one client, and sent once.
func (h *Handler) compress(body []byte) []byte {
	var out bytes.Buffer
	writer, ok := h.gzipWriters.Get().(*gzip.Writer)
	if !ok {
		writer, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	}
	defer h.gzipWriters.Put(writer)
	writer.Reset(&out)
	_, _ = writer.Write(body) // a buffer does not fail
	_ = writer.Close()
	return out.Bytes()
}
