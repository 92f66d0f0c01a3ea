package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// DeliveryStatus is the status of a delivery.
type DeliveryStatus string

// The statuses.
const (
	Waiting   DeliveryStatus = "WAITING"
	Delivered DeliveryStatus = "DELIVERED"
	Failed    DeliveryStatus = "FAILED"
	Skipped   DeliveryStatus = "SKIPPED"
)

// Delivery is one event, or one batch of clicks, for one webhook.
type Delivery struct {
	bun.BaseModel `bun:"table:webhook_deliveries,alias:delivery"`

	ID          string `bun:",pk"`
	WorkspaceID string
	WebhookID   string
	// EventID is the id of the event, or of the first click. It is the header webhook-id.
	EventID string
	// LastClickID and Clicks are the other boundary and the size of a batch.
	LastClickID string
	Clicks      int64
	// ClickIDs are the ids of the clicks of a batch, separated by spaces.
	ClickIDs string `bun:"click_ids"`
	// SubjectID is what the event is about. First attempts about it are sent in the order of Number.
	SubjectID string
	Type      audit.Action
	Number    int64
	// Body is nil of a delivery that does not wait, or that has to be rendered before its next attempt.
	Body   *string
	Status DeliveryStatus
	// Tries is the number of attempts since the schedule began, FirstTriedAt the time of the first.
	Tries        int
	FirstTriedAt *time.Time
	// DueAt is nil while an earlier delivery about the subject is first, and of one that does not wait.
	DueAt *time.Time
	// ClaimedUntil is until when the node that sends it has it; nil if no node does.
	ClaimedUntil *time.Time
	CreatedAt    time.Time

	// In is the membership that read it.
	In workspace.Membership `bun:"-"`
}

// ClickCount is the number of clicks of a batch; nil for an event.
func (d *Delivery) ClickCount() *int {
	if d.Type != audit.LinkClicked {
		return nil
	}
	return new(int(d.Clicks))
}

// NextAttemptAt is when the next attempt is due; nil if there is none.
func (d *Delivery) NextAttemptAt() *time.Time {
	if d.Status != Waiting {
		return nil
	}
	return d.DueAt
}

// AttemptError is why an attempt failed.
type AttemptError string

// The errors.
const (
	StatusError     AttemptError = "STATUS"
	TimeoutError    AttemptError = "TIMEOUT"
	DNSError        AttemptError = "DNS"
	RefusedError    AttemptError = "REFUSED"
	ConnectionError AttemptError = "CONNECTION"
	TLSError        AttemptError = "TLS"
)

// Attempt is one request. Nothing of the response but its status is stored.
type Attempt struct {
	bun.BaseModel `bun:"table:webhook_attempts,alias:attempt"`

	DeliveryID  string `bun:",pk"`
	Number      int    `bun:",pk"`
	WorkspaceID string
	SentAt      time.Time
	// Status is that of the response; nil if there was none.
	Status *int
	// Error is nil if it succeeded.
	Error      *AttemptError
	DurationMs int
}

// maxAttempts is how many attempts of a delivery are stored.
const maxAttempts = 20

// DeliveryRows returns the collection of all deliveries of a workspace, without their bodies.
func (s *Store) DeliveryRows() workspace.Collection[Delivery] {
	return workspace.Collection[Delivery]{
		DB: s.DB, Permission: workspace.WriteWebhooks, Prefix: id.Delivery, Column: "id", Omit: []string{"body", "click_ids"},
		In: func(d *Delivery, m workspace.Membership) { d.In = m },
	}
}

// Deliveries returns one page of the deliveries of a webhook, newest first; no statuses select all. It
// returns Forbidden.
func (s *Store) Deliveries(
	ctx context.Context, m workspace.Membership, webhookID string, statuses []DeliveryStatus, r page.Request,
) (page.Page[*Delivery], error) {
	rows := s.DeliveryRows()
	rows.Where, rows.Args = "webhook_id = ?", []any{webhookID}
	if len(statuses) > 0 {
		rows.Where, rows.Args = rows.Where+" AND status IN (?)", append(rows.Args, bun.In(statuses))
	}
	return rows.List(ctx, m, r)
}

// WaitingOf returns the number of waiting deliveries of webhooks, with those that will be created of events which have
// been written already.
func (s *Store) WaitingOf(ctx context.Context, m workspace.Membership, ids ...string) (map[string]int64, error) {
	ctx, err := m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		WebhookID string
		N         int64
	}
	err = s.DB.NewSelect().Model((*Delivery)(nil)).Column("webhook_id").ColumnExpr("count(*) AS n").
		Where("workspace_id = ?", m.ID()).Where("webhook_id IN (?)", bun.In(ids)).Where("status = ?", Waiting).
		Group("webhook_id").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting deliveries: %w", err)
	}
	waiting, err := s.unreadOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		waiting[row.WebhookID] += row.N
	}
	return waiting, nil
}

