package graph

import (
	"context"
	"slices"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/linklist"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/schedule"
	"github.com/linkforge/linkforge/internal/stats"
	"github.com/linkforge/linkforge/internal/webhook"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// statsCost is the cost of an own statement, claimCost of a transaction, checkCost of a request
	// to another server.
	statsCost = 20
	claimCost = 10
	checkCost = 100
	// hitQuotaCost is the cost of a link's quota, whose fields are computed from one number.
	hitQuotaCost = 2
	// eventsCost is the number of events in the cost of a subscription: the actual number is unknown.
	eventsCost = page.Max
	// versionCost is the cost of one version of a link.
	versionCost = 10
	// freePerBatchItem is the cost of a batch's link that is included in the batch.
	freePerBatchItem = 15
	// longTextCost is the cost of a field of up to 8 KiB.
	longTextCost = 5
	// pendingCost is the cost of validating a link after one of its pending changes, scheduleCost of validating
	// it after all of them.
	pendingCost  = 5
	scheduleCost = 50
	// typicalChanges is the number of changed fields in the cost of a change.
	typicalChanges = 3
	// documentCost is the cost of a field of up to 128 KiB.
	documentCost = 20
	// bytesPerPoint is how many bytes of a batch's texts cost a point: the largest batch, 10 MiB, is
	// below the maximum of an operation.
	bytesPerPoint = 2048
	// linksPerPoint is how many links of a workspace add a point to a search or a count there.
	linksPerPoint = 100
)

// seriesCost is the typical number of points of a series.
var seriesCost = map[stats.Interval]int{stats.Hour: 200, stats.Day: 30, stats.Week: 10, stats.Month: 5}

// costs returns the cost of fields that cost more than 1 and their children: a page or series costs
// its size times its items.
func costs() gen.ComplexityRoot {
	var c gen.ComplexityRoot
	costObjects(&c)
	costLinks(&c)
	costBatches(&c)
	costRouting(&c)
	return c
}

// costObjects sets the cost of fields of users, workspaces and webhooks, except those of links and stats.
func costObjects(c *gen.ComplexityRoot) {
	c.Query.Nodes = func(child int, ids []string) int { return 1 + child*min(max(len(ids), 1), page.Max) }
	c.User.Sessions = listCost
	c.User.Workspaces = func(child int, _ *bool, first *int, _ *string) int { return pageCost(child, first, nil) }
	c.Workspace.Members, c.Workspace.Invitations = listCost, listCost
	c.Workspace.UtmTemplates, c.Workspace.Webhooks = listCost, listCost
	c.Webhook.Deliveries = func(child int, first *int, _ *string, _ []webhook.DeliveryStatus) int {
		return versionCost + pageCost(child, first, nil)
	}
	c.WebhookDelivery.Attempts = func(child int) int { return 1 + typicalRules*child }
	c.Mutation.TestWebhook = func(child int, _ gen.TestWebhookInput) int { return checkCost + child }
	c.Mutation.RedeliverWebhook = func(child int, _ gen.RedeliverWebhookInput) int { return checkCost + child }
	c.Domain.AppleAppSiteAssociation, c.Domain.AssetLinks = documentsCost, documentsCost
	c.Workspace.APIKeys, c.Workspace.Domains = listCost, listCost
	c.Workspace.AuditLog = func(child int, first *int, _ *string, _ *audit.Filter) int {
		return pageCost(child, first, nil)
	}
	c.Workspace.Events = func(child int, first *int, _ *string, _ []audit.Action, _ *string) int {
		return pageCost(child, first, nil)
	}
}

