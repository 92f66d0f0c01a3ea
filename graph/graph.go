// Package graph resolves the GraphQL schema: a resolver authorizes the caller, calls one domain
// method and maps its errors. How operations arrive and how they are limited is up to
// graph/transport and graph/limit. The server mounts the handler that New returns.
package graph

import (
	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/event/dispatch"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/consistency"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/stores"
)

// Config are the stores that resolvers call, and the configuration of their transport.
type Config struct {
	// Config is completed by New: it sets the schema, the extensions, the callers and the budgets.
	transport.Config
	*stores.Stores

	// Codes checks the styles of QR codes.
	Codes *qr.Renderer
	// Writers tracks callers that wrote recently, so that the others may read from a replica; nil
	// without a replica.
	Writers *consistency.Writers
	// Dispatcher sends tests and repeats deliveries.
	Dispatcher *dispatch.Dispatcher
	// Countries knows the countries of visitors.
	Countries *visitor.Countries
	// HitQuota is the monthly quota of a link unless its workspace has its own.
	HitQuota int64
	// Meter counts requests and cost. RequestRate and CostRate are requests and points of a caller
	// in a minute.
	Meter                 *ratelimit.Meter
	RequestRate, CostRate int64
}

// resolver is the root of the resolvers. Each type's resolver is in the file of its entity.
type resolver struct {
	Config
	// cost is the budget of a caller's operations.
	cost     transport.Budget
	platform platformCache
}

type (
	queryResolver             resolver
	mutationResolver          resolver
	subscriptionResolver      resolver
	userResolver              resolver
	workspaceResolver         resolver
	memberResolver            resolver
	invitationResolver        resolver
	apiKeyResolver            resolver
	eventResolver             resolver
	folderResolver            resolver
	linkVersionResolver       resolver
	scheduledResolver         resolver
	linkResolver              resolver
	linkRoutingResolver       resolver
	routingTargetResolver     resolver
	routingSimulationResolver resolver
	statsResolver             resolver
	statsSliceResolver        resolver
	unmatchedResolver         resolver
	clickResolver             resolver
	webhookResolver           resolver
	deliveryResolver          resolver
	taskResolver              resolver
	importReportResolver      resolver
	importHostResolver        resolver
	importRowResolver         resolver
	importLossResolver        resolver

	parityReportResolver        resolver
	workspaceArchiveResolver    resolver
	parityDifferenceResolver    resolver
	verifyDomainPayloadResolver resolver
)

// New returns the handler of GraphQL operations.
func New(c Config) *transport.Handler { return transport.New(newTransport(c)) }

func newTransport(c Config) transport.Config {
	r := &resolver{Config: c, cost: c.budget("cost", c.CostRate)}
	t := c.Config
	t.Schema = newSchema(r)
	t.Extensions = []graphql.HandlerExtension{extension{r}}
	t.Authenticate = r.authenticate
	t.Requests, t.Cost = r.budget(requests, c.RequestRate), r.cost
	t.Passwords = limit.Passwords{Fields: passwordFields(t.Schema.Schema()), Charge: r.chargePasswords}
	return t
}

// NewManifest returns the documents that clients may request by ID.
func NewManifest(
	bounds config.Bounds, introspection bool, lists ...transport.Documents,
) (*transport.Manifest, error) {
	schema := gen.NewExecutableSchema(gen.Config{}).Schema()
	limits := &limit.Document{
		Bounds: bounds, Maxima: limit.UsualMaxima(), Introspection: introspection,
		Passwords: limit.Passwords{Fields: passwordFields(schema)},
	}
	return transport.NewManifest(schema, limits, lists...)
}

// The methods of gen.ResolverRoot.

func (r *resolver) Query() gen.QueryResolver               { return (*queryResolver)(r) }
func (r *resolver) Mutation() gen.MutationResolver         { return (*mutationResolver)(r) }
func (r *resolver) Subscription() gen.SubscriptionResolver { return (*subscriptionResolver)(r) }
func (r *resolver) User() gen.UserResolver                 { return (*userResolver)(r) }
func (r *resolver) Workspace() gen.WorkspaceResolver       { return (*workspaceResolver)(r) }
func (r *resolver) Member() gen.MemberResolver             { return (*memberResolver)(r) }
func (r *resolver) Invitation() gen.InvitationResolver     { return (*invitationResolver)(r) }
func (r *resolver) ApiKey() gen.ApiKeyResolver             { return (*apiKeyResolver)(r) }
func (r *resolver) Event() gen.EventResolver               { return (*eventResolver)(r) }
func (r *resolver) ScheduledChange() gen.ScheduledChangeResolver {
	return (*scheduledResolver)(r)
}
func (r *resolver) Folder() gen.FolderResolver               { return (*folderResolver)(r) }
func (r *resolver) LinkVersion() gen.LinkVersionResolver     { return (*linkVersionResolver)(r) }
func (r *resolver) Link() gen.LinkResolver                   { return (*linkResolver)(r) }
func (r *resolver) LinkRouting() gen.LinkRoutingResolver     { return (*linkRoutingResolver)(r) }
func (r *resolver) RoutingTarget() gen.RoutingTargetResolver { return (*routingTargetResolver)(r) }
func (r *resolver) RoutingSimulation() gen.RoutingSimulationResolver {
	return (*routingSimulationResolver)(r)
}
func (r *resolver) Stats() gen.StatsResolver           { return (*statsResolver)(r) }
func (r *resolver) StatsSlice() gen.StatsSliceResolver { return (*statsSliceResolver)(r) }
func (r *resolver) UnmatchedRequest() gen.UnmatchedRequestResolver {
	return (*unmatchedResolver)(r)
}
func (r *resolver) Click() gen.ClickResolver { return (*clickResolver)(r) }

func (r *resolver) Webhook() gen.WebhookResolver                 { return (*webhookResolver)(r) }
func (r *resolver) WebhookDelivery() gen.WebhookDeliveryResolver { return (*deliveryResolver)(r) }
func (r *resolver) Task() gen.TaskResolver                       { return (*taskResolver)(r) }
func (r *resolver) ImportReport() gen.ImportReportResolver       { return (*importReportResolver)(r) }
func (r *resolver) ImportHost() gen.ImportHostResolver           { return (*importHostResolver)(r) }
func (r *resolver) ImportRow() gen.ImportRowResolver             { return (*importRowResolver)(r) }
func (r *resolver) ImportLoss() gen.ImportLossResolver           { return (*importLossResolver)(r) }
func (r *resolver) WorkspaceArchive() gen.WorkspaceArchiveResolver {
	return (*workspaceArchiveResolver)(r)
}
func (r *resolver) VerifyDomainPayload() gen.VerifyDomainPayloadResolver {
	return (*verifyDomainPayloadResolver)(r)
}
func (r *resolver) ParityReport() gen.ParityReportResolver { return (*parityReportResolver)(r) }
func (r *resolver) ParityDifference() gen.ParityDifferenceResolver {
	return (*parityDifferenceResolver)(r)
}