// countWaiting counts the waiting deliveries of a webhook that match, up to a limit.
func (s *Store) countWaiting(
	ctx context.Context, w *Webhook, limit int, match func(*bun.SelectQuery) *bun.SelectQuery,
) (int, error) {
	waiting := match(s.DB.NewSelect().Model((*Delivery)(nil)).Column("id").Where("webhook_id = ?", w.ID).
		Where("status = 'WAITING'")).Limit(int64(limit))
	n, err := s.DB.NewSelect().TableExpr("(?) AS waiting", waiting).Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("counting deliveries: %w", err)
	}
	return int(n), nil
}

// AttemptsOf returns the attempts of deliveries, oldest first.
func (s *Store) AttemptsOf(ctx context.Context, m workspace.Membership, ids ...string) (map[string][]*Attempt, error) {
	ctx, err := m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return nil, err
	}
	var rows []*Attempt
	err = s.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID()).Where("delivery_id IN (?)", bun.In(ids)).
		Order("delivery_id", "number").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading attempts: %w", err)
	}
	attempts := map[string][]*Attempt{}
	for _, row := range rows {
		attempts[row.DeliveryID] = append(attempts[row.DeliveryID], row)
	}
	return attempts, nil
}

// skipWaiting marks the waiting deliveries of a webhook as skipped.
func skipWaiting(ctx context.Context, tx bun.Tx, webhookID string) error {
	_, err := tx.NewUpdate().Model((*Delivery)(nil)).Set("status = ?", Skipped).Set("body = NULL").
		Set("due_at = NULL").Set("claimed_until = NULL").Where("webhook_id = ?", webhookID).Where("status = ?", Waiting).Exec(ctx)
	if err != nil {
		return fmt.Errorf("skipping deliveries: %w", err)
	}
	return nil
}

// ForgetBodies removes the bodies of waiting deliveries that may have data of purged links. They are rendered again
// before they are sent.
func ForgetBodies(ctx context.Context, d *db.DB, tx bun.Tx, workspaceIDs, linkIDs []string) error {
	var ids []string
	// Claims change several deliveries, too, and hold the lock of their webhook.
	webhooks := tx.NewSelect().Model((*Webhook)(nil)).Column("id").
		Where("workspace_id IN (?)", bun.In(workspaceIDs)).Order("id")
	if err := d.ForChange(webhooks).Scan(ctx, &ids); err != nil {
		return fmt.Errorf("locking webhooks: %w", err)
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.NewUpdate().Model((*Delivery)(nil)).Set("body = NULL").Where("webhook_id IN (?)", bun.In(ids)).
		Where("status = ?", Waiting).Where("subject_id IN (?) OR type = ?", bun.In(linkIDs), audit.LinkClicked).Exec(ctx)
	if err != nil {
		return fmt.Errorf("removing the bodies of deliveries: %w", err)
	}
	return nil
}

// renderAnew has the waiting deliveries of a webhook rendered before their next attempt.
func renderAnew(ctx context.Context, tx bun.Tx, webhookID string) error {
	_, err := tx.NewUpdate().Model((*Delivery)(nil)).Set("body = NULL").Where("webhook_id = ?", webhookID).
		Where("status = ?", Waiting).Exec(ctx)
	if err != nil {
		return fmt.Errorf("removing rendered bodies: %w", err)
	}
	return nil
}

// requeue makes the deliveries of a locked webhook that match wait for their first attempt. They are due when
// release has been called.
func requeue(ctx context.Context, tx bun.Tx, w *Webhook, match func(*bun.UpdateQuery) *bun.UpdateQuery) error {
	q := tx.NewUpdate().Model((*Delivery)(nil)).Set("status = ?", Waiting).Set("tries = 0").Set("first_tried_at = NULL").
		Set("due_at = NULL").Set("claimed_until = NULL").Where("webhook_id = ?", w.ID)
	if _, err := match(q).Exec(ctx); err != nil {
		return fmt.Errorf("starting deliveries again: %w", err)
	}
	return nil
}

// release makes the first of the deliveries due that wait for their first attempt, for each of the
// subjects; none means all.
func release(ctx context.Context, tx bun.Tx, webhookID string, now time.Time, subjects ...string) error {
	first := tx.NewSelect().TableExpr("webhook_deliveries AS first").ColumnExpr("min(first.number)").
		Where("first.webhook_id = ?", webhookID).Where("first.status = 'WAITING'").Where("first.tries = 0").
		Group("first.subject_id")
	q := tx.NewUpdate().Model((*Delivery)(nil)).Set("due_at = ?", now).Where("webhook_id = ?", webhookID).
		Where("status = 'WAITING'").Where("tries = 0").Where("due_at IS NULL")
	if len(subjects) > 0 {
		first = first.Where("first.subject_id IN (?)", bun.In(subjects))
		q = q.Where("subject_id IN (?)", bun.In(subjects))
	}
	// IS TRUE has PostgreSQL evaluate the subquery once. As a join it would be evaluated for each row while there are
	// no statistics on new rows, which takes seconds for thousands of deliveries.
	q = q.Where("(number IN (?)) IS TRUE", first)
	if _, err := q.Exec(ctx); err != nil {
		return fmt.Errorf("releasing deliveries: %w", err)
	}
	return nil
}
