package graph

import (
	"bytes"
	"compress/gzip"
	"net/http"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/web"
)

// leastZipped is the size from which an answer is compressed: a smaller one fits into a packet as it is.
const leastZipped = 1 << 10

// mayZip says that the answer may be compressed: its client takes gzip, and it is a query's.
//
// The length of a compressed answer tells whoever can watch it, and choose a part of it, something of the rest (BREACH). That
// takes many answers with the same secret beside the chosen words. Other sites cannot make a browser ask for any, since there
// are no cookies; and the secrets that this server tells, tokens, keys and signed URLs, are in the answers of mutations only,
// which are sent as they are. So are events, each of which is to arrive by itself.
func mayZip(r *http.Request, operation *graphql.OperationContext) bool {
	return operation != nil && operation.Operation != nil && operation.Operation.Operation == ast.Query &&
		web.AcceptsGzip(r.Header.Values("Accept-Encoding"))
}

// zip compresses an answer. It is made for one client and sent once, so speed goes before size.
func (e *Endpoint) zip(body []byte) []byte {
	var out bytes.Buffer
	writer, ok := e.zippers.Get().(*gzip.Writer)
	if !ok {
		writer, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // a level that there is
	}
	defer e.zippers.Put(writer)
	writer.Reset(&out)
	_, _ = writer.Write(body) // into memory, which does not fail
	_ = writer.Close()
	return out.Bytes()
}
