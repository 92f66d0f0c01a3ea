package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/99designs/gqlgen/complexity"
	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/ratelimit"
)

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
	c.Query.Nodes = func(child int, ids []string) int { return 1 + child*min(max(len(ids), 1), page.Max) }
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

// priced is the name under which an operation keeps its bill.
const priced = "bill"

// bill is what an operation costs, and what is left of its caller's points.
type bill struct {
	cost int
	// known says that the points are counted; remaining of limit are left until resetsAt.
	known     bool
	remaining int64
	resetsAt  time.Time
}

// billOf is that of an operation that has been priced.
func billOf(operation *graphql.OperationContext) *bill {
	b, _ := operation.Stats.GetExtension(priced).(*bill)
	return b
}

// priceLimit prices operations, and refuses those that cost too much.
type priceLimit struct {
	most   int
	schema graphql.ExecutableSchema
}

// ExtensionName implements graphql.HandlerExtension.
func (*priceLimit) ExtensionName() string { return "PriceLimit" }

// Validate implements graphql.HandlerExtension.
func (l *priceLimit) Validate(schema graphql.ExecutableSchema) error {
	l.schema = schema
	return nil
}

// MutateOperationContext implements graphql.OperationContextMutator.
func (l *priceLimit) MutateOperationContext(ctx context.Context, operation *graphql.OperationContext) *gqlerror.Error {
	cost := complexity.Calculate(ctx, l.schema, operation.Operation, operation.Variables)
	if cost > l.most {
		return refused(errs.TooComplex,
			fmt.Sprintf("The operation costs %d points: %d are the most. Ask for fewer fields or smaller pages.", cost, l.most))
	}
	operation.Stats.SetExtension(priced, &bill{cost: max(cost, 1)}) // what is only about the schema is priced at nothing
	return nil
}

// spend takes an operation's cost from the points that its caller has in a minute. It returns RateLimited. It is as fair to
// whoever sends a few dear operations as the limit on requests is to whoever sends many cheap ones.
func (r *resolver) spend(ctx context.Context, operation *graphql.OperationContext) error {
	b := billOf(operation)
	rate := ratelimit.Rate{Name: "cost", Attempts: r.CostRate, Window: time.Minute}
	allowance, err := r.Limits.Spend(ctx, rate, subject(ctx), int64(b.cost))
	b.known, b.remaining, b.resetsAt = allowance.Known, allowance.Left, r.Now().Add(allowance.Reset).UTC().Truncate(time.Microsecond)
	if errs.Is(err, errs.RateLimited) {
		return errs.New(errs.RateLimited, "Your operations would have cost more than %d points within a minute, which are the most. "+
			"Try again in %s, and ask for fewer fields or smaller pages.", r.CostRate, allowance.Reset).After(allowance.Reset)
	}
	return err
}

// RateLimit implements gen.QueryResolver.
func (r query) RateLimit(ctx context.Context) (*gen.RateLimit, error) {
	b := billOf(graphql.GetOperationContext(ctx))
	told := &gen.RateLimit{Cost: b.cost}
	if !r.Limits.Off {
		told.Limit = &r.CostRate
	}
	if b.known {
		told.Remaining, told.ResetsAt = &b.remaining, &b.resetsAt
	}
	return told, nil
}

// costExtension is the name of the extension by which a request asks for its cost, and is told it.
const costExtension = "cost"

// tellCost adds what an operation costs to an answer that is asked to say so.
func (r *resolver) tellCost(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	answer := next(ctx)
	operation := graphql.GetOperationContext(ctx)
	b := billOf(operation)
	if asked, _ := operation.Extensions[costExtension].(bool); !asked || answer == nil || b == nil {
		return answer
	}
	told := map[string]any{"requested": b.cost, "actual": r.actual(ctx, operation, answer.Data), "remaining": nil, "resetsAt": nil}
	if b.known {
		told["remaining"], told["resetsAt"] = b.remaining, b.resetsAt
	}
	if answer.Extensions == nil {
		answer.Extensions = map[string]any{}
	}
	answer.Extensions[costExtension] = told
	return answer
}

// actual prices an answer as costs prices what is asked for, but with as many items as there are in it.
func (r *resolver) actual(ctx context.Context, operation *graphql.OperationContext, data json.RawMessage) int {
	var answer any
	if json.Unmarshal(data, &answer) != nil {
		return 0 // nothing was executed
	}
	p := pricer{ctx: ctx, schema: r.schema, variables: operation.Variables}
	return p.value([]ast.SelectionSet{operation.Operation.SelectionSet}, answer)
}

// pricer prices an answer.
type pricer struct {
	ctx       context.Context
	schema    graphql.ExecutableSchema
	variables map[string]any
}

// value is the price of an answer's value, of which the selections have been asked for.
func (p pricer) value(selections []ast.SelectionSet, value any) (sum int) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			sum += p.value(selections, item)
		}
	case map[string]any:
		for name, fields := range asked(selections) {
			if child, ok := value[name]; ok {
				sum += p.field(fields, child)
			}
		}
	}
	return sum
}

// field is the price of a field, and of what is in it. A batch is priced by the mean of its results, since part of each
// is free.
func (p pricer) field(fields []*ast.Field, value any) int {
	var selections []ast.SelectionSet
	for _, f := range fields {
		selections = append(selections, f.SelectionSet)
	}
	below := p.value(selections, value)
	if payload, ok := value.(map[string]any); ok {
		if results, ok := payload["results"].([]any); ok && len(results) > 0 && fields[0].ObjectDefinition.Name == "Mutation" {
			return p.own(fields[0], (below+len(results)-1)/len(results))
		}
	}
	return p.own(fields[0], 0) + below
}

// own is the price of a field whose items cost as much as child.
func (p pricer) own(f *ast.Field, child int) int {
	cost, ok := p.schema.Complexity(p.ctx, f.ObjectDefinition.Name, f.Name, child, f.ArgumentMap(p.variables))
	if !ok || cost < 1 {
		return 1 + child
	}
	return cost
}

// asked are the fields of selections by their names in the answer, fragments spread. A fragment of another type than the
// value's is among them: what it asks for is not in the answer.
func asked(selections []ast.SelectionSet) map[string][]*ast.Field {
	all := map[string][]*ast.Field{}
	var visit func(ast.SelectionSet)
	visit = func(one ast.SelectionSet) {
		for _, selection := range one {
			switch selection := selection.(type) {
			case *ast.Field:
				all[selection.Alias] = append(all[selection.Alias], selection)
			case *ast.InlineFragment:
				visit(selection.SelectionSet)
			case *ast.FragmentSpread:
				visit(selection.Definition.SelectionSet)
			}
		}
	}
	for _, one := range selections {
		visit(one)
	}
	return all
}
