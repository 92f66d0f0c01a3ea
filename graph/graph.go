// Package graph is the GraphQL edge: it turns operations into calls of the domain's rooms, and their errors into
// GraphQL's.
package graph

import (
	"log/slog"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"go.opentelemetry.io/otel/trace"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/apikey"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/consistency"
	"github.com/linkforge/linkforge/internal/domain"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/probe"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/web"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Config is what the endpoint needs.
type Config struct {
	Accounts   *account.Store
	Workspaces *workspace.Store
	Domains    *domain.Store
	Keys       *apikey.Store
	Links      *link.Store
	Clicks     *click.Store
	// Writers knows who has changed something lately, so that others may read from a replica; nil where there is none.
	Writers *consistency.Writers
	// Live tells of clicks as they come.
	Live *click.Live
	// Exports signs what may be downloaded.
	Exports click.Exports
	// Audit knows who has changed what.
	Audit *audit.Store
	// Checker asks destinations how they are.
	Checker *probe.Checker
	// HitQuota is the monthly quota of links whose workspace has none of its own.
	HitQuota int64
	// Limits slows down whoever asks too often, RequestRate is how many requests a minute anybody may make.
	Limits      *ratelimit.Meter
	RequestRate int64
	// CostRate is how many points their operations may cost a minute.
	CostRate int64
	// Bounds are what one request may ask for.
	Bounds config.Bounds
	// Documents are those that clients may name; may be nil. DocumentsOnly refuses all others.
	Documents     *transport.Manifest
	DocumentsOnly bool
	// Origins are those whose pages may connect.
	Origins web.Origins
	// Introspection answers questions about the schema, and suggests names for misspelt ones.
	Introspection bool
	// Log is told of each operation, and what broke.
	Log *slog.Logger
	// Tracer makes the spans of operations; nil means none.
	Tracer trace.Tracer
	// Now is the clock.
	Now func() time.Time
}

// resolver is the root of the resolvers. Those of a type are in that type's file.
type resolver struct {
	Config
	platform platformCache
}

type (
	query             struct{ *resolver }
	mutation          struct{ *resolver }
	userResolver      struct{ *resolver }
	sessionResolver   struct{ *resolver }
	workspaceResolver struct{ *resolver }
	memberResolver    struct{ *resolver }
	invitedResolver   struct{ *resolver }
	keyResolver       struct{ *resolver }
	eventResolver     struct{ *resolver }
	linkResolver      struct{ *resolver }
	statsResolver     struct{ *resolver }
	sliceResolver     struct{ *resolver }
	clickResolver     struct{ *resolver }
	orphanResolver    struct{ *resolver }
)

// Query implements gen.ResolverRoot.
func (r *resolver) Query() gen.QueryResolver { return query{r} }

// Mutation implements gen.ResolverRoot.
func (r *resolver) Mutation() gen.MutationResolver { return mutation{r} }

// User implements gen.ResolverRoot.
func (r *resolver) User() gen.UserResolver { return userResolver{r} }

// Session implements gen.ResolverRoot.
func (r *resolver) Session() gen.SessionResolver { return sessionResolver{r} }

// Workspace implements gen.ResolverRoot.
func (r *resolver) Workspace() gen.WorkspaceResolver { return workspaceResolver{r} }

// Member implements gen.ResolverRoot.
func (r *resolver) Member() gen.MemberResolver { return memberResolver{r} }

// Invitation implements gen.ResolverRoot.
func (r *resolver) Invitation() gen.InvitationResolver { return invitedResolver{r} }

// ApiKey implements gen.ResolverRoot.
func (r *resolver) ApiKey() gen.ApiKeyResolver { return keyResolver{r} }

// AuditEvent implements gen.ResolverRoot.
func (r *resolver) AuditEvent() gen.AuditEventResolver { return eventResolver{r} }

// Link implements gen.ResolverRoot.
func (r *resolver) Link() gen.LinkResolver { return linkResolver{r} }

// Stats implements gen.ResolverRoot.
func (r *resolver) Stats() gen.StatsResolver { return statsResolver{r} }

// StatsSlice implements gen.ResolverRoot.
func (r *resolver) StatsSlice() gen.StatsSliceResolver { return sliceResolver{r} }

// Orphan implements gen.ResolverRoot.
func (r *resolver) Orphan() gen.OrphanResolver { return orphanResolver{r} }

// Click implements gen.ResolverRoot.
func (r *resolver) Click() gen.ClickResolver { return clickResolver{r} }

// New returns the handler of GraphQL operations.
func New(c Config) *transport.Handler {
	r := &resolver{Config: c}
	return transport.New(transport.Config{
		Schema:        gen.NewExecutableSchema(gen.Config{Resolvers: r, Complexity: costs()}),
		Extensions:    []graphql.HandlerExtension{extension{r}},
		Authenticate:  r.authenticate,
		Requests:      r.budget("requests", c.RequestRate),
		Cost:          r.budget("cost", c.CostRate),
		Bounds:        c.Bounds,
		Passwords:     limit.Passwords{Fields: passwordFields, Charge: r.chargePasswords},
		Documents:     c.Documents,
		DocumentsOnly: c.DocumentsOnly,
		Origins:       c.Origins,
		Introspection: c.Introspection,
		Log:           c.Log,
		Tracer:        c.Tracer,
		Now:           c.Now,
	})
}

// LoadManifest reads the documents that clients may request by ID.
func LoadManifest(file string, bounds config.Bounds, introspection bool) (*transport.Manifest, error) {
	return transport.LoadManifest(file, gen.NewExecutableSchema(gen.Config{}).Schema(),
		&limit.Document{Bounds: bounds, Introspection: introspection, Passwords: limit.Passwords{Fields: passwordFields}})
}
