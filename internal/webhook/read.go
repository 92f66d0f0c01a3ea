package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// maxEvents is how many events of a webhook are read at once.
	maxEvents = 200
	// maxBody bounds a body.
	maxBody = 32 << 10
	// readTimeout bounds the rendering and storing of a batch of deliveries.
	readTimeout = 30 * time.Second
)

// activeIn returns the active webhooks of workspaces, with the columns that tell whether events match.
func (s *Store) activeIn(ctx context.Context, workspaceIDs []string) (rows []*Webhook, err error) {
	err = s.DB.NewSelect().Model(&rows).Column("id", "workspace_id", "types").Where("status = ?", Active).
		Where("workspace_id IN (?)", bun.In(workspaceIDs)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking up webhooks: %w", err)
	}
	return rows, nil
}

// behindLog returns the ids of the active webhooks with events after their position.
func (s *Store) behindLog(ctx context.Context) (ids []string, err error) {
	later := s.DB.NewSelect().TableExpr("audit_events AS event").ColumnExpr("1").
		Where("event.workspace_id = webhook.workspace_id").Where("event.seq IS NOT NULL").
		Where("(event.xid, event.seq) > (webhook.xid, webhook.seq)")
	err = s.DB.NewSelect().Model((*Webhook)(nil)).Column("id").Where("status = ?", Active).Where("EXISTS (?)", later).
		Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("looking up webhooks behind the event log: %w", err)
	}
	return ids, nil
}

// byID returns a webhook, whatever its workspace; nil if there is none.
func (s *Store) byID(ctx context.Context, conn bun.IDB, webhookID string) (*Webhook, error) {
	var rows []*Webhook
	if err := conn.NewSelect().Model(&rows).Where("id = ?", webhookID).Scan(db.AsSystem(ctx)); err != nil {
		return nil, fmt.Errorf("looking up a webhook: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return rows[0], nil
}

// read creates the deliveries of the next events of a webhook, and reports whether more may follow. The
// bodies are rendered before the transaction. If another node has moved the position, nothing is stored.
func (d *Dispatcher) read(ctx context.Context, webhookID string) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	w, err := d.byID(ctx, d.DB, webhookID)
	if err != nil || w == nil || w.Status != Active {
		return false, err
	}
	m, err := d.Workspaces.ForDeliveries(ctx, w.WorkspaceID)
	if errs.Is(err, errs.NotFound) { // deleted; restoring it continues from the position
		return false, nil
	}
	if err != nil {
		return false, err
	}
	inside, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return false, err
	}
	reached, err := audit.Horizon(inside, d.DB)
	if err != nil {
		return false, err
	}
	rows, err := audit.Read(inside, d.DB, audit.LogRequest{
		WorkspaceIDs: []string{w.WorkspaceID}, Actions: logged(w.Types), After: w.Position, UpTo: reached,
		Limit: maxEvents,
	})
	if err != nil {
		return false, err
	}
	if more = len(rows) == maxEvents; more {
		last := rows[maxEvents-1]
		reached = audit.Position{XID: last.XID, Seq: last.Seq}
	}
	deliveries, problem, err := d.prepare(inside, m, w, rows)
	if err != nil {
		return false, err
	}
	stored, err := d.storeEvents(ctx, w, deliveries, reached, problem)
	return more || !stored, err
}

// logged returns the types that are in the event log.
func logged(types []audit.Action) []audit.Action {
	return slices.DeleteFunc(slices.Clone(types), func(t audit.Action) bool { return t == audit.LinkClicked })
}

// prepare renders the deliveries of the events that match the tags of a webhook.
func (d *Dispatcher) prepare(
	ctx context.Context, m workspace.Membership, w *Webhook, rows []*audit.Positioned,
) (deliveries []*Delivery, problem string, err error) {
	events, oldest := make([]*audit.Event, 0, len(rows)), d.now().Add(-audit.FeedRetention)
	for _, row := range rows {
		if row.CreatedAt.After(oldest) {
			events = append(events, &row.Event)
		}
	}
	if events, err = d.tagged(ctx, m, w, events); err != nil || len(events) == 0 {
		return nil, "", err
	}
	bodies, problem, err := d.bodies(ctx, m, w, events)
	if err != nil {
		return nil, "", err
	}
	now := d.now()
	for i, e := range events {
		deliveries = append(deliveries, &Delivery{
			ID: id.New(id.Delivery), WorkspaceID: w.WorkspaceID, WebhookID: w.ID, EventID: e.ID, SubjectID: e.TargetID,
			Type: e.Action, Number: w.LastNumber + int64(i) + 1, Body: &bodies[i], Status: Waiting, CreatedAt: now,
		})
	}
	return deliveries, problem, nil
}

