package graph

import (
	"context"
	"regexp"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/page"
)

const (
	// maxQueryBytes bounds a document: names come back in the answer, once for each item of a page.
	maxQueryBytes = 64 << 10
	// maxTokens bounds a document: validating it takes time that grows with the square of its length.
	maxTokens = 1000
	// maxFields bounds the fields of a document with its fragments spread, maxDepth how deep they nest. Tools ask
	// for the schema with some 350 fields, 15 deep.
	maxFields = 1000
	maxDepth  = 20
	// maxCost bounds what an operation may ask of the database, page sizes multiplied.
	maxCost = 10_000

	// maxCached and maxCachedBytes bound the documents that are remembered as valid.
	maxCached      = 1000
	maxCachedBytes = 8 << 10
)

// documents remembers valid documents, but no large ones: they could fill the memory.
type documents struct {
	graphql.Cache[*ast.QueryDocument]
}

func newDocuments() documents {
	return documents{lru.New[*ast.QueryDocument](maxCached)}
}

// Add implements graphql.Cache.
func (d documents) Add(ctx context.Context, text string, doc *ast.QueryDocument) {
	if len(text) <= maxCachedBytes {
		d.Cache.Add(ctx, text, doc)
	}
}

// statsCost is a statement of its own. seriesCost is roughly how many points a series has.
const statsCost = 20

const (
	// claimCost is a transaction for each link, checkCost a request to somebody else's server.
	claimCost = 10
	checkCost = 100
	// eventPrice is how many events of a subscription are paid for, of which nobody knows how many come.
	eventPrice = page.Max
	// batchFree is what a link of a batch may be asked for without more being paid, longText the price of up to 8 KiB.
	batchFree = 15
	longText  = 5
)

var seriesCost = map[click.Interval]int{click.Hour: 200, click.Day: 30, click.Week: 10, click.Month: 5}

// costs prices what is dear: a page costs its size times its items, and likewise a series.
func costs() gen.ComplexityRoot {
	var c gen.ComplexityRoot
	c.User.Sessions = listCost
	c.User.Workspaces = func(child int, _ *bool, first *int, _ *string) int { return pageCost(child, first, nil) }
	c.Workspace.Members, c.Workspace.Invitations, c.Workspace.APIKeys, c.Workspace.Domains = listCost, listCost, listCost, listCost
	c.Workspace.AuditLog = func(child int, first *int, _ *string, _ *audit.Filter) int { return pageCost(child, first, nil) }
	c.Link.Stats = func(child int, _ *click.Range, _ *string, _ *gen.ClickFilter) int { return statsCost + child }
	c.Workspace.Stats = func(child int, _ *click.Range, _ *string, _ *gen.ClickFilter, _ *string) int {
		return statsCost + child
	}
	c.Stats.Previous = func(child int) int { return statsCost + child }
	c.Stats.Breakdown = func(child int, _ click.Dimension, first *int) int {
		if first == nil {
			first = new(defaultSlices)
		}
		return statsCost + child*min(max(*first, 1), longestBreakdown)
	}
	c.Link.Clicks, c.Workspace.Clicks = clicksCost, clicksCost
	c.Subscription.LinkClicked = func(child int, _ string, _, _ *string) int { return 1 + child*eventPrice }
	c.Stats.Series = func(child int, interval click.Interval) int { return 1 + child*seriesCost[interval] }
	c.Workspace.Links = func(child int, first *int, _ *string, last *int, _ *string, filter *link.Filter, _ *link.Order) int {
		cost := pageCost(child, first, last)
		if filter != nil && filter.Search != nil {
			cost += statsCost
		}
		return cost
	}
	c.Link.OriginalURL, c.Link.CanonicalURL, c.Link.Note = textPrice, textPrice, textPrice
	c.LinkConnection.TotalCount = func(int) int { return statsCost }
	c.Mutation.CreateLinks = func(child int, in gen.CreateLinksInput) int { return batchCost(child, len(in.Links)) }
	c.Mutation.UpdateLinks = func(child int, in gen.UpdateLinksInput) int { return batchCost(child, len(in.Links)) }
	c.Mutation.DeleteLinks = func(child int, in gen.DeleteLinksInput) int { return batchCost(child, len(in.Ids)) }
	c.Mutation.ClaimLinks = func(child int, in gen.ClaimLinksInput) int { return claimCost * batchCost(child, len(in.ClaimTokens)) }
	c.Mutation.VerifyDomain = func(child int, _ gen.VerifyDomainInput) int { return checkCost + child }
	c.Mutation.CheckLink = func(child int, _ gen.CheckLinkInput) int { return checkCost + child }
	return c
}

