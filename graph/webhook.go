package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) CreateWebhook(
	ctx context.Context, in gen.CreateWebhookInput,
) (*gen.CreateWebhookPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	w, secret, err := r.Webhooks.Create(ctx, m, webhook.Change{
		Name: optional.Set(in.Name), URL: optional.Set(in.URL), Types: optional.Set(in.Types),
		Tags: optional.Set(in.Tags),
	})
	return &gen.CreateWebhookPayload{Webhook: w, Secret: optional.Of(secret)}, err
}

func (r *mutationResolver) UpdateWebhook(
	ctx context.Context, in gen.UpdateWebhookInput,
) (*gen.UpdateWebhookPayload, error) {
	change := webhook.Change{
		Name: gen.SetUnlessNull(in.Name), URL: gen.SetUnlessNull(in.URL), Status: gen.SetUnlessNull(in.Status),
		SkipBacklog: optional.Value(in.SkipBacklog),
	}
	if in.Types != nil {
		change.Types = optional.Set(in.Types)
	}
	if in.Tags.IsSet() {
		change.Tags = optional.Set(in.Tags.Value())
	}
	update := func(ctx context.Context, m workspace.Membership, webhookID string) (*webhook.Webhook, error) {
		return r.Webhooks.Update(ctx, m, webhookID, change)
	}
	w, err := forItem(ctx, &r.Config, in.ID, r.Webhooks.Rows().WorkspaceOf, update)
	return &gen.UpdateWebhookPayload{Webhook: w}, err
}

func (r *mutationResolver) DeleteWebhook(
	ctx context.Context, in gen.DeleteWebhookInput,
) (*gen.DeleteWebhookPayload, error) {
	_, err := forItem(ctx, &r.Config, in.ID, r.Webhooks.Rows().WorkspaceOf, r.Webhooks.Delete)
	return &gen.DeleteWebhookPayload{DeletedID: &in.ID}, err
}

func (r *mutationResolver) RotateWebhookSecret(
	ctx context.Context, in gen.RotateWebhookSecretInput,
) (*gen.RotateWebhookSecretPayload, error) {
	secret := ""
	rotate := func(ctx context.Context, m workspace.Membership, webhookID string) (w *webhook.Webhook, err error) {
		overlap, err := webhook.Overlap(in.OverlapSeconds)
		if err != nil {
			return nil, err
		}
		w, secret, err = r.Webhooks.Rotate(ctx, m, webhookID, overlap)
		return w, err
	}
	w, err := forItem(ctx, &r.Config, in.ID, r.Webhooks.Rows().WorkspaceOf, rotate)
	return &gen.RotateWebhookSecretPayload{Webhook: w, Secret: optional.Of(secret)}, err
}

func (r *mutationResolver) TestWebhook(
	ctx context.Context, in gen.TestWebhookInput,
) (*gen.TestWebhookPayload, error) {
	test := func(ctx context.Context, m workspace.Membership, webhookID string) (*webhook.Attempt, error) {
		return r.Dispatcher.Test(ctx, m, webhookID, optional.Or(in.Type, audit.LinkUpdated))
	}
	attempt, err := forItem(ctx, &r.Config, in.ID, r.Webhooks.Rows().WorkspaceOf, outside(test))
	return &gen.TestWebhookPayload{Attempt: attempt}, err
}

func (r *mutationResolver) RedeliverWebhook(
	ctx context.Context, in gen.RedeliverWebhookInput,
) (*gen.RedeliverWebhookPayload, error) {
	way := webhook.Redelivery{IDs: in.DeliveryIds, Failed: optional.Value(in.Failed)}
	if in.Range != nil {
		way.From, way.To = &in.Range.From, &in.Range.To
	}
	redeliver := func(ctx context.Context, m workspace.Membership, webhookID string) (*int, error) {
		n, err := r.Config.Webhooks.Redeliver(ctx, m, webhookID, way)
		return &n, err
	}
	n, err := forItem(ctx, &r.Config, in.ID, r.Webhooks.Rows().WorkspaceOf, redeliver)
	return &gen.RedeliverWebhookPayload{Count: optional.Value(n)}, err
}

func (r *workspaceResolver) Webhooks(
	ctx context.Context, m *workspace.Membership, first *int, after *string,
) (*gen.WebhookConnection, error) {
	p, err := list(ctx, *m, newest, id.Webhook, first, after, r.Config.Webhooks.Rows().List, webhookIDs)
	loader.Expect(&loader.Of(ctx).In(*m).Waiting, p.Items, func(w *webhook.Webhook) string { return w.ID })
	return p, err
}

func webhookIDs(w *webhook.Webhook) (webhookID, accountID string) { return w.ID, "" }

// webhookNodes is the nodeLoader of webhooks.
func (c *Config) webhookNodes(
	ctx context.Context, m workspace.Membership, ids ...string,
) (map[string]limit.Node, error) {
	loader.Of(ctx).In(m).Waiting.Expect(ids)
	return nodesOf(c.Webhooks.Rows().ByID, webhookIDs)(ctx, m, ids...)
}

func (r *webhookResolver) Waiting(ctx context.Context, w *webhook.Webhook) (*int64, error) {
	n, err := loader.Of(ctx).In(w.In).Waiting.Get(ctx, w.ID)
	return &n, err
}

func (r *webhookResolver) Deliveries(
	ctx context.Context, w *webhook.Webhook, first *int, after *string, statuses []webhook.DeliveryStatus,
) (*gen.WebhookDeliveryConnection, error) {
	load := func(
		ctx context.Context, m workspace.Membership, p page.Request,
	) (page.Page[*webhook.Delivery], error) {
		return r.Webhooks.Deliveries(ctx, m, w.ID, statuses, p)
	}
	p, err := list(ctx, w.In, newest, id.Delivery, first, after, load, deliveryIDs)
	expectParts(ctx, w.In, p.Items)
	return p, err
}

func deliveryIDs(d *webhook.Delivery) (deliveryID, accountID string) { return d.ID, "" }

// deliveryNodes is the nodeLoader of deliveries.
func (c *Config) deliveryNodes(
	ctx context.Context, m workspace.Membership, ids ...string,
) (map[string]limit.Node, error) {
	load := func(ctx context.Context, m workspace.Membership, ids ...string) ([]*webhook.Delivery, error) {
		rows, err := c.Webhooks.DeliveryRows().ByID(ctx, m, ids...)
		expectParts(ctx, m, rows)
		return rows, err
	}
	return nodesOf(load, deliveryIDs)(ctx, m, ids...)
}

// expectParts expects the attempts and events of deliveries to be requested.
func expectParts(ctx context.Context, m workspace.Membership, deliveries []*webhook.Delivery) {
	var ids, events []string
	for _, d := range deliveries {
		if ids = append(ids, d.ID); d.Type != audit.LinkClicked {
			events = append(events, d.EventID)
		}
	}
	loader.Of(ctx).In(m).Attempts.Expect(ids)
	loader.Of(ctx).In(m).Events.Expect(events)
}

func (r *deliveryResolver) Event(ctx context.Context, d *webhook.Delivery) (*workspace.LoggedEvent, error) {
	if d.Type == audit.LinkClicked {
		return nil, nil
	}
	return loader.Of(ctx).In(d.In).Events.Get(ctx, d.EventID)
}

func (r *deliveryResolver) Attempts(ctx context.Context, d *webhook.Delivery) ([]*webhook.Attempt, error) {
	return notNull(loader.Of(ctx).In(d.In).Attempts.Get(ctx, d.ID))
}
