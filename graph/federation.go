package graph

import (
	"context"
	"maps"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// entityResolver resolves Query._entities, with which gateways of Apollo Federation fetch objects.
type entityResolver resolver

func (r *resolver) Entity() gen.EntityResolver { return (*entityResolver)(r) }

// entityKey is what the generated representations of all types are.
type entityKey struct {
	ID string `json:"ID"`
}

// entities returns the objects of one type that nodes finds: nil for the other representations.
func entities[T any, R interface {
	~struct {
		ID string `json:"ID"`
	}
}](ctx context.Context, r *entityResolver, reps []*R) ([]*T, error) {
	all, _ := graphql.GetFieldContext(ctx).Args["representations"].([]map[string]any)
	if len(all) > limit.MaxSize {
		return nil, errs.New(errs.InvalidInput, "Request up to %d representations. This request has %d.",
			limit.MaxSize, len(all)).At("representations")
	}
	ids := make([]string, len(reps))
	for i, rep := range reps {
		ids[i] = entityKey(*rep).ID
	}
	found, err := r.nodes(ctx, ids)
	objects := make([]*T, len(found))
	for i, node := range found {
		objects[i], _ = node.(*T)
	}
	return objects, err
}

// publicSchema returns a schema without the types that gqlgen generates its entity resolvers from.
func publicSchema(s *ast.Schema) *ast.Schema {
	public := *s
	public.Types = maps.Clone(s.Types)
	for _, f := range s.Types["Entity"].Fields {
		delete(public.Types, f.Arguments[0].Type.Name())
	}
	delete(public.Types, "Entity")
	return &public
}

func (r *entityResolver) FindManyUserByIDs(
	ctx context.Context, reps []*gen.UserByIDsInput,
) ([]*account.Account, error) {
	return entities[account.Account](ctx, r, reps)
}

func (r *entityResolver) FindManySessionByIDs(
	ctx context.Context, reps []*gen.SessionByIDsInput,
) ([]*account.Session, error) {
	return entities[account.Session](ctx, r, reps)
}

func (r *entityResolver) FindManyWorkspaceByIDs(
	ctx context.Context, reps []*gen.WorkspaceByIDsInput,
) ([]*workspace.Membership, error) {
	return entities[workspace.Membership](ctx, r, reps)
}

func (r *entityResolver) FindManyMemberByIDs(
	ctx context.Context, reps []*gen.MemberByIDsInput,
) ([]*workspace.Member, error) {
	return entities[workspace.Member](ctx, r, reps)
}

func (r *entityResolver) FindManyInvitationByIDs(
	ctx context.Context, reps []*gen.InvitationByIDsInput,
) ([]*workspace.Invitation, error) {
	return entities[workspace.Invitation](ctx, r, reps)
}

func (r *entityResolver) FindManyAPIKeyByIDs(ctx context.Context, reps []*gen.APIKeyByIDsInput) ([]*apikey.Key, error) {
	return entities[apikey.Key](ctx, r, reps)
}

func (r *entityResolver) FindManyDomainByIDs(
	ctx context.Context, reps []*gen.DomainByIDsInput,
) ([]*domain.Domain, error) {
	return entities[domain.Domain](ctx, r, reps)
}

func (r *entityResolver) FindManyScheduledChangeByIDs(
	ctx context.Context, reps []*gen.ScheduledChangeByIDsInput,
) ([]*link.ScheduledChange, error) {
	return entities[link.ScheduledChange](ctx, r, reps)
}

func (r *entityResolver) FindManyEventByIDs(
	ctx context.Context, reps []*gen.EventByIDsInput,
) ([]*workspace.LoggedEvent, error) {
	return entities[workspace.LoggedEvent](ctx, r, reps)
}

func (r *entityResolver) FindManyWebhookByIDs(
	ctx context.Context, reps []*gen.WebhookByIDsInput,
) ([]*webhook.Webhook, error) {
	return entities[webhook.Webhook](ctx, r, reps)
}

func (r *entityResolver) FindManyWebhookDeliveryByIDs(
	ctx context.Context, reps []*gen.WebhookDeliveryByIDsInput,
) ([]*webhook.Delivery, error) {
	return entities[webhook.Delivery](ctx, r, reps)
}

func (r *entityResolver) FindManyLinkByIDs(ctx context.Context, reps []*gen.LinkByIDsInput) ([]*link.Link, error) {
	return entities[link.Link](ctx, r, reps)
}

func (r *entityResolver) FindManyUtmTemplateByIDs(
	ctx context.Context, reps []*gen.UtmTemplateByIDsInput,
) ([]*folder.Template, error) {
	return entities[folder.Template](ctx, r, reps)
}

func (r *entityResolver) FindManyFolderByIDs(
	ctx context.Context, reps []*gen.FolderByIDsInput,
) ([]*folder.Folder, error) {
	return entities[folder.Folder](ctx, r, reps)
}

func (r *entityResolver) FindManyTaskByIDs(ctx context.Context, reps []*gen.TaskByIDsInput) ([]*task.Task, error) {
	return entities[task.Task](ctx, r, reps)
}

func (r *entityResolver) FindManyClickByIDs(ctx context.Context, reps []*gen.ClickByIDsInput) ([]*gen.Click, error) {
	return entities[gen.Click](ctx, r, reps)
}
