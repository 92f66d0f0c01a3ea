package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/feed"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// clickInterval is the time between two reads of clicks, and so the longest span of a batch.
	clickInterval = time.Second
	// maxClicks and maxClickBody bound a batch.
	maxClicks    = 200
	maxClickBody = 128 << 10
	// maxWaiting is how many deliveries of a webhook may wait before clicks are skipped.
	maxWaiting = 10_000
)

// readClicks creates deliveries of the next clicks of a webhook, or counts them as skipped.
func (d *Dispatcher) readClicks(ctx context.Context, webhookID string) (progress, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	w, err := d.byID(ctx, d.DB, webhookID)
	if err != nil || w == nil || !w.WantsClicks {
		return caughtUp, err
	}
	step, err := d.Clicks.After(ctx, w.clicks(), w.WorkspaceID)
	if errs.Is(err, errs.Expired) {
		return d.skipExpired(ctx, w)
	}
	if err != nil {
		return caughtUp, err
	}
	var clicks []*click.Click
	for _, item := range step.Items {
		clicks = append(clicks, item.Value)
	}
	if len(clicks) == 0 && !step.More && step.Reached.At.Sub(w.ClicksAt) < idleClicks {
		return caughtUp, nil
	}
	deliveries, skipped, err := d.deliverOrSkip(ctx, w, clicks)
	if errs.Is(err, errs.NotFound) { // deleted; restoring it continues from the position
		return caughtUp, nil
	}
	if err != nil {
		return caughtUp, err
	}
	stored, err := d.storeClicks(ctx, w, deliveries, step.Reached, skipped)
	if err != nil {
		return caughtUp, err
	}
	if len(deliveries) > 0 {
		d.Wake()
	}
	if step.More || !stored {
		return hasMore, nil
	}
	return caughtUp, nil
}

// deliverOrSkip returns deliveries of clicks, or the number of clicks if they are to be skipped. It returns NotFound if
// the workspace is deleted.
func (d *Dispatcher) deliverOrSkip(
	ctx context.Context, w *Webhook, clicks []*click.Click,
) (deliveries []*Delivery, skipped int64, err error) {
	if len(clicks) == 0 {
		return nil, 0, nil
	}
	skips, err := d.skipsClicks(ctx, w)
	if err != nil || skips {
		return nil, int64(len(clicks)), err
	}
	m, err := d.Workspaces.ForDeliveries(ctx, w.WorkspaceID)
	if err != nil {
		return nil, 0, err
	}
	deliveries, err = d.clickDeliveries(ctx, m, w, clicks)
	return deliveries, 0, err
}

// skipExpired moves a position after which clicks can no longer be read to the first one where they can, and counts
// the clicks between them.
func (d *Dispatcher) skipExpired(ctx context.Context, w *Webhook) (progress, error) {
	at, lost, err := d.Clicks.Resume(ctx, w.clicks(), w.WorkspaceID)
	if err != nil {
		return caughtUp, err
	}
	_, err = d.storeClicks(ctx, w, nil, at, lost)
	return hasMore, err
}

// skipsClicks reports whether a webhook is not active, or has too many waiting deliveries.
func (d *Dispatcher) skipsClicks(ctx context.Context, w *Webhook) (bool, error) {
	if w.Status != Active {
		return true, nil
	}
	all := func(q *bun.SelectQuery) *bun.SelectQuery { return q }
	n, err := d.countWaiting(db.AsSystem(ctx), w, maxWaiting+1, all)
	return n > maxWaiting, err
}

// clickDeliveries renders batches of clicks.
func (d *Dispatcher) clickDeliveries(
	ctx context.Context, m workspace.Membership, w *Webhook, clicks []*click.Click,
) (deliveries []*Delivery, err error) {
	data, err := d.Renderer.Clicks(ctx, m, clicks)
	if err != nil {
		return nil, err
	}
	now := d.now()
	for from := 0; from < len(clicks); {
		to := batchEnd(data, from)
		first, ids := clicks[from], make([]string, 0, to-from)
		for _, c := range clicks[from:to] {
			ids = append(ids, c.PublicID())
		}
		body := clicksBody(w, first.ClickedAt, data[from:to])
		deliveries = append(deliveries, &Delivery{
			ID: id.New(id.Delivery), WorkspaceID: w.WorkspaceID, WebhookID: w.ID, EventID: first.PublicID(),
			LastClickID: ids[len(ids)-1], Clicks: int64(len(ids)), ClickIDs: strings.Join(ids, " "),
			SubjectID: first.PublicID(), Type: audit.LinkClicked,
			Number: w.LastNumber + int64(len(deliveries)) + 1, Body: &body, Status: Waiting, CreatedAt: now,
		})
		from = to
	}
	return deliveries, nil
}

