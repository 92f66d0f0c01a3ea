package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/page"
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

// RateLimit implements gen.QueryResolver.
func (r query) RateLimit(ctx context.Context) (*gen.RateLimit, error) {
	b := limit.BillOf(graphql.GetOperationContext(ctx))
	told := &gen.RateLimit{Cost: b.Cost}
	if !r.Limits.Off {
		told.Limit = &r.CostRate
	}
	if b.Known {
		told.Remaining, told.ResetsAt = &b.Remaining, &b.ResetsAt
	}
	return told, nil
}