// costLinks sets the cost of the lists, history and stats of links.
func costLinks(c *gen.ComplexityRoot) {
	c.Link.Versions = func(child int, first *int, _ *string) int { return versionCost + pageCost(child, first, nil) }
	c.RemoveMemberPayload.ScheduledChanges = func(child int) int { return versionCost + schedule.MaxByActor*child }
	c.Link.ScheduledChanges = func(child int) int { return 1 + typicalRules*child }
	c.Mutation.CancelLinkChange = func(child int, _ gen.CancelLinkChangeInput) int { return scheduleCost + child }
	c.Query.ResolvedAt = func(child int, _ string, _ time.Time) int { return versionCost + child }
	c.Link.AsOf = func(child int, _ time.Time) int { return versionCost + child }
	c.Link.Stats = func(child int, _ *stats.Range, _ *string, _ *gen.ClickFilter) int { return statsCost + child }
	c.Workspace.Stats = func(child int, _ *stats.Range, _ *string, _ *gen.ClickFilter, _ *string) int {
		return statsCost + child
	}
	c.Stats.Previous = func(child int) int { return statsCost + child }
	c.Stats.Breakdown = func(child int, _ click.Dimension, first *int) int {
		return statsCost + child*min(max(optional.Or(first, defaultSlices), 1), maxSlices)
	}
	c.Link.Clicks, c.Workspace.Clicks = clicksCost, clicksCost
	c.Subscription.LinkClicked = func(child int, _ string, _, _ *string) int { return 1 + child*eventsCost }
	c.Subscription.EventCommitted = func(child int, _ string, _ []audit.Action, _, _ *string) int {
		return 1 + child*eventsCost
	}
	c.Stats.Series = func(child int, interval stats.Interval) int { return 1 + child*seriesCost[interval] }
	c.Workspace.Links = func(
		child int, first *int, _ *string, last *int, _ *string, filter *linklist.Filter, _ *linklist.Order,
	) int {
		cost := pageCost(child, first, last)
		if filter != nil && filter.Search != nil {
			cost += statsCost
		}
		return cost
	}
	c.Link.HitQuota = func(int) int { return hitQuotaCost }
	c.Link.OriginalURL, c.Link.CanonicalURL, c.Link.Note = textCost, textCost, textCost
	c.LinkVersion.URL, c.LinkVersion.Note = textCost, textCost
	c.Link.Metadata, c.LinkVersion.Metadata = textCost, textCost
	c.Event.URL, c.DestinationCheck.URL, c.RoutingTarget.URL = textCost, textCost, textCost
	c.FieldChange.Before, c.FieldChange.After = textCost, textCost
	c.Event.FieldChanges, c.LinkVersion.Changes = changesCost, changesCost
	c.ScheduledChange.Changes = changesCost
	c.LinkConnection.TotalCount = func(int) int { return statsCost }
}

// costBatches sets the cost of bulk calls, of transactions of their own and of requests to other servers.
func costBatches(c *gen.ComplexityRoot) {
	c.Mutation.CreateLinks = func(child int, in gen.CreateLinksInput) int { return newLinksCost(child, in.Links) }
	c.Mutation.UpsertLinks = func(child int, in gen.UpsertLinksInput) int { return newLinksCost(child, in.Links) }
	c.Mutation.UpdateLinks = func(child int, in gen.UpdateLinksInput) int {
		size, rules := 0, 0
		for _, l := range in.Links {
			size += textSize(optional.Value(l.URL), optional.Value(l.Title.Value()), optional.Value(l.Note.Value()),
				l.Tags.Value()) + pairsSize(l.Metadata.Value())
			rules += changeCost(l.Routing.Value())
		}
		return batchCost(child, len(in.Links)) + size/bytesPerPoint + rules
	}
	c.Mutation.CreateAnonymousLink = func(child int, _ gen.CreateAnonymousLinkInput) int { return claimCost + child }
	c.Mutation.DeleteLinks = func(child int, in gen.DeleteLinksInput) int { return batchCost(child, len(in.Ids)) }
	c.Mutation.RevertOperation = func(child int, _ gen.RevertOperationInput) int { return batchCost(child, link.MaxBatch) }
	c.Mutation.ClaimLinks = func(child int, in gen.ClaimLinksInput) int {
		return claimCost * batchCost(child, len(in.ClaimTokens))
	}
	c.Mutation.VerifyDomain = func(child int, _ gen.VerifyDomainInput) int { return checkCost + child }
	c.Mutation.CheckLink = func(child int, _ gen.CheckLinkInput) int { return checkCost + child }
}