// batchCost is lower than a page's as long as a link is asked for no more than describes it: a batch is made, and
// that is loaded, in a handful of statements.
func batchCost(child, size int) int { return 1 + size*max(1, child-batchFree) }

// textPrice is that of a field which may have thousands of bytes.
func textPrice(int) int { return longText }

func listCost(child int, first *int, _ *string) int { return pageCost(child, first, nil) }

func clicksCost(child int, first *int, _ *string, _ *click.Range, _ *gen.ClickFilter) int {
	return pageCost(child, first, nil)
}

func pageCost(child int, first, last *int) int {
	size := page.Default
	if first != nil {
		size = *first
	}
	if last != nil {
		size = *last
	}
	return 1 + child*min(max(size, 1), page.Max) // a size out of range is refused by the resolver
}

// shapeLimit refuses documents that are too long, or whose fragments would blow up, before anything walks them:
// validation and pricing follow every spread.
type shapeLimit struct {
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
	if len(p.Query) > maxQueryBytes {
		return refused(errs.BadRequest, "The document is too long: it may have 65,536 bytes. Put long values into variables.")
	}
	doc, measured := l.documents.Get(ctx, p.Query)
	if !measured {
		var err error
		doc, err = parser.ParseQueryWithTokenLimit(&ast.Source{Input: p.Query}, maxTokens)
		if err != nil {
			if n := len(passwordFields.FindAllString(p.Query, -1)); n > 1 {
				l.charge(ctx, n) // too many to be read are no cheaper than those that are refused below
			}
			return nil // the executor parses again, and says it
		}
	}
	if p.OperationName != "" && doc.Operations.ForName(p.OperationName) == nil {
		return refused(errs.BadRequest, "The document has no operation of the name that operationName gives.")
	}
	if measured {
		return nil
	}
	return l.measure(ctx, doc)
}

// measure refuses a document by the shape of its operations.
func (l shapeLimit) measure(ctx context.Context, doc *ast.QueryDocument) *gqlerror.Error {
	s := shapes{doc: doc, known: map[string]shape{}}
	for _, operation := range doc.Operations {
		got := s.of(operation.SelectionSet)
		if got.passwords > 1 {
			l.charge(ctx, got.passwords)
			return refused(errs.BadRequest, "An operation may log in, register or prove a password once.")
		}
		if got.fields > maxFields || got.depth > maxDepth {
			return refused(errs.TooComplex, "The operation is too large: it may have 1,000 fields, with its fragments spread, nested 20 deep.")
		}
		if got.introspects && !l.introspection {
			return refused(errs.BadRequest, "This server does not answer questions about its schema.")
		}
	}
	return nil
}

func refused(kind errs.Kind, message string) *gqlerror.Error {
	return &gqlerror.Error{Message: message, Extensions: map[string]any{"code": kind.Code()}}
}

// passwordFields finds them in what cannot be parsed.
var passwordFields = regexp.MustCompile(`\b(?:login|register|changePassword|resetPassword|exportMyData|deleteMyAccount)\s*\(`)

// shape is the size of a selection with its fragments spread, and what is special in it.
type shape struct {
	fields, depth int
	introspects   bool
	// passwords is how many of its fields hash a password, which is as dear as a thousand others.
	passwords int
}

// shapes measures selections. Each fragment is measured once, however often it is spread.
type shapes struct {
	doc   *ast.QueryDocument
	known map[string]shape
}

func (s shapes) of(selections ast.SelectionSet) shape {
	var all shape
	for _, selection := range selections {
		var one shape
		switch selection := selection.(type) {
		case *ast.Field:
			one = s.of(selection.SelectionSet)
			one.fields++
			one.depth++
			switch selection.Name {
			case "login", "register", "changePassword", "resetPassword", "exportMyData", "deleteMyAccount":
				one.passwords++
			}
			one.introspects = one.introspects || selection.Name == "__schema" || selection.Name == "__type"
		case *ast.InlineFragment:
			one = s.of(selection.SelectionSet)
		case *ast.FragmentSpread:
			one = s.ofFragment(selection.Name)
		}
		all.fields = min(all.fields+one.fields, maxFields+1) // beyond the limit only that it is beyond matters
		all.passwords = min(all.passwords+one.passwords, maxFields+1)
		all.depth = max(all.depth, one.depth)
		all.introspects = all.introspects || one.introspects
	}
	return all
}

func (s shapes) ofFragment(name string) shape {
	if got, ok := s.known[name]; ok {
		return got
	}
	s.known[name] = shape{} // a fragment within itself is refused by validation
	if fragment := s.doc.Fragments.ForName(name); fragment != nil {
		s.known[name] = s.of(fragment.SelectionSet)
	}
	return s.known[name]
}
