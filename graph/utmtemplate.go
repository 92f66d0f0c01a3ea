package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) CreateUtmTemplate(
	ctx context.Context, in gen.CreateUtmTemplateInput,
) (*gen.CreateUtmTemplatePayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	t, err := r.UTMTemplates.Create(ctx, m, in.Name, in.Utm)
	return &gen.CreateUtmTemplatePayload{UtmTemplate: t}, err
}

func (r *mutationResolver) UpdateUtmTemplate(
	ctx context.Context, in gen.UpdateUtmTemplateInput,
) (*gen.UpdateUtmTemplatePayload, error) {
	change := folder.TemplateChange{Name: gen.SetUnlessNull(in.Name)}
	if in.Utm != nil {
		change.UTM = optional.Set(in.Utm)
	}
	update := func(ctx context.Context, m workspace.Membership, templateID string) (*folder.Template, error) {
		return r.UTMTemplates.Update(ctx, m, templateID, change)
	}
	t, err := forItem(ctx, &r.Config, in.ID, r.UTMTemplates.Rows().WorkspaceOf, update)
	return &gen.UpdateUtmTemplatePayload{UtmTemplate: t}, err
}

func (r *mutationResolver) DeleteUtmTemplate(
	ctx context.Context, in gen.DeleteUtmTemplateInput,
) (*gen.DeleteUtmTemplatePayload, error) {
	_, err := forItem(ctx, &r.Config, in.ID, r.UTMTemplates.Rows().WorkspaceOf, r.UTMTemplates.Delete)
	return &gen.DeleteUtmTemplatePayload{DeletedID: &in.ID}, err
}

func (r *workspaceResolver) UtmTemplates(
	ctx context.Context, m *workspace.Membership, first *int, after *string,
) (*gen.UtmTemplateConnection, error) {
	return list(ctx, *m, folder.Order, id.Template, first, after, r.Config.UTMTemplates.Rows().List, nil)
}

func templateIDs(t *folder.Template) (templateID, accountID string) { return t.ID, "" }
