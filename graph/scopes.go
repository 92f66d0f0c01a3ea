package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// typePermissions are the permissions that objects require wherever a field returns them, by type.
// Types that are not listed have no data of their own (roots, payloads, connections), or data that
// every caller may read.
var typePermissions = map[string]workspace.Permission{
	"ApiKey":           workspace.WriteKeys,
	"Click":            workspace.ReadStats,
	"LinkVersion":      workspace.ReadLinks,
	"ScheduledChange":  workspace.ReadLinks,
	"CodePreview":      workspace.ReadLinks,
	"Domain":           workspace.ReadDomains,
	"Quota":            workspace.ReadLinks,
	"Folder":           workspace.ReadLinks,
	"Invitation":       workspace.WriteMembers,
	"Latency":          workspace.ReadStats,
	"Link":             workspace.ReadLinks,
	"LinkOrigin":       workspace.ReadLinks,
	"Task":             workspace.ReadLinks,
	"ImportReport":     workspace.ReadLinks,
	"ImportCount":      workspace.ReadLinks,
	"ImportLossCount":  workspace.ReadLinks,
	"ImportHost":       workspace.ReadLinks,
	"ImportRow":        workspace.ReadLinks,
	"ImportLoss":       workspace.ReadLinks,
	"ParityReport":     workspace.ReadLinks,
	"ParityCount":      workspace.ReadLinks,
	"ParityDifference": workspace.ReadLinks,
	"WorkspaceArchive": workspace.ReadLinks,
	"ArchiveSection":   workspace.ReadLinks,
	"LinkRouting":      workspace.ReadLinks,
	"UtmTemplate":      workspace.ReadLinks,
	"Member":           workspace.ReadMembers,
	"UnmatchedRequest": workspace.ReadStats,
	"Tag":              workspace.ReadLinks,
	"Stats":            workspace.ReadStats,
	"StatsPoint":       workspace.ReadStats,
	"StatsSlice":       workspace.ReadStats,
	"User":             workspace.ReadMembers,

	"Webhook": workspace.WriteWebhooks, "WebhookAttempt": workspace.WriteWebhooks,
	"WebhookDelivery": workspace.WriteWebhooks,
}

// publishableFields are what publishable API keys may request.
var publishableFields = map[string]bool{
	"Mutation.createLink": true, "CreateLinkPayload.shortUrl": true, "CreateLinkPayload.created": true,
	"CreateLinkPayload.errors": true,
	"Mutation.createLinks":     true, "CreateLinksPayload.results": true, "CreateLinksPayload.errors": true,
}

// checkScopes applies typePermissions to the fields of an API key's operation. A field that leads
// from one object to another that the key may not read is null, as for an object that does not exist.
// Lists and stats, which always exist, are null with the error FORBIDDEN. Root fields are not checked
// here: the domain method behind each checks the permission and returns FORBIDDEN. Every key may read
// the defaults of its workspace. A logged-in user needs no such check: each role may read the objects
// that its lists lead to.
func checkScopes(operation *graphql.OperationContext, actor account.Actor) {
	inner := operation.ResolverMiddleware
	operation.ResolverMiddleware = func(ctx context.Context, resolve graphql.Resolver) (any, error) {
		f := graphql.GetFieldContext(ctx)
		if workspace.IsPublishable(actor.Key) && !publishableFields[f.Object+"."+f.Field.Name] &&
			f.Object != "UserError" {
			if f.Field.Definition.Type.NonNull || isRootType(f.Object) {
				return nil, errs.New(errs.Forbidden,
					"A publishable API key creates links, and reads shortUrl, created and errors of the payload.")
			}
			return nil, nil
		}
		needed := typePermissions[f.Field.Definition.Type.Name()]
		if needed == "" || isRootType(f.Object) || f.Object == "Workspace" && f.Field.Name == "routingDefaults" {
			return inner(ctx, resolve)
		}
		err := workspace.CheckKey(actor.Key, needed)
		if err == nil {
			return inner(ctx, resolve)
		}
		loader.SharedTotalOf(ctx, f.Parent).Publish(nil) // fields of a link may wait for its stats
		if of := f.Field.Definition.Type; of.NonNull || of.Elem != nil || of.Name() == "Stats" {
			return nil, err
		}
		return nil, nil
	}
}

func isRootType(name string) bool {
	return name == "Query" || name == "Mutation" || name == "Subscription"
}
