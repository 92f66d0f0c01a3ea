package dispatch

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
)

const (
	// maxClicks is how many clicks a batch has.
	maxClicks = 200
	// maxWaiting is how many deliveries of a webhook may wait before clicks are skipped.
	maxWaiting = 10_000
)

// nextClicks reads the next clicks of the workspaces with webhooks that receive clicks.
func (d *Dispatcher) nextClicks(ctx context.Context, from feed.Position) (p part, err error) {
	// The end is read first: a webhook that is created later receives no clicks before it.
	end, err := d.Clicks.Head(ctx)
	if err != nil {
		return p, err
	}
	var receivers []*webhook.Webhook
	err = d.DB.NewSelect().Model(&receivers).Column("id", "workspace_id", "click_xid", "click_seq").
		Where("id IN (SELECT webhook_id FROM webhook_types WHERE type = ?)", audit.LinkClicked).Scan(ctx)
	if err != nil {
		return p, fmt.Errorf("looking up the webhooks of clicks: %w", err)
	}
	if len(receivers) == 0 {
		return part{reached: end}, nil
	}
	var workspaces []string
	for _, w := range receivers {
		workspaces = append(workspaces, w.WorkspaceID)
	}
	slices.Sort(workspaces)
	step, err := d.Clicks.After(ctx, from, slices.Compact(workspaces)...)
	if errs.Is(err, errs.Expired) {
		return d.skipExpired(ctx, from, receivers)
	}
	if err != nil {
		return p, err
	}
	p = part{reached: end}
	if step.More && step.Reached.Compare(end) < 0 {
		p = part{reached: step.Reached, more: true}
	}
	clicks := map[string][]feed.Item[*click.Click]{}
	for _, item := range step.Items {
		if item.Position.Compare(p.reached) <= 0 {
			clicks[item.WorkspaceID] = append(clicks[item.WorkspaceID], item)
		}
	}
	var ids []string
	for _, w := range receivers {
		if clicks[w.WorkspaceID] != nil {
			ids = append(ids, w.ID)
		}
	}
	if len(ids) > 0 {
		p.store = func(ctx context.Context, tx bun.Tx) error { return d.storeClicks(ctx, tx, ids, clicks) }
	}
	return p, nil
}

// storeClicks creates the deliveries of clicks. Webhooks that are not active, or have too many
// waiting deliveries, count them as skipped.
func (d *Dispatcher) storeClicks(
	ctx context.Context, tx bun.Tx, webhookIDs []string, clicks map[string][]feed.Item[*click.Click],
) error {
	var webhooks []*webhook.Webhook
	q := tx.NewSelect().Model(&webhooks).Column("id", "workspace_id", "status", "click_xid", "click_seq").
		Where("id IN (?)", bun.In(webhookIDs)).Order("id")
	if err := d.DB.ForChange(q).Scan(ctx); err != nil {
		return fmt.Errorf("locking the webhooks of clicks: %w", err)
	}
	waiting := tx.NewSelect().Model((*webhook.Delivery)(nil)).ColumnExpr("1").Where("webhook_id = webhook.id").
		Where("status = 'WAITING'").Limit(maxWaiting + 1)
	var full []string
	err := tx.NewSelect().Model((*webhook.Webhook)(nil)).Column("id").Where("id IN (?)", bun.In(webhookIDs)).
		Where("(SELECT count(*) FROM (?) AS waiting) > ?", waiting, maxWaiting).Scan(ctx, &full)
	if err != nil {
		return fmt.Errorf("counting deliveries: %w", err)
	}
	tagged, err := taggedLinks(ctx, tx, webhookIDs, clicks)
	if err != nil {
		return err
	}
	var deliveries []*webhook.Delivery
	var due []string
	skipped := map[string]int64{}
	for _, w := range webhooks {
		received := clicksAfter(w.Clicks, clicks[w.WorkspaceID])
		if links, hasTags := tagged[w.ID]; hasTags {
			received = slices.DeleteFunc(received, func(c *click.Click) bool { return !links[c.LinkID] })
		}
		switch {
		case len(received) == 0:
		case w.Status != webhook.Active || slices.Contains(full, w.ID):
			skipped[w.ID] = int64(len(received))
		default:
			due = append(due, w.ID)
			for batch := range slices.Chunk(received, maxClicks) {
				deliveries = append(deliveries, d.batch(w, batch))
			}
		}
	}
	if err := d.Add(ctx, tx, deliveries); err != nil {
		return err
	}
	_, err = tx.NewUpdate().Model((*webhook.Webhook)(nil)).Set("due_at = ?", d.now()).Where("id IN (?)", bun.In(due)).
		Exec(ctx)
	if err != nil {
		return fmt.Errorf("making webhooks due: %w", err)
	}
	return skip(ctx, tx, skipped)
}

