package graph

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/maypok86/otter/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/errs"
)

const (
	// maxCached and maxCachedBytes bound the documents that are remembered as valid.
	maxCached      = 1000
	maxCachedBytes = 8 << 10
	// maxPersistedBytes bounds the documents that clients have named by their hash, and perEntry is what one takes beside its text.
	maxPersistedBytes = 16 << 20
	perEntry          = 256
)

// documents remembers valid documents, but no large ones: they could fill the memory. Those of the manifest stay.
type documents struct {
	graphql.Cache[*ast.QueryDocument]
	manifest *Manifest
}

func newDocuments(manifest *Manifest) documents {
	return documents{lru.New[*ast.QueryDocument](maxCached), manifest}
}

// Get implements graphql.Cache.
func (d documents) Get(ctx context.Context, text string) (*ast.QueryDocument, bool) {
	if d.manifest != nil {
		if doc := d.manifest.documents[text]; doc != nil {
			return doc, true
		}
	}
	return d.Cache.Get(ctx, text)
}

// Add implements graphql.Cache.
func (d documents) Add(ctx context.Context, text string, doc *ast.QueryDocument) {
	if len(text) <= maxCachedBytes {
		d.Cache.Add(ctx, text, doc)
	}
}

// Manifest is the documents that an operator has let the server know, by their ids.
type Manifest struct {
	texts     map[string]string
	documents map[string]*ast.QueryDocument // by text
}

// LoadManifest reads a file that is a JSON object of documents by id, as tools of clients write it. An id may stand for itself,
// or be the SHA-256 of its document in hexadecimal, with sha256: before it or without. Every document must be
// valid and within the bounds: the error names all those that are not, one a line.
func LoadManifest(file string, bounds config.Bounds, introspection bool) (*Manifest, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var listed map[string]string
	if err := unmarshal(content, &listed); err != nil {
		return nil, fmt.Errorf("%s must be a JSON object of documents by id: %w", file, err)
	}
	if len(listed) == 0 {
		return nil, fmt.Errorf("%s has no documents", file)
	}
	m := &Manifest{texts: map[string]string{}, documents: map[string]*ast.QueryDocument{}}
	limit := shapeLimit{Bounds: bounds, introspection: introspection}
	schema := gen.NewExecutableSchema(gen.Config{}).Schema()
	var problems []error
	for _, id := range slices.Sorted(maps.Keys(listed)) {
		if err := m.add(id, listed[id], limit, schema); err != nil {
			problems = append(problems, fmt.Errorf("%s: document %.100q: %w", file, id, err))
		}
	}
	return m, errors.Join(problems...)
}

func (m *Manifest) add(id, text string, limit shapeLimit, schema *ast.Schema) error {
	name, hash := strings.TrimPrefix(id, sha256Prefix), hashOf(text)
	if name != id && name != hash {
		return fmt.Errorf("the id says that its SHA-256 is another one than %s", hash)
	}
	if name == "" {
		return errors.New("the id is empty")
	}
	doc, problem := limit.parse(text)
	if problem == nil {
		problem, _ = limit.measure(doc)
	}
	if problem != nil {
		return problem
	}
	if invalid := validator.ValidateWithRules(schema, doc, rules.NewDefaultRules()); len(invalid) > 0 {
		return invalid[0]
	}
	if len(doc.Operations) == 0 {
		return errors.New("it has no operation")
	}
	for _, name := range []string{name, hash} {
		if other, taken := m.texts[name]; taken && other != text {
			return errors.New("another document has the id too")
		}
		m.texts[name] = text
	}
	m.documents[text] = doc
	return nil
}

// text finds a document by its id. A manifest that there is not has none.
func (m *Manifest) text(id string) (text string, ok bool) {
	if m == nil {
		return "", false
	}
	text, ok = m.texts[strings.TrimPrefix(id, sha256Prefix)]
	return text, ok
}

func (m *Manifest) allows(text string) bool { return m != nil && m.documents[text] != nil }

