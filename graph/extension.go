package graph

import (
	"context"
	"maps"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// extension prepares the operations of the executor for the resolvers.
type extension struct{ *resolver }

func (extension) ExtensionName() string { return "Resolvers" }

func (extension) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptOperation gives an operation its loaders, moves the user errors of mutations to their
// payloads, presents those of other fields one by one, and checks the permissions of an API key on
// all fields.
func (e extension) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	operation := graphql.GetOperationContext(ctx)
	inner, isMutation := operation.ResolverMiddleware, operation.Operation.Operation == ast.Mutation
	operation.ResolverMiddleware = func(ctx context.Context, resolve graphql.Resolver) (any, error) {
		value, err := inner(ctx, resolve)
		if err == nil && !isMutation {
			return value, nil
		}
		field := graphql.GetFieldContext(ctx)
		if field.Object == "Mutation" {
			return payloadOrErrors(value, err, field.Field.Definition.Arguments[0].Type.Name())
		}
		return value, eachError(err, field.Field.Definition)
	}
	if actor, err := account.Current(ctx); err == nil && actor.Key != nil {
		checkScopes(operation, actor)
	}
	return next(loader.WithLoaders(ctx, e.sources()))
}

// InterceptRootField gives each mutation of an operation its own loaders, so that it does not read
// objects that an earlier mutation has changed.
func (e extension) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if graphql.GetOperationContext(ctx).Operation.Operation == ast.Mutation {
		ctx = loader.WithLoaders(ctx, e.sources())
	}
	return next(ctx)
}

// InterceptResponse gives an answer its shared totals, and lets queries of a caller read from a
// replica, if there is one that has the caller's last mutation on any node. Anonymous callers read
// nothing of a workspace.
func (e extension) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	ctx = loader.WithSharedTotals(ctx)
	if _, err := account.Current(ctx); err != nil || e.Writers == nil {
		return next(ctx)
	}
	switch graphql.GetOperationContext(ctx).Operation.Operation {
	case ast.Query:
		ctx = e.Writers.Reading(ctx, subject(ctx))
	case ast.Mutation:
		defer e.Writers.Wrote(ctx, subject(ctx))
	}
	return next(ctx)
}

// manyLinks loads links, and takes the cost of reading them from the caller's budget.
func (c *Config) manyLinks(ctx context.Context, m workspace.Membership, ids ...string) (map[string]*link.Link, error) {
	found, err := c.Links.Many(ctx, m, ids...)
	if err == nil {
		err = chargeRead(ctx, c.budget("cost", c.CostRate), slices.Collect(maps.Values(found)), routingOf)
	}
	return found, err
}

// sources are the functions that load batches.
func (r *resolver) sources() loader.Sources {
	c := &r.Config
	return loader.Sources{
		Accounts: c.Accounts.Load,
		Private:  c.Accounts.PrivateOf, Totals: c.totals, Tags: c.Links.TagsOf, Hits: c.hitsUsed, Links: c.manyLinks,
		Scheduled: c.Schedule.ByLink, Folders: mapOf(c.Folders.Rows().ByID, folderIDs),
		Domains: mapOf(c.Domains.Rows().ByID, domainIDs), FolderLinks: r.folderLinks,
		QRStyles: c.qrStyles,
		Targets:  c.Stats.TargetClicks, Checks: c.Links.RoutingChecks,
		Origins: c.Imports.Origins, Waiting: c.Webhooks.WaitingOf, Attempts: c.Webhooks.AttemptsOf, Events: c.eventsOf,
	}
}
