package transport

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// Manifest are the documents that a server knows by ID, or executes alone.
type Manifest struct {
	texts     map[string]string             // by ID and by hash
	documents map[string]*ast.QueryDocument // by text
}

// Documents is a list of documents by ID. An ID is any name, or the SHA-256 of its document in
// hexadecimal, with or without the prefix sha256:.
type Documents struct {
	Source string // what the list is called in errors
	Texts  map[string]string
}

// ReadDocuments reads a file with a JSON object of documents by ID, the format of client tools.
func ReadDocuments(file string) (Documents, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return Documents{}, err
	}
	if content = validate.WithoutMark(content); !validate.IsJSONText(content) {
		return Documents{}, fmt.Errorf("%s: %w", file, errEncoding("The file"))
	}
	d := Documents{Source: file}
	if err := unmarshal(content, &d.Texts); err != nil {
		return Documents{}, fmt.Errorf("%s must be a JSON object of documents by id: %w", file, err)
	}
	if len(d.Texts) == 0 {
		return Documents{}, fmt.Errorf("%s has no documents", file)
	}
	return d, nil
}

// NewManifest returns the manifest of some lists. Every document must be valid and within the
// limits. The error has all that are not, one per line.
func NewManifest(schema *ast.Schema, limits *limit.Document, lists ...Documents) (*Manifest, error) {
	m := &Manifest{texts: map[string]string{}, documents: map[string]*ast.QueryDocument{}}
	var problems []error
	for _, list := range lists {
		for _, id := range slices.Sorted(maps.Keys(list.Texts)) {
			if err := m.add(id, list.Texts[id], schema, limits); err != nil {
				problems = append(problems, fmt.Errorf("%s: document %.100q: %w", list.Source, id, err))
			}
		}
	}
	return m, errors.Join(problems...)
}

func (m *Manifest) add(id, text string, schema *ast.Schema, limits *limit.Document) error {
	name, hash := strings.TrimPrefix(id, sha256Prefix), hashOf(text)
	if name != id && name != hash {
		return fmt.Errorf("the id says that its SHA-256 is another one than %s", hash)
	}
	if name == "" {
		return errors.New("the id is empty")
	}
	if err := checkDocument(text); err != nil {
		return err
	}
	doc, problem := limits.Parse(text)
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

// text returns a document by its ID. A nil manifest has none.
func (m *Manifest) text(id string) (text string, ok bool) {
	if m == nil {
		return "", false
	}
	text, ok = m.texts[strings.TrimPrefix(id, sha256Prefix)]
	return text, ok
}

func (m *Manifest) allows(text string) bool { return m != nil && m.documents[text] != nil }
