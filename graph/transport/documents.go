package transport

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/maypok86/otter/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/memo"
)

const (
	// maxValidDocuments and maxValidBytes bound the cache of valid documents, and the size of each.
	maxValidDocuments = 1000
	maxValidBytes     = 8 << 10
	// maxPersistedBytes bounds the persisted documents, and entryBytes is the memory of one in
	// addition to its text.
	maxPersistedBytes = 16 << 20
	entryBytes        = 256
)

// validDocuments are the valid documents by their text: those of the manifest, and a cache of
// others. Large documents, which could fill the memory, are not cached.
type validDocuments struct {
	graphql.Cache[*ast.QueryDocument]
	manifest *Manifest
}

func (d validDocuments) Get(ctx context.Context, text string) (*ast.QueryDocument, bool) {
	if d.manifest != nil {
		if doc := d.manifest.documents[text]; doc != nil {
			return doc, true
		}
	}
	return d.Cache.Get(ctx, text)
}

func (d validDocuments) Add(ctx context.Context, text string, doc *ast.QueryDocument) {
	if len(text) <= maxValidBytes {
		d.Cache.Add(ctx, text, doc)
	}
}

// persisted are documents that clients sent once with their hash, and name by the hash from then on
// (https://www.apollographql.com/docs/apollo-server/performance/apq). They are a cache that prefers
// frequent documents: a client sends a missing document again.
type persisted = memo.Cache[string, string] // texts by hash

func newPersisted(bytes uint64) persisted {
	return memo.New(&otter.Options[string, string]{
		MaximumWeight: bytes,
		Weigher:       func(_, text string) uint32 { return uint32(len(text)) + entryBytes },
	})
}

const sha256Prefix = "sha256:"

// hashForm is the form of a hash.
var hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// documentID returns the ID of the document that a request names, if any. It is automatic if it
// comes from the extension persistedQuery.
func (p *params) documentID() (id string, automatic bool, err error) {
	value := p.Extensions["persistedQuery"]
	if value == nil {
		return p.DocumentID, false, nil
	}
	var version json.Number
	var hash string
	written, err := json.Marshal(value)
	if err == nil {
		err = unmarshalObject(written, map[string]any{"version": &version, "sha256Hash": &hash})
	}
	if err != nil || p.DocumentID != "" {
		return "", true, errs.New(errs.BadRequest,
			"The extension persistedQuery has a version, 1, and a sha256Hash, and there is no documentId beside it.")
	}
	if version.String() != "1" {
		return "", true, errNoPersistedQueries()
	}
	return sha256Prefix + hash, true, nil
}

// document returns the text of a request's document. If hash is not empty, a valid document is
// persisted under it. It returns BadRequest, DocumentUnknown, NoPersistedQueries and
// DocumentNotAllowed.
func (h *Handler) document(p *params) (text, hash string, err error) {
	id, automatic, err := p.documentID()
	if err != nil {
		return "", "", err
	}
	if id == "" && p.Query == "" {
		return "", "", errs.New(errs.BadRequest, "The request has no query: it must have one, or name a document by "+
			"documentId or the extension persistedQuery.").At("query")
	}
	hash, hashed := strings.CutPrefix(id, sha256Prefix)
	if hashed && !hashForm.MatchString(hash) {
		return "", "", errs.New(errs.BadRequest,
			"A document's hash is its SHA-256 in 64 hexadecimal digits, in lower case.").At("documentId")
	}
	if p.Query == "" {
		text, err := h.namedDocument(id, automatic)
		return text, "", err
	}
	if id != "" && !hashed {
		return "", "", errs.New(errs.BadRequest, "The request has a query and a documentId: it may have one of them, "+
			"unless the id is the query's hash after sha256:.").At("documentId")
	}
	if hashed && hash != hashOf(p.Query) {
		return "", "", errs.New(errs.BadRequest,
			"The hash is not that of the query: it must be the SHA-256 of its bytes as they are sent.").At("documentId")
	}
	if h.config.DocumentsOnly && !h.config.Documents.allows(p.Query) {
		return "", "", errs.New(errs.DocumentNotAllowed,
			"This server executes documents of its list only, and this is "+
				"none of them. Have it added to the list, and name it by documentId.")
	}
	if h.config.DocumentsOnly || !hashed {
		return p.Query, "", nil
	}
	return p.Query, hash, nil
}

// namedDocument returns the text of a document that the request only names.
func (h *Handler) namedDocument(id string, automatic bool) (text string, err error) {
	if text, ok := h.config.Documents.text(id); ok {
		return text, nil
	}
	hash, hashed := strings.CutPrefix(id, sha256Prefix)
	if hashed { // none is persisted with DocumentsOnly
		if text, ok := h.persisted.GetIfPresent(hash); ok {
			return text, nil
		}
	}
	switch {
	case automatic && h.config.DocumentsOnly:
		return "", errNoPersistedQueries()
	case automatic:
		return "", errs.New(errs.DocumentUnknown, "PersistedQueryNotFound") // some clients compare the message
	case hashed && !h.config.DocumentsOnly:
		return "", errs.New(errs.DocumentUnknown,
			"The server does not know the document: send it as query, together with its documentId.")
	}
	return "", errs.New(errs.DocumentUnknown,
		"There is no document of this id in the server's list. Have it added to the list.")
}

// errNoPersistedQueries has the message that clients compare. They send whole documents from then
// on.
func errNoPersistedQueries() error {
	return errs.New(errs.NoPersistedQueries, "PersistedQueryNotSupported")
}