// taggedLinks returns the clicked links with one of the tags of a webhook, by the id of each
// webhook with tags.
func taggedLinks(
	ctx context.Context, tx bun.Tx, webhookIDs []string, clicks map[string][]feed.Item[*click.Click],
) (map[string]map[string]bool, error) {
	clicked := map[string]bool{}
	for _, items := range clicks {
		for _, item := range items {
			clicked[item.Value.LinkID] = true
		}
	}
	var rows []struct {
		WebhookID string
		LinkID    string // empty for a tag that no link has
	}
	err := tx.NewSelect().TableExpr("webhook_tags AS wanted").
		ColumnExpr("wanted.webhook_id, COALESCE(link_tags.link_id, '') AS link_id").
		Join("LEFT JOIN link_tags ON link_tags.workspace_id = wanted.workspace_id AND link_tags.tag = wanted.tag AND "+
			"link_tags.link_id IN (?)",
			bun.In(slices.Collect(maps.Keys(clicked)))).
		Where("wanted.webhook_id IN (?)", bun.In(webhookIDs)).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("looking up the tags of clicked links: %w", err)
	}
	tagged := map[string]map[string]bool{}
	for _, row := range rows {
		if tagged[row.WebhookID] == nil {
			tagged[row.WebhookID] = map[string]bool{}
		}
		tagged[row.WebhookID][row.LinkID] = true
	}
	return tagged, nil
}

// clicksAfter returns the clicks after the batch of a position.
func clicksAfter(p feed.Position, items []feed.Item[*click.Click]) (clicks []*click.Click) {
	p.Item = math.MaxInt64
	for _, item := range items {
		if item.Position.Compare(p) > 0 {
			clicks = append(clicks, item.Value)
		}
	}
	return clicks
}

// batch returns a delivery of clicks, which is due at once.
func (d *Dispatcher) batch(w *webhook.Webhook, clicks []*click.Click) *webhook.Delivery {
	first := clicks[0].PublicID()
	return d.NewDelivery(w, webhook.Delivery{
		EventID: first, SubjectID: first, Type: audit.LinkClicked, Number: clicks[0].ID, Clicks: int64(len(clicks)),
		ClickIDs: idsOf(clicks),
		DueAt:    new(d.now()),
	})
}

func idsOf(clicks []*click.Click) string {
	ids := make([]string, 0, len(clicks))
	for _, c := range clicks {
		ids = append(ids, c.PublicID())
	}
	return strings.Join(ids, " ")
}

// skip counts skipped clicks of webhooks.
func skip(ctx context.Context, tx bun.Tx, skipped map[string]int64) error {
	var rows [][]any
	for webhookID, n := range skipped {
		rows = append(rows, []any{webhookID, n})
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewRaw(
		`WITH skipped (id, n) AS (VALUES ?) UPDATE webhooks SET skipped_clicks = skipped_clicks + skipped.n
		FROM skipped WHERE webhooks.id = skipped.id`, bun.In(rows)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("counting skipped clicks: %w", err)
	}
	return nil
}

// skipExpired moves a position after which clicks can no longer be read to the first one where they
// can. The webhooks that received clicks before count the clicks between them as skipped.
func (d *Dispatcher) skipExpired(
	ctx context.Context, expired feed.Position, receivers []*webhook.Webhook,
) (p part, err error) {
	at, err := d.Clicks.Resume(ctx)
	if err != nil {
		return p, err
	}
	skipped := map[string]int64{}
	for _, w := range receivers {
		if w.Clicks.Compare(expired) > 0 {
			continue
		}
		if skipped[w.ID], err = d.Clicks.Missed(ctx, w.WorkspaceID, expired.At); err != nil {
			return p, err
		}
	}
	store := func(ctx context.Context, tx bun.Tx) error { return skip(ctx, tx, skipped) }
	return part{reached: at, more: true, store: store}, nil
}
