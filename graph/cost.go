package graph

import (
	"context"
	"fmt"
	"slices"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// The schema declares the costs of fields and the sizes of lists. The others depend on the content
// of arguments, or on stored data.
const (
	// searchCost is the cost of a search, claimCost that of a transaction.
	searchCost = 20
	claimCost  = 10
	// styleCost is how much more a QR code costs in a style of its own, newStyleCost the cost of a
	// workspace's style: two codes are decoded. Decoding a code in a style that the node has not
	// checked yet costs a point for each pixelsPerPoint more, and a text longer than cheapText one for
	// each charactersPerPoint.
	styleCost, newStyleCost = 60, 99
	pixelsPerPoint          = 5000
	cheapText               = 60
	charactersPerPoint      = 4
	// pendingCost is the cost of validating a link after one of its pending changes.
	pendingCost = 5
	// bytesPerPoint is how many bytes of a batch's texts cost a point: the largest batch, 10 MiB,
	// is below the maximum of an operation.
	bytesPerPoint = 2048
	// urlBytesPerPoint is how many bytes of a URL add a point to the preview of its codes.
	urlBytesPerPoint = 500
	// countsPerPoint is how many counts of a sparkline add a point.
	countsPerPoint = 20
	// linksPerPoint is how many links of a workspace add a point to a search or a count there.
	linksPerPoint = 100
	// The work of a routing is measured in values of conditions: valuesPerPoint of them cost a
	// point. A target costs as much as valuesPerTarget, a test as valuesPerTest and the number of
	// rules. storedBytesPerPoint is how many bytes of stored routings add a point to a change, and
	// workPerReadPoint how much work of routings adds one to a page.
	valuesPerPoint, valuesPerTarget, valuesPerTest = 25, 10, 25
	workPerReadPoint                               = 500
	storedBytesPerPoint                            = 1024
	// passwordCost is the cost of a password: comparing it with the present one and hashing it. A
	// call may set twenty, which cost less than the maximum of an operation.
	passwordCost = 400
)

// seriesSize is the usual number of points of a series.
var seriesSize = map[stats.Interval]int{stats.Hour: 200, stats.Day: 30, stats.Week: 10, stats.Month: 5}

// newSchema returns the executable schema with the costs of its fields.
func newSchema(r gen.ResolverRoot) graphql.ExecutableSchema {
	schema := publicSchema(gen.NewExecutableSchema(gen.Config{}).Schema())
	return limit.WithDeclaredCosts(gen.NewExecutableSchema(gen.Config{
		Schema: schema, Resolvers: r, Complexity: costs(),
	}), limit.Sizes{"Stats.series": func(arguments map[string]any) int {
		return seriesSize[stats.Interval(fmt.Sprint(arguments["interval"]))]
	}})
}

// costs returns the cost of fields whose arguments add to the declared cost.
func costs() gen.ComplexityRoot {
	var c gen.ComplexityRoot
	c.Workspace.Links = func(
		declared int, _ *int, _ *string, _ *int, _ *string, filter *linklist.Filter, _ *linklist.Order,
	) int {
		if filter != nil && filter.Search != nil {
			return declared + searchCost
		}
		return declared
	}
	c.Stats.Counts = func(declared int, interval stats.Interval) int {
		return declared + seriesSize[interval]/countsPerPoint
	}
	c.Link.QRCode = func(declared int, _ *string, style *gen.QRStyleInput) int {
		if style != nil {
			return declared + styleCost
		}
		return declared
	}
	c.Mutation.UpdateWorkspace = func(declared int, in gen.UpdateWorkspaceInput) int {
		if in.QRStyle.Value() != nil {
			return declared + newStyleCost
		}
		return declared
	}
	c.Mutation.ClaimLinks = func(declared int, _ gen.ClaimLinksInput) int { return claimCost * declared }
	c.Mutation.CreateLinks = func(declared int, in gen.CreateLinksInput) int {
		return declared + newLinksCost(in.Links)
	}
	c.Mutation.UpsertLinks = func(declared int, in gen.UpsertLinksInput) int {
		return declared + newLinksCost(in.Links)
	}
	c.Mutation.UpdateLinks = func(declared int, in gen.UpdateLinksInput) int {
		size, routings := 0, 0
		for _, l := range in.Links {
			size += textSize(optional.Value(l.URL), &l.LinkFields)
			routings += changeCost(l.Routing.Value())
		}
		return declared + size/bytesPerPoint + routings
	}
	c.Mutation.CreateLink = func(declared int, in gen.CreateLinkInput) int {
		return declared + changeCost(in.Routing.Value())
	}
	c.Mutation.UpdateLink = func(declared int, in gen.UpdateLinkInput) int {
		return declared + changeCost(in.Routing.Value())
	}
	c.Mutation.UpsertLink = func(declared int, in gen.UpsertLinkInput) int {
		return declared + changeCost(in.Link.Routing.Value())
	}
	c.Mutation.ScheduleLinkChange = func(declared int, in gen.ScheduleLinkChangeInput) int {
		return declared + changeCost(in.Change.Routing.Value())
	}
	c.Query.PreviewCode = func(declared int, _, url string) int { return declared + len(url)/urlBytesPerPoint }
	c.Query.ExplainRedirect = func(declared int, _ gen.LinkBy, _ *routing.Sample, in *gen.LinkRoutingInput) int {
		return declared + routingCost(in)
	}
	c.Query.SimulateRouting = func(
		declared int, _ gen.LinkBy, in gen.LinkRoutingInput, _ *clickstore.Range, _ *gen.ClickFilter,
	) int {
		return declared + routingCost(&in)
	}
	return c
}

// newLinksCost is the cost of the texts and routings of new links.
func newLinksCost(links []*gen.NewLinkInput) int {
	size, routings := 0, 0
	for _, l := range links {
		size += textSize(l.URL, &l.LinkFields)
		routings += changeCost(l.Routing.Value())
	}
	return size/bytesPerPoint + routings
}

// textSize is the number of bytes of a link's texts.
func textSize(url string, f *gen.LinkFields) int {
	size := len(url) + len(optional.Value(f.Title.Value())) + len(optional.Value(f.Note.Value()))
	for _, tag := range f.Tags.Value() {
		size += len(tag)
	}
	for _, p := range f.Metadata.Value() {
		size += len(p.Key) + len(p.Value)
	}
	return size
}

// chargeSize charges the caller for a search or a count of many links: the cost functions do not
// know the workspace. It returns RateLimited.
func (r *resolver) chargeSize(ctx context.Context, m workspace.Membership) error {
	size, err := r.LinkList.Size(ctx, m)
	if points := size / linksPerPoint; err == nil && points > 0 {
		err = r.cost.ChargeWork(ctx, points)
	}
	return err
}

// chargeStored takes from the caller's budget what changes of links read and check: the stored
// routings of the first ones, and the pending changes of the second. It returns RateLimited.
func (r *resolver) chargeStored(ctx context.Context, m workspace.Membership, routed, pending linklist.Keys) error {
	size, err := r.LinkList.SizeOf(ctx, m, routed, pending)
	if points := int(size.RoutingBytes)/storedBytesPerPoint + pendingCost*int(size.Pending); err == nil && points > 0 {
		err = r.cost.ChargeWork(ctx, points)
	}
	return err
}

// chargeRead takes what reading the routings of links or versions costs from the caller's budget: a
// page may have a hundred large ones. It returns RateLimited.
func chargeRead[T any](ctx context.Context, b transport.Budget, items []T, of func(T) *routing.Routing) error {
	work := 0
	for _, item := range items {
		if r := of(item); r != nil {
			work += workOf(r.Rules, r.Tests)
		}
	}
	if points := work / workPerReadPoint; points > 0 {
		return b.ChargeWork(ctx, points)
	}
	return nil
}

func routingOf(l *link.Link) *routing.Routing { return l.Routing }

// workOf is the work of reading rules and tests, in values.
func workOf(rules []*routing.Rule, tests []*routing.Test) int {
	work := valuesPerTest * len(tests)
	for _, rule := range rules {
		work += valuesPerTarget * len(rule.Targets)
		for _, c := range slices.Concat(rule.When, rule.Unless) {
			work++
			for _, values := range [][]string{c.Country, c.Device, c.OS, c.Browser, c.Language, c.Referrer, c.Network} {
				work += len(values)
			}
		}
	}
	return work
}

// changeCost is the cost of storing a change of a routing: that of checking it, and of hashing a
// password.
func changeCost(in *gen.LinkRoutingInput) int {
	if in != nil && in.Gate.Value() != nil && in.Gate.Value().Password.Value() != nil {
		return passwordCost + routingCost(in)
	}
	return routingCost(in)
}

// routingCost is the cost of checking a change of a routing: its values, the URLs of its targets,
// and its tests, which all evaluate the rules.
func routingCost(in *gen.LinkRoutingInput) int {
	if in == nil {
		return 0
	}
	rules, tests := in.Rules.Value(), in.Tests.Value()
	return (workOf(rules, tests) + len(tests)*len(rules)) / valuesPerPoint
}

func (r *queryResolver) RateLimit(ctx context.Context) (*gen.RateLimit, error) {
	b := limit.BillOf(graphql.GetOperationContext(ctx))
	limits := &gen.RateLimit{Cost: b.Cost}
	if !r.Meter.Off {
		limits.Limit = &r.CostRate
	}
	if b.Allowance.Known {
		limits.Remaining, limits.ResetsAt = &b.Allowance.Left, &b.ResetsAt
	}
	return limits, nil
}
