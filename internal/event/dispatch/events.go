package dispatch

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/feed"
)

const (
	// maxWritten is how many events of all workspaces one part of the log has.
	maxWritten = 5000
	// maxUntried is how many deliveries of events a webhook has before their first attempt. Its
	// other events get theirs when half of the room is free: a webhook sends at a bounded rate, so
	// deliveries further ahead would only take space earlier.
	maxUntried = 200
)

// nextEvents finds the webhooks that receive the next events.
func (d *Dispatcher) nextEvents(ctx context.Context, after feed.Position) (part, error) {
	rows, err := audit.WrittenAfter(ctx, d.DB, after, maxWritten)
	if err != nil || len(rows) == 0 {
		return part{reached: after}, err
	}
	reached := rows[len(rows)-1]
	store := func(ctx context.Context, tx bun.Tx) error { return d.markBehind(ctx, tx, after, reached) }
	return part{reached: reached, more: len(rows) == maxWritten, store: store}, nil
}

// markBehind makes the webhooks due that receive events of a part of the log. claim creates the
// deliveries. Webhooks that were not behind need not read the events before the part.
func (d *Dispatcher) markBehind(ctx context.Context, tx bun.Tx, after, until feed.Position) error {
	receivers := audit.Part(d.DB, after, until).ColumnExpr("wanted.webhook_id").
		Join("JOIN webhook_types AS wanted ON wanted.type = event.action AND wanted.workspace_id = event.workspace_id").
		Where(webhook.TagsMatch, bun.Safe("wanted.webhook_id"))
	marked := tx.NewSelect().Model((*webhook.Webhook)(nil)).Column("id").Where("id IN (?)", receivers).
		Where("(until_xid, until_seq) < (?, ?)", until.XID, until.Seq).Order("id")
	const skips = "CASE WHEN (xid, seq) >= (until_xid, until_seq) AND (xid, seq) < (?0, ?1) THEN "
	_, err := tx.NewUpdate().Model((*webhook.Webhook)(nil)).Set("xid = "+skips+"?0 ELSE xid END", after.XID, after.Seq).
		Set("seq = "+skips+"?1 ELSE seq END", after.XID, after.Seq).Set("until_xid = ?", until.XID).
		Set("until_seq = ?", until.Seq).
		Set("due_at = ?", d.now()).Where("id IN (?)", d.DB.ForChange(marked)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("marking webhooks: %w", err)
	}
	return nil
}

// refill creates deliveries of the next events of a locked webhook, until maxUntried wait for their
// first attempt, and moves its position, which the caller stores. It reports whether there was
// room. If events are left, it stays behind.
func (d *Dispatcher) refill(ctx context.Context, tx bun.Tx, w *webhook.Webhook) (hasRoom bool, err error) {
	if !w.IsBehind() {
		return true, nil
	}
	// Types and tags are read after the lock: a statement that waits for one reads other tables as
	// of before.
	if err := d.WithFilter(tx.NewSelect().Model(w)).WherePK().Scan(ctx); err != nil {
		return false, err
	}
	untried := tx.NewSelect().Model((*webhook.Delivery)(nil)).ColumnExpr("1").Where("webhook_id = ?", w.ID).
		Where("status = 'WAITING'").Where("tries = 0").Where("type <> ?", audit.LinkClicked).Limit(maxUntried)
	n, err := tx.NewSelect().TableExpr("(?) AS untried", untried).Count(ctx)
	if err != nil || n > maxUntried/2 {
		return false, err
	}
	room := maxUntried - int(n)
	events := d.Select(w, audit.LogRequest{After: w.Position, UpTo: w.Until, Limit: room}).Conn(tx)
	deliveries, last, err := d.OfEvents(ctx, w, events)
	if err != nil {
		return false, err
	}
	if w.Position = w.Until; len(deliveries) == room {
		w.Position = last
	}
	if len(deliveries) == 0 {
		return true, nil
	}
	if err := d.Add(ctx, tx, deliveries); err != nil {
		return false, err
	}
	return true, d.Release(ctx, tx, w.ID, webhook.SubjectsOf(deliveries)...)
}