const (
	// explainCost is the cost of an explanation, typicalRules of a list of rules or targets.
	explainCost = 25
	// renderCost is the cost of a QR code, verifyCost of one in a style of its own. Decoding a code in a style that the
	// node has not checked yet costs a point for each pixelsPerPoint more.
	renderCost     = 10
	verifyCost     = 50
	pixelsPerPoint = 10_000
	// The work of a routing is measured in values of conditions: valuesPerPoint of them cost a point. A target costs as
	// much as valuesPerTarget, a test as valuesPerTest and the number of rules. storedBytesPerPoint is how many bytes of
	// stored routings add a point to a change, and workPerReadPoint how much work of routings adds one to a page.
	valuesPerPoint, valuesPerTarget, valuesPerTest = 25, 10, 25
	workPerReadPoint                               = 500
	storedBytesPerPoint                            = 1024
	typicalRules                                   = 3
	// passwordCost is the cost of a password: comparing it with the present one and hashing it. A call may set
	// twenty, which cost less than the maximum of an operation.
	passwordCost = 400
	// rowFieldsOfRouting is how many fields of a routing are free: they are in the row of the link.
	rowFieldsOfRouting = 9
)

// costRouting sets the cost of routings, which are parts of the links' rows.
func costRouting(c *gen.ComplexityRoot) {
	c.Query.ExplainRedirect = func(child int, _ gen.LinkBy, _ *routing.Sample, in *gen.LinkRoutingInput) int {
		return explainCost + routingCost(in) + child
	}
	c.Mutation.CreateLink = func(child int, in gen.CreateLinkInput) int { return 1 + changeCost(in.Routing) + child }
	c.Mutation.UpdateLink = func(child int, in gen.UpdateLinkInput) int {
		return 1 + changeCost(in.Routing.Value()) + child
	}
	c.Mutation.UpsertLink = func(child int, in gen.UpsertLinkInput) int {
		return 1 + changeCost(in.Link.Routing.Value()) + child
	}
	c.Mutation.ScheduleLinkChange = func(child int, in gen.ScheduleLinkChangeInput) int {
		return scheduleCost + changeCost(in.Change.Routing.Value()) + child
	}
	c.Link.Routing = func(child int) int { return max(1, child-rowFieldsOfRouting) }
	c.LinkRouting.Query = func(int) int { return 1 }
	c.LinkRouting.UTM = func(int) int { return 1 }
	c.LinkRouting.Card = func(int) int { return 1 }
	c.LinkRouting.Gate = func(int) int { return 1 }
	c.Workspace.QRStyle = func(int) int { return 1 }
	c.Mutation.UpdateWorkspace = func(child int, in gen.UpdateWorkspaceInput) int {
		if in.QRStyle.Value() != nil { // two codes are decoded
			return 2*verifyCost + child
		}
		return 1 + child
	}
	c.Link.QRCode = func(child int, _ *string, style *gen.QRStyleInput) int {
		if style != nil {
			return verifyCost + child
		}
		return renderCost + child
	}
	c.LinkRouting.Rules = func(child int) int { return 1 + typicalRules*child }
	c.LinkRouting.Tests = func(child int) int { return 1 + typicalRules*child }
	c.LinkRouting.Warnings = func(child int) int { return statsCost + child }
	c.RoutingRule.Targets = func(child int) int { return 1 + typicalRules*child }
	c.Link.DestinationChecks = func(child int) int { return 1 + typicalRules*child }
	c.RoutingTarget.ClickCount = func(int) int { return typicalRules }
}

// batchCost is lower than a page's as long as few fields of each link are requested: the batch and
// these fields take a constant number of statements.
func batchCost(child, size int) int { return 1 + size*max(1, child-freePerBatchItem) }

// newLinksCost is the cost of a batch of new links.
func newLinksCost(child int, links []*gen.NewLinkInput) int {
	size, rules := 0, 0
	for _, l := range links {
		size += textSize(l.URL, optional.Value(l.Title.Value()), optional.Value(l.Note.Value()), l.Tags.Value()) +
			pairsSize(l.Metadata.Value())
		rules += changeCost(l.Routing.Value())
	}
	return batchCost(child, len(links)) + size/bytesPerPoint + rules
}

// textSize is the number of bytes of a link's texts.
func textSize(url, title, note string, tags []string) int {
	size := len(url) + len(title) + len(note)
	for _, tag := range tags {
		size += len(tag)
	}
	return size
}

// pairsSize is the number of bytes of metadata.
func pairsSize(pairs []*link.Pair) int {
	size := 0
	for _, p := range pairs {
		size += len(p.Key) + len(p.Value)
	}
	return size
}