// tagged keeps the events about links with one of the tags of a webhook.
func (d *Dispatcher) tagged(
	ctx context.Context, m workspace.Membership, w *Webhook, events []*audit.Event,
) ([]*audit.Event, error) {
	if len(w.Tags) == 0 || len(events) == 0 {
		return events, nil
	}
	ids := make([]string, 0, len(events))
	for _, e := range events {
		ids = append(ids, e.TargetID)
	}
	tags, err := d.Links.TagsOf(ctx, m, ids...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(events, func(e *audit.Event) bool {
		return !slices.ContainsFunc(tags[e.TargetID], func(tag string) bool { return slices.Contains(w.Tags, tag) })
	}), nil
}

// bodies renders the bodies of events.
func (d *Dispatcher) bodies(
	ctx context.Context, m workspace.Membership, w *Webhook, events []*audit.Event,
) (bodies []string, problem string, err error) {
	data, problem, err := d.Renderer.Events(ctx, m, w.Selection, events)
	if err != nil {
		return nil, "", err
	}
	for i, e := range events {
		text := newMessage(e, data[i], false).encode()
		if len(text) > maxBody {
			if text, err = d.truncated(ctx, m, e); err != nil {
				return nil, "", err
			}
		}
		bodies = append(bodies, text)
	}
	return bodies, problem, nil
}

// truncated renders the default data of an event whose body is too large. Changes are left out if they
// alone are.
func (d *Dispatcher) truncated(ctx context.Context, m workspace.Membership, e *audit.Event) (string, error) {
	for _, e := range []*audit.Event{e, withoutChanges(e)} {
		data, _, err := d.Renderer.Events(ctx, m, nil, []*audit.Event{e})
		if err != nil {
			return "", err
		}
		message := newMessage(e, data[0], false)
		message.Truncated = true
		if text := message.encode(); len(text) <= maxBody {
			return text, nil
		}
	}
	return "", errors.New("the default data of an event is too large")
}

func withoutChanges(e *audit.Event) *audit.Event {
	short := *e
	short.Changes = nil
	return &short
}

// message is the body of a request.
type message struct {
	Type        string          `json:"type"`
	Timestamp   time.Time       `json:"timestamp"`
	WorkspaceID string          `json:"workspaceId"`
	Data        json.RawMessage `json:"data"`
	Truncated   bool            `json:"truncated,omitempty"`
	Test        bool            `json:"test,omitempty"`
}

func newMessage(e *audit.Event, data json.RawMessage, test bool) message {
	return message{
		Type: typeName(e.Action), Timestamp: e.At().UTC(), WorkspaceID: e.WorkspaceID, Data: data, Test: test,
	}
}

// typeName is the name of a type in bodies: link.updated for LINK_UPDATED.
func typeName(t audit.Action) string { return strings.Replace(strings.ToLower(string(t)), "_", ".", 1) }

// encode returns the body. It does not escape characters for HTML, which would lengthen the data.
func (m message) encode() string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		panic(err) // the data is valid JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// storeEvents stores deliveries of events, and moves the position in the log. It reports false if another node
// has moved it, or the webhook is not active any more.
func (d *Dispatcher) storeEvents(
	ctx context.Context, w *Webhook, deliveries []*Delivery, reached audit.Position, problem string,
) (stored bool, err error) {
	return d.store(ctx, w, deliveries, func(q *bun.UpdateQuery) *bun.UpdateQuery {
		if len(deliveries) > 0 {
			q = q.Set("selection_error = ?", problemOf(w, problem))
		}
		return q.Set("xid = ?", reached.XID).Set("seq = ?", reached.Seq).
			Where("xid = ?", w.XID).Where("seq = ?", w.Seq).Where("status = ?", Active)
	})
}

// store inserts deliveries and moves a position of the webhook in one transaction. move sets the position on
// the condition that it is the one of w; store reports false if the condition does not hold.
func (d *Dispatcher) store(
	ctx context.Context, w *Webhook, deliveries []*Delivery, move func(*bun.UpdateQuery) *bun.UpdateQuery,
) (stored bool, err error) {
	err = d.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		stored = false
		q := move(tx.NewUpdate().Model((*Webhook)(nil))).Set("last_number = ?", w.LastNumber+int64(len(deliveries)))
		if len(deliveries) > 0 {
			q = q.Set("due_at = ?", d.now())
		}
		n, err := db.Affected(q.Where("id = ?", w.ID).Where("last_number = ?", w.LastNumber).Exec(ctx))
		if err != nil || n == 0 {
			return err
		}
		stored = true
		if len(deliveries) == 0 {
			return nil
		}
		in := db.Insert{Rest: "ON CONFLICT (webhook_id, event_id) DO NOTHING"}
		if err := db.InsertRows(ctx, tx, in, deliveries); err != nil {
			return err
		}
		return release(ctx, tx, w.ID, d.now(), subjectsOf(deliveries)...)
	})
	if err != nil {
		return false, fmt.Errorf("storing deliveries: %w", err)
	}
	return stored, nil
}

// problemOf returns the selectionError after a rendering.
func problemOf(w *Webhook, problem string) *string {
	if w.Selection == nil || problem == "" {
		return nil
	}
	return &problem
}

func subjectsOf(deliveries []*Delivery) (subjects []string) {
	for _, delivery := range deliveries {
		subjects = append(subjects, delivery.SubjectID)
	}
	slices.Sort(subjects)
	return slices.Compact(subjects)
}