// envelope is the maximum size of a body without its clicks.
const envelope = 512

// batchEnd returns the end of the batch of rendered clicks that begins at an index.
func batchEnd(data []json.RawMessage, from int) int {
	size := envelope
	for i := from; i < len(data); i++ {
		if size += len(data[i]) + 1; i > from && size > maxClickBody || i-from == maxClicks {
			return i
		}
	}
	return len(data)
}

// clicksBody returns the body of a batch of rendered clicks.
func clicksBody(w *Webhook, firstAt time.Time, data []json.RawMessage) string {
	return message{
		Type: typeName(audit.LinkClicked), Timestamp: firstAt.UTC(), WorkspaceID: w.WorkspaceID, Data: clickData(data),
	}.encode()
}

// renderClicksAgain returns the body of a batch. Clicks that have been removed since are missing.
func (d *Dispatcher) renderClicksAgain(
	ctx context.Context, m workspace.Membership, w *Webhook, delivery *Delivery,
) (string, error) {
	firstAt, _, ok := click.SplitID(delivery.EventID)
	if !ok {
		return "", fmt.Errorf("%q is not the id of a click", delivery.EventID)
	}
	clicks, err := d.clicksByID(ctx, m, strings.Fields(delivery.ClickIDs))
	if err != nil {
		return "", err
	}
	data, err := d.Renderer.Clicks(ctx, m, clicks)
	if err != nil {
		return "", err
	}
	return clicksBody(w, firstAt, data), nil
}

// clicksByID returns the stored clicks with the ids, in their order.
func (d *Dispatcher) clicksByID(ctx context.Context, m workspace.Membership, ids []string) ([]*click.Click, error) {
	ctx, err := m.Enter(ctx, workspace.ReadStats)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var numbers []int64
	var times []time.Time
	for _, clickID := range ids {
		at, number, _ := click.SplitID(clickID)
		numbers, times = append(numbers, number), append(times, at)
	}
	var rows []*click.Row // by the primary key, where the time follows the workspace
	err = d.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID()).
		Where("clicked_at BETWEEN ? AND ?", slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)).
		Where("id IN (?)", bun.In(numbers)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking up clicks: %w", err)
	}
	byID := map[string]*click.Click{}
	for _, row := range rows {
		c := row.Click()
		byID[c.PublicID()] = c
	}
	var clicks []*click.Click
	for _, clickID := range ids {
		if c := byID[clickID]; c != nil {
			clicks = append(clicks, c)
		}
	}
	return clicks, nil
}

func clickData(clicks []json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteString(`{"clicks":[`)
	for i, click := range clicks {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(click)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// storeClicks stores deliveries of clicks, and moves the position among clicks. It reports false if another
// node has moved it, or the status of the webhook has changed.
func (d *Dispatcher) storeClicks(
	ctx context.Context, w *Webhook, deliveries []*Delivery, reached feed.Position, skipped int64,
) (stored bool, err error) {
	moved := &Webhook{}
	moved.setClicks(reached)
	return d.store(ctx, w, deliveries, func(q *bun.UpdateQuery) *bun.UpdateQuery {
		return q.Set("click_xid = ?", moved.ClickXID).Set("click_batch = ?", moved.ClickBatch).
			Set("click_id = ?", moved.ClickID).Set("clicks_at = ?", moved.ClicksAt).
			Set("skipped_clicks = skipped_clicks + ?", skipped).
			Where("click_xid = ?", w.ClickXID).Where("click_batch = ?", w.ClickBatch).
			Where("click_id = ?", w.ClickID).Where("clicks_at = ?", w.ClicksAt).Where("status = ?", w.Status)
	})
}
