package limit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Document refuses documents that are too long, or whose fragments expand too far, before anything
// walks them: validation takes time that grows with the square of the fields in one place, and
// follows every spread.
type Document struct {
	config.Bounds
	Maxima
	// Valid are documents that have been measured and validated before; may be nil.
	Valid graphql.Cache[*ast.QueryDocument]
	// Introspection allows questions about the schema.
	Introspection bool
	// Passwords describes the fields that hash a password.
	Passwords Passwords

	passwordCall *regexp.Regexp
}

// Maxima bound the shape of a request; all but Values and Tokens are counted with fragments spread.
// They are no settings: the cost bounds the work of an operation, and larger shapes are slow to
// validate.
type Maxima struct {
	// Values are those in the JSON of a request, Tokens those of a document.
	Values, Tokens int
	// Fields are those of an operation, RootFields those at its root, Depth their levels.
	Fields, RootFields, Depth int
	// Repeats are occurrences of a response name in one selection set.
	Repeats int
	// Fragments are spreads, including inline fragments.
	Fragments int
	// Aliases and Directives are those of an operation.
	Aliases, Directives int
}

// The maxima that are no settings. A document with maxFields fields has up to maxTokens tokens.
const (
	maxValues     = 100000
	maxTokens     = 2000
	maxFields     = 1000
	maxRootFields = 100
	maxDepth      = 20
	maxRepeated   = 100
	maxFragments  = 500
	maxAliases    = 100
	maxDirectives = 50
)

// UsualMaxima returns the maxima of every server.
func UsualMaxima() Maxima {
	return Maxima{
		Values: maxValues, Tokens: maxTokens, Fields: maxFields, RootFields: maxRootFields, Depth: maxDepth,
		Repeats: maxRepeated, Fragments: maxFragments, Aliases: maxAliases, Directives: maxDirectives,
	}
}

// maxPasswords bounds the fields of an operation that hash a password.
const maxPasswords = 1

// Passwords are the root fields that hash a password, which costs as much as a thousand other
// fields.
type Passwords struct {
	Fields []string
	// Charge counts the attempts of an operation that is refused because it has several. May be nil
	// without Fields.
	Charge func(ctx context.Context, attempts int)
}

func (*Document) ExtensionName() string { return "DocumentLimit" }

func (l *Document) Validate(graphql.ExecutableSchema) error {
	if len(l.Passwords.Fields) > 0 {
		l.passwordCall = regexp.MustCompile(`\b(?:` + strings.Join(l.Passwords.Fields, "|") + `)\s*\(`)
	}
	return nil
}

func (l *Document) MutateOperationParameters(ctx context.Context, p *graphql.RawParams) *gqlerror.Error {
	doc, measured := l.Valid.Get(ctx, p.Query)
	if !measured {
		var problem *gqlerror.Error
		if doc, problem = l.parse(p.Query); problem != nil {
			l.chargeUnparsed(ctx, p.Query)
			return problem
		}
	}
	switch {
	case p.OperationName != "" && doc.Operations.ForName(p.OperationName) == nil:
		return Refusal(errs.BadRequest, "The document has no operation of the name that operationName gives.")
	case p.OperationName == "" && len(doc.Operations) > 1 && doc.Operations.ForName("") == nil: // else it is invalid
		return Refusal(errs.BadRequest,
			"The document has several operations: name the one to execute by operationName.")
	}
	if measured {
		return nil
	}
	problem, attempts := l.measure(doc)
	if attempts > maxPasswords {
		l.Passwords.Charge(ctx, attempts)
	}
	return problem
}

// chargeUnparsed charges the passwords of a document that cannot be parsed like those of one that
// is refused.
func (l *Document) chargeUnparsed(ctx context.Context, text string) {
	if l.passwordCall == nil {
		return
	}
	if n := len(l.passwordCall.FindAllStringIndex(text, -1)); n > maxPasswords {
		l.Passwords.Charge(ctx, n)
	}
}

// Parse returns the document if it is within the limits. The document has not been validated
// against the schema.
func (l *Document) Parse(text string) (*ast.QueryDocument, *gqlerror.Error) {
	doc, problem := l.parse(text)
	if problem == nil {
		problem, _ = l.measure(doc)
	}
	return doc, problem
}

func (l *Document) parse(text string) (*ast.QueryDocument, *gqlerror.Error) {
	if len(text) > l.Bounds.Document {
		return nil, Refusal(errs.BadRequest, fmt.Sprintf(
			"The document is too long. The maximum is %d bytes. Pass long values as variables.", l.Bounds.Document))
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: text}, l.Tokens)
	if err == nil {
		return doc, nil
	}
	problem, ok := errors.AsType[*gqlerror.Error](err)
	if !ok || strings.HasPrefix(problem.Message, "exceeded token limit") {
		return nil, Refusal(errs.BadRequest,
			fmt.Sprintf("The document has too many tokens. The maximum is %d.", l.Tokens))
	}
	problem.Extensions = map[string]any{"code": errs.BadRequest.Code()}
	return nil, problem
}

// measure refuses a document by the shape of its operations and of its fragments: unused fragments
// are validated too. If an operation has more than one password, it returns their number.
func (l *Document) measure(doc *ast.QueryDocument) (problem *gqlerror.Error, passwords int) {
	s := &shapes{doc: doc, passwordFields: l.Passwords.Fields, known: map[string]shape{}, open: map[string]bool{}}
	operations, fragments := s.measure()
	for _, got := range operations {
		if got.passwords > maxPasswords {
			problem = Refusal(errs.BadRequest, "An operation may log in, register or check a password only once.")
			return problem, got.passwords
		}
		if got.introspects && !l.Introspection {
			return Refusal(errs.BadRequest, "Introspection of the schema is disabled on this server."), 0
		}
	}
	if s.circular != "" {
		return Refusal(errs.BadRequest, "A fragment is spread within itself."), 0
	}
	for i, got := range operations {
		rootFields := bound{got.top, l.RootFields, "root fields"}
		if text := l.exceeded(doc, "The operation", got, doc.Operations[i].SelectionSet, rootFields); text != "" {
			return Refusal(errs.TooComplex, text), 0
		}
	}
	for i, got := range fragments {
		if text := l.exceeded(doc, "A fragment", got, doc.Fragments[i].SelectionSet); text != "" {
			return Refusal(errs.TooComplex, text), 0
		}
	}
	return nil, 0
}

// bound is a number and its maximum.
type bound struct {
	got, max int
	of       string
}

// exceeded returns the sentence for the first bound that a selection of the given shape exceeds;
// empty if there is none.
func (l *Document) exceeded(
	doc *ast.QueryDocument, what string, got shape, selections ast.SelectionSet, more ...bound,
) string {
	for _, b := range append(more,
		bound{got.aliases, l.Aliases, "aliases"},
		bound{got.directives, l.Directives, "directives"},
		bound{got.depth, l.Depth, "levels of nested fields"},
		bound{got.fragments, l.Fragments, "fragment spreads, including inline fragments"},
		bound{got.fields, l.Fields, "fields, after fragments are expanded"},
	) {
		if b.got > b.max {
			return fmt.Sprintf("%s has too many %s. The maximum is %d.", what, b.of, b.max)
		}
	}
	if maxRepeats(doc.Fragments, []ast.SelectionSet{selections}) > l.Repeats {
		return fmt.Sprintf("A selection set has too many fields with the same response name. The maximum is %d.",
			l.Repeats)
	}
	return ""
}