// persisted are documents that clients have sent once, with their hash, and name by it from then on
// (https://www.apollographql.com/docs/apollo-server/performance/apq). They are a cache: who names one that is not there
// sends it again. Those that are named often stay when there is no room for all.
type persisted struct {
	texts *otter.Cache[string, string] // by hash
}

func newPersisted(bytes uint64) persisted {
	return persisted{otter.Must(&otter.Options[string, string]{
		MaximumWeight: bytes,
		Weigher:       func(_, text string) uint32 { return uint32(len(text)) + perEntry },
	})}
}

const sha256Prefix = "sha256:"

// hashForm is how a hash is written.
var hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// name is how the request names its document, if it does: by an id, or by a hash in the extension. The latter is automatic.
func (p *params) name() (id string, automatic bool, err error) {
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
		return "", true, errs.New(errs.BadRequest, "The extension persistedQuery has a version, 1, and a sha256Hash, and there is no documentId beside it.")
	}
	if version.String() != "1" {
		return "", true, errNoPersistedQueries()
	}
	return sha256Prefix + hash, true, nil
}

// find is the document that a request is about. It is to be kept under its hash, if it is valid, when that is not empty.
// It returns BadRequest, DocumentUnknown, NoPersistedQueries and DocumentNotAllowed.
func (e *Endpoint) find(p *params) (text, hash string, err error) {
	id, automatic, err := p.name()
	if err != nil {
		return "", "", err
	}
	if id == "" && p.Query == "" {
		return "", "", errs.New(errs.BadRequest, "The request has no query: it must have one, or name a document by documentId or the extension persistedQuery.")
	}
	hash, hashed := strings.CutPrefix(id, sha256Prefix)
	if hashed && !hashForm.MatchString(hash) {
		return "", "", errs.New(errs.BadRequest, "A document's hash is its SHA-256 in 64 hexadecimal digits, in lower case.")
	}
	if p.Query == "" {
		text, err := e.named(id, automatic)
		return text, "", err
	}
	if id != "" && !hashed {
		return "", "", errs.New(errs.BadRequest, "The request has a query and a documentId: it may have one of them, unless the id is the query's hash after sha256:.")
	}
	if hashed && hash != hashOf(p.Query) {
		return "", "", errs.New(errs.BadRequest, "The hash is not that of the query: it must be the SHA-256 of its bytes as they are sent.")
	}
	if e.DocumentsOnly && !e.Documents.allows(p.Query) {
		return "", "", errs.New(errs.DocumentNotAllowed,
			"This server executes documents of its list only, and this is none of them. Have it added to the list, and name it by documentId.")
	}
	if e.DocumentsOnly || !hashed {
		return p.Query, "", nil
	}
	return p.Query, hash, nil
}

// named finds a document that the request only names.
func (e *Endpoint) named(id string, automatic bool) (text string, err error) {
	if text, ok := e.Documents.text(id); ok {
		return text, nil
	}
	hash, hashed := strings.CutPrefix(id, sha256Prefix)
	if hashed { // where only listed documents are executed, none is kept
		if text, ok := e.persisted.texts.GetIfPresent(hash); ok {
			return text, nil
		}
	}
	switch {
	case automatic && e.DocumentsOnly:
		return "", errNoPersistedQueries()
	case automatic:
		return "", errs.New(errs.DocumentUnknown, "PersistedQueryNotFound") // some clients go by these very words
	case hashed && !e.DocumentsOnly:
		return "", errs.New(errs.DocumentUnknown, "The server does not know the document: send it as query, together with its documentId.")
	}
	return "", errs.New(errs.DocumentUnknown, "There is no document of this id in the server's list. Have it added to the list.")
}

// errNoPersistedQueries has the words by which clients go. They send their documents from then on.
func errNoPersistedQueries() error {
	return errs.New(errs.NoPersistedQueries, "PersistedQueryNotSupported")
}