// chargeSize takes what a search or a count of many links costs from the caller's budget: the cost
// functions do not know the workspace. It returns RateLimited.
func (r *resolver) chargeSize(ctx context.Context, m workspace.Membership) error {
	size, err := r.LinkList.Size(ctx, m)
	if points := size / linksPerPoint; err == nil && points > 0 {
		err = r.cost.ChargeWork(ctx, points)
	}
	return err
}

// chargeStored takes from the caller's budget what changes of links read and check: the stored routings of the first
// ones, and the pending changes of the second. It returns RateLimited.
func (r *resolver) chargeStored(ctx context.Context, m workspace.Membership, routed, pending link.Keys) error {
	size, err := r.Links.SizeOf(ctx, m, routed, pending)
	if points := int(size.RoutingBytes)/storedBytesPerPoint + pendingCost*int(size.Pending); err == nil && points > 0 {
		err = r.cost.ChargeWork(ctx, points)
	}
	return err
}

// chargeRead takes what reading the routings of links or versions costs from the caller's budget: a page may have a
// hundred large ones. It returns RateLimited.
func chargeRead[T any](ctx context.Context, b transport.Budget, items []T, of func(T) *routing.Routing) error {
	work := 0
	for _, item := range items {
		work += storedWork(of(item))
	}
	if points := work / workPerReadPoint; points > 0 {
		return b.ChargeWork(ctx, points)
	}
	return nil
}

func routingOf(l *link.Link) *routing.Routing { return l.Routing }

// storedWork is the work of reading a routing, in values.
func storedWork(r *routing.Routing) int {
	if r == nil {
		return 0
	}
	work := valuesPerTest * len(r.Tests)
	for _, rule := range r.Rules {
		work += valuesPerTarget * len(rule.Targets)
		for _, c := range slices.Concat(rule.When, rule.Unless) {
			work += valuesOf(c.Country, c.Device, c.OS, c.Browser, c.Language, c.Referrer, c.Network)
		}
	}
	return work
}

// valuesOf is the number of values of a condition, and one for the condition.
func valuesOf(lists ...[]string) int {
	n := 1
	for _, values := range lists {
		n += len(values)
	}
	return n
}

// changeCost is the cost of storing a change of a routing: that of checking it, and of hashing a password.
func changeCost(in *gen.LinkRoutingInput) int {
	if in != nil && in.Gate.Value() != nil && in.Gate.Value().Password.Value() != nil {
		return passwordCost + routingCost(in)
	}
	return routingCost(in)
}

// routingCost is the cost of checking a change of a routing: its values, the URLs of its targets, and its tests, each
// of which tries the rules.
func routingCost(in *gen.LinkRoutingInput) int {
	if in == nil {
		return 0
	}
	work := 0
	rules, tests := in.Rules.Value(), in.Tests.Value()
	for _, rule := range rules {
		work += valuesPerTarget * len(rule.Targets)
		for _, c := range slices.Concat(rule.When, rule.Unless) {
			work += valuesOf(c.Country, c.Device, c.OS, c.Browser, c.Language, c.Referrer, c.Network)
		}
	}
	return (work + len(tests)*(valuesPerTest+len(rules))) / valuesPerPoint
}

func textCost(int) int { return longTextCost }

func changesCost(child int) int { return 1 + typicalChanges*child }

func documentsCost(int) int { return documentCost }

func listCost(child int, first *int, _ *string) int { return pageCost(child, first, nil) }

func clicksCost(child int, first *int, _ *string, _ *stats.Range, _ *gen.ClickFilter) int {
	return pageCost(child, first, nil)
}

func pageCost(child int, first, last *int) int {
	size := optional.Or(last, optional.Or(first, page.Default))
	return 1 + child*min(max(size, 1), page.Max) // a size out of range is refused by the resolver
}

func (r *queryResolver) RateLimit(ctx context.Context) (*gen.RateLimit, error) {
	b := limit.BillOf(graphql.GetOperationContext(ctx))
	limits := &gen.RateLimit{Cost: b.Cost}
	if !r.Limits.Off {
		limits.Limit = &r.CostRate
	}
	if b.Known {
		limits.Remaining, limits.ResetsAt = &b.Remaining, &b.ResetsAt
	}
	return limits, nil
}
