package graph

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

	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/errs"
)

// shapeLimit refuses documents that are too long, or whose fragments would blow up, before anything walks them: validation takes
// time that grows with the square of what stands in one place, and it and pricing follow every spread.
type shapeLimit struct {
	config.Bounds
	// documents are those that have been measured and found valid.
	documents documents
	// introspection lets questions about the schema through.
	introspection bool
	// charge counts log-ins that were tried at once, and not looked at.
	charge func(ctx context.Context, logins int)
}

// ExtensionName implements graphql.HandlerExtension.
func (shapeLimit) ExtensionName() string { return "ShapeLimit" }

// Validate implements graphql.HandlerExtension.
func (shapeLimit) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters implements graphql.OperationParameterMutator.
func (l shapeLimit) MutateOperationParameters(ctx context.Context, p *graphql.RawParams) *gqlerror.Error {
	doc, measured := l.documents.Get(ctx, p.Query)
	if !measured {
		var problem *gqlerror.Error
		if doc, problem = l.parse(p.Query); problem != nil {
			if n := len(passwordFields.FindAllStringIndex(p.Query, -1)); n > 1 {
				l.charge(ctx, n) // too many to be read are no cheaper than those that are refused below
			}
			return problem
		}
	}
	if p.OperationName != "" && doc.Operations.ForName(p.OperationName) == nil {
		return refused(errs.BadRequest, "The document has no operation of the name that operationName gives.")
	}
	if measured {
		return nil
	}
	problem, logins := l.measure(doc)
	if logins > 1 {
		l.charge(ctx, logins)
	}
	return problem
}

// parse reads a document as far as it may go.
func (l shapeLimit) parse(text string) (*ast.QueryDocument, *gqlerror.Error) {
	if len(text) > l.Document {
		return nil, refused(errs.BadRequest,
			fmt.Sprintf("The document is too long: %d bytes are the most. Put long values into variables.", l.Document))
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: text}, l.Tokens)
	if err == nil {
		return doc, nil
	}
	problem, ok := errors.AsType[*gqlerror.Error](err)
	if !ok || strings.HasPrefix(problem.Message, "exceeded token limit") {
		return nil, refused(errs.BadRequest, fmt.Sprintf("The document has too many tokens: %d are the most.", l.Tokens))
	}
	problem.Extensions = map[string]any{"code": errs.BadRequest.Code()}
	return nil, problem
}

// measure refuses a document by the shape of its operations, and of its fragments, which are validated also when nothing spreads
// them. With more than one it returns how many log-ins an operation has.
func (l shapeLimit) measure(doc *ast.QueryDocument) (problem *gqlerror.Error, logins int) {
	s, operations, fragments := measureAll(doc)
	for _, got := range operations {
		if got.passwords > 1 {
			return refused(errs.BadRequest, "An operation may log in, register or prove a password once."), got.passwords
		}
		if got.introspects && !l.introspection {
			return refused(errs.BadRequest, "This server does not answer questions about its schema."), 0
		}
	}
	if s.circular != "" {
		return refused(errs.BadRequest, "A fragment is spread within itself."), 0
	}
	for i, got := range operations {
		text := l.broken("The operation", got, bound{got.top, l.RootFields, "fields at its root"})
		if text == "" {
			text = l.repeated(doc, doc.Operations[i].SelectionSet)
		}
		if text != "" {
			return refused(errs.TooComplex, text), 0
		}
	}
	for i, got := range fragments {
		text := l.broken("A fragment", got)
		if text == "" {
			text = l.repeated(doc, doc.Fragments[i].SelectionSet)
		}
		if text != "" {
			return refused(errs.TooComplex, text), 0
		}
	}
	return nil, 0
}

// bound is a number, and how large it may be.
type bound struct {
	got, most int
	of        string
}

// broken is the sentence for the first bound that a shape exceeds; empty if there is none.
func (l shapeLimit) broken(what string, got shape, more ...bound) string {
	for _, b := range append(more,
		bound{got.aliases, l.Aliases, "aliases"},
		bound{got.directives, l.Directives, "directives"},
		bound{got.depth, l.Depth, "levels of fields"},
		bound{got.fragments, l.Fragments, "fragments, inline ones included and spread"},
		bound{got.fields, l.Fields, "fields, with its fragments spread"},
	) {
		if b.got > b.most {
			return fmt.Sprintf("%s has too many %s: %d are the most.", what, b.of, b.most)
		}
	}
	return ""
}

// repeated is the sentence for a selection in which one name stands too often in one place.
func (l shapeLimit) repeated(doc *ast.QueryDocument, selections ast.SelectionSet) string {
	p := places{doc: doc}
	p.visit(selections)
	if p.most <= l.Repeats {
		return ""
	}
	return fmt.Sprintf("The same field is asked for too often in one place: %d times are the most.", l.Repeats)
}

func refused(kind errs.Kind, message string) *gqlerror.Error {
	return &gqlerror.Error{Message: message, Extensions: map[string]any{"code": kind.Code()}}
}

// passwordFields finds them in what cannot be parsed.
var passwordFields = regexp.MustCompile(`\b(?:login|register|changePassword|resetPassword|exportMyData|deleteMyAccount)\s*\(`)

// checkValues refuses JSON that holds too many values: they take far more memory than they have bytes. It returns TooLarge.
func checkValues(body []byte, most int) error {
	values := 1
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case ',', '[', '{':
			values++
		case '"':
			i += 1 + textEnd(body[i+1:])
		}
	}
	if values > most {
		return errs.New(errs.TooLarge, "The request holds too many values: %d are the most. Send them in several requests.", most)
	}
	return nil
}

// textEnd is where a JSON string ends.
func textEnd(body []byte) int {
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(body)
}
