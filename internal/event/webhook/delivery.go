package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
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
	// Clicks is the size of a batch, ClickIDs are the ids of its clicks, separated by spaces.
	Clicks   int64
	ClickIDs string `bun:"click_ids"`
	// SubjectID is the ID of the event's subject. First attempts about it are sent in the order of
	// Number, which is that of the event in the log.
	SubjectID string
	Type      audit.Action
	Number    int64
	Status    DeliveryStatus
	// Tries is the number of attempts since the schedule began, FirstTriedAt the time of the first.
	Tries        int
	FirstTriedAt *time.Time
	// DueAt is nil while an earlier delivery about the subject has to be tried first, and of one
	// that does not wait.
	DueAt *time.Time
	// ClaimedUntil is until when the node that sends it has it; nil if no node does.
	ClaimedUntil *time.Time
	CreatedAt    time.Time

	// In is the membership that read it.
	In workspace.Membership `bun:"-"`
}

func (*Delivery) IsEntity() {} // an entity of Apollo Federation

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

// DeliveryRows returns the collection of all deliveries of a workspace.
func (s *Store) DeliveryRows() workspace.Collection[Delivery] {
	return workspace.Collection[Delivery]{
		DB: s.DB, Permission: workspace.WriteWebhooks, Prefix: id.Delivery, Column: "id", Omit: []string{"click_ids"},
		In: func(d *Delivery, m workspace.Membership) { d.In = m },
	}
}

// Deliveries returns one page of the deliveries of a webhook, newest first; no statuses select all.
// It returns Forbidden.
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

// WaitingOf returns the number of waiting deliveries of webhooks, including future deliveries of
// events that are written already.
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
	_, err := tx.NewUpdate().Model((*Delivery)(nil)).Set("status = ?", Skipped).
		Set("due_at = NULL").Set("claimed_until = NULL").Where("webhook_id = ?", webhookID).
		Where("status = ?", Waiting).Exec(ctx)
	if err != nil {
		return fmt.Errorf("skipping deliveries: %w", err)
	}
	return nil
}

// OfEvents returns new deliveries of selected events for a webhook, by position, and the position
// of the last one.
func (s *Store) OfEvents(
	ctx context.Context, w *Webhook, events *bun.SelectQuery,
) (rows []*Delivery, last feed.Position, err error) {
	var found []audit.Written
	err = events.Column("id", "action", "xid", "seq", "target_id").Where("created_at > ?",
		s.now().Add(-audit.FeedRetention)).Scan(ctx, &found)
	if err != nil {
		return nil, last, fmt.Errorf("reading events for a webhook: %w", err)
	}
	for _, e := range found {
		last = e.Position
		rows = append(rows,
			s.NewDelivery(w, Delivery{EventID: e.ID, SubjectID: e.TargetID, Type: e.Action, Number: e.Seq}))
	}
	return rows, last, nil
}

// NewDelivery completes a delivery for a webhook.
func (s *Store) NewDelivery(w *Webhook, d Delivery) *Delivery {
	d.ID, d.WorkspaceID, d.WebhookID, d.Status, d.CreatedAt = id.New(id.Delivery), w.WorkspaceID, w.ID, Waiting, s.now()
	return &d
}

// Add stores deliveries of webhooks, which the caller has locked and makes due. Events that have a
// delivery get no other one.
func (s *Store) Add(ctx context.Context, tx bun.Tx, deliveries []*Delivery) error {
	err := db.InsertRows(ctx, tx, db.Insert{Rest: "ON CONFLICT (webhook_id, event_id) DO NOTHING"}, deliveries)
	if err != nil {
		return fmt.Errorf("storing deliveries: %w", err)
	}
	return nil
}

// Touch makes a webhook due, and locks it before its deliveries, as claims do.
func (s *Store) Touch(ctx context.Context, tx bun.Tx, webhookID string) error {
	_, err := tx.NewUpdate().Model((*Webhook)(nil)).Set("due_at = ?", s.now()).Where("id = ?", webhookID).Exec(ctx)
	return err
}
