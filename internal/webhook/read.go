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
	"github.com/linkforge/linkforge/internal/feed"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// maxUntried is how many deliveries of events a webhook has before their first attempt. Its other events are read
	// when there is room: a webhook sends at a bounded rate, so deliveries further ahead would only cost earlier.
	maxUntried = 200
	// MaxBody is the maximum size of a body in bytes, except for batches of clicks.
	MaxBody = 32 << 10
	// readTimeout bounds the rendering and storing of a batch of deliveries.
	readTimeout = 30 * time.Second
)

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

// readEvents creates the deliveries of the next events of a webhook for which there is room. The bodies are rendered
// before the transaction. If another node has moved the position, nothing is stored.
func (d *Dispatcher) readEvents(ctx context.Context, webhookID string) (progress, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	w, err := d.byID(ctx, d.DB, webhookID)
	if err != nil || w == nil || w.Status != Active {
		return caughtUp, err
	}
	m, err := d.Workspaces.ForDeliveries(ctx, w.WorkspaceID)
	if errs.Is(err, errs.NotFound) { // deleted; restoring it continues from the position
		return caughtUp, nil
	}
	if err != nil {
		return caughtUp, err
	}
	if ctx, err = m.Enter(ctx, workspace.ReadLinks); err != nil {
		return caughtUp, err
	}
	room, err := d.room(ctx, w)
	if err != nil {
		return caughtUp, err
	}
	if room == 0 {
		return isFull, nil
	}
	return d.readUpTo(ctx, m, w, room)
}

// room returns how many deliveries of events may be created for a webhook. Those of clicks have a bound of their own.
func (d *Dispatcher) room(ctx context.Context, w *Webhook) (int, error) {
	n, err := d.countWaiting(ctx, w, maxUntried, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("tries = 0").Where("type <> ?", audit.LinkClicked)
	})
	return maxUntried - n, err
}

// readUpTo creates the deliveries of at most limit events. The context is that of the workspace.
func (d *Dispatcher) readUpTo(
	ctx context.Context, m workspace.Membership, w *Webhook, limit int,
) (progress, error) {
	reached, err := audit.Horizon(ctx, d.DB)
	if err != nil {
		return caughtUp, err
	}
	rows, err := audit.Read(ctx, d.DB, audit.LogRequest{
		WorkspaceIDs: []string{w.WorkspaceID}, Actions: logged(w.Types), After: w.Position, UpTo: reached, Limit: limit,
	})
	if err != nil {
		return caughtUp, err
	}
	p := caughtUp
	if len(rows) == limit {
		p, reached = hasMore, feed.Position{XID: rows[limit-1].XID, Seq: rows[limit-1].Seq}
	}
	deliveries, problem, err := d.prepare(ctx, m, w, rows)
	if err != nil {
		return caughtUp, err
	}
	stored, err := d.storeEvents(ctx, w, deliveries, reached, problem)
	if err != nil {
		return caughtUp, err
	}
	if !stored {
		return hasMore, nil
	}
	if len(deliveries) > 0 {
		d.Wake()
	}
	return p, nil
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
		text := ""
		if data[i] != nil {
			text = newMessage(e, data[i], false).encode()
		}
		if text == "" || len(text) > MaxBody {
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
		if data[0] == nil {
			continue
		}
		message := newMessage(e, data[0], false)
		message.Truncated = true
		if text := message.encode(); len(text) <= MaxBody {
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
	ctx context.Context, w *Webhook, deliveries []*Delivery, reached feed.Position, problem string,
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
