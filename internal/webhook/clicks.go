package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/stream"
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
	// idleClicks is how long the position may stay while there are no clicks.
	idleClicks = time.Hour
)

// clicksLoop creates deliveries of clicks until the context ends.
func (d *Dispatcher) clicksLoop(ctx context.Context) {
	failures := poll.Failures{Log: d.Log, Message: "reading clicks for webhooks failed"}
	poll.Every(ctx, clickInterval, failures, d.readClicks)
}

// readClicks creates deliveries of new clicks for all webhooks that receive them. Webhooks that are not active
// count the clicks that they miss. A webhook that fails does not stop the others.
func (d *Dispatcher) readClicks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var rows []*Webhook
	err := d.DB.NewSelect().Model(&rows).Where("wants_clicks").Order("id").Scan(db.AsSystem(ctx))
	if err != nil || len(rows) == 0 {
		return err
	}
	head, err := d.Clicks.Head(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, w := range rows {
		if head.Compare(w.clicks()) <= 0 && head.At.Sub(w.ClicksAt) < idleClicks {
			continue
		}
		problems = append(problems, d.readClicksOf(ctx, w, head))
	}
	return errors.Join(problems...)
}

func (d *Dispatcher) readClicksOf(ctx context.Context, w *Webhook, head stream.Position) error {
	step, err := d.Clicks.After(ctx, w.clicks(), w.WorkspaceID)
	if errs.Is(err, errs.Expired) { // no node has read clicks for 23 hours: they cannot be counted
		_, err = d.storeClicks(ctx, w, nil, head, 0)
		return err
	}
	if err != nil {
		return err
	}
	var clicks []*click.Click
	for _, item := range step.Items {
		clicks = append(clicks, item.Value)
	}
	skips, err := d.skipsClicks(ctx, w)
	if err != nil {
		return err
	}
	// With more to read, the position moves past the clicks of other workspaces.
	if len(clicks) == 0 && !step.More && step.Reached.At.Sub(w.ClicksAt) < idleClicks {
		return nil
	}
	if skips || len(clicks) == 0 {
		_, err = d.storeClicks(ctx, w, nil, step.Reached, len(clicks))
		return err
	}
	m, err := d.Workspaces.ForDeliveries(ctx, w.WorkspaceID)
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	deliveries, err := d.clickDeliveries(ctx, m, w, clicks)
	if err != nil {
		return err
	}
	stored, err := d.storeClicks(ctx, w, deliveries, step.Reached, 0)
	if stored {
		d.Wake()
	}
	return err
}

// skipsClicks reports whether a webhook is not active, or has too many waiting deliveries.
func (d *Dispatcher) skipsClicks(ctx context.Context, w *Webhook) (bool, error) {
	if w.Status != Active {
		return true, nil
	}
	waiting := d.DB.NewSelect().Model((*Delivery)(nil)).Column("id").Where("webhook_id = ?", w.ID).
		Where("status = 'WAITING'").Limit(maxWaiting + 1)
	n, err := d.DB.NewSelect().TableExpr("(?) AS waiting", waiting).Count(db.AsSystem(ctx))
	if err != nil {
		return false, fmt.Errorf("counting deliveries: %w", err)
	}
	return n > maxWaiting, nil
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
		first, last := clicks[from], clicks[to-1]
		body := message{
			Type: typeName(audit.LinkClicked), Timestamp: first.ClickedAt.UTC(), WorkspaceID: w.WorkspaceID,
			Data: clickData(data[from:to]),
		}.encode()
		deliveries = append(deliveries, &Delivery{
			ID: id.New(id.Delivery), WorkspaceID: w.WorkspaceID, WebhookID: w.ID, EventID: first.PublicID(),
			LastClickID: last.PublicID(), Clicks: int64(to - from), SubjectID: first.PublicID(), Type: audit.LinkClicked,
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
	ctx context.Context, w *Webhook, deliveries []*Delivery, reached stream.Position, skipped int,
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
