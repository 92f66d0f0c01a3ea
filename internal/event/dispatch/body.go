package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// maxBody is the maximum size of a body in bytes, except for batches of clicks.
	maxBody = 32 << 10
	// maxClickBody is that of a batch of clicks, envelope that of a body without its clicks.
	maxClickBody = 128 << 10
	envelope     = 512
)

// bodyOf renders the body of a delivery.
func (d *Dispatcher) bodyOf(ctx context.Context, w *webhook.Webhook, delivery *webhook.Delivery) (string, error) {
	m, err := d.Workspaces.ForDeliveries(ctx, w.WorkspaceID)
	if err != nil {
		return "", err
	}
	if delivery.Type == audit.LinkClicked {
		return d.clicksBody(ctx, m, w, delivery)
	}
	inside, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return "", err
	}
	events, err := audit.Many(inside, d.DB, w.WorkspaceID, delivery.EventID)
	if err != nil {
		return "", err
	}
	if len(events) == 0 {
		return "", fmt.Errorf("the event %s is not in the log", delivery.EventID)
	}
	rendered, err := d.eventMessage(ctx, m, events[0])
	return encode(rendered), err
}

// eventMessage renders an event: without its changes if the body is too large with them.
func (d *Dispatcher) eventMessage(ctx context.Context, m workspace.Membership, e *audit.Event) (message, error) {
	changes, err := e.FieldChanges()
	if err != nil {
		return message{}, fmt.Errorf("reading the changes of an event: %w", err)
	}
	links, err := d.Links.Many(ctx, m, e.TargetID)
	if err != nil {
		return message{}, err
	}
	rendered := newMessage(e, d.eventData(e, changes, links[e.TargetID]))
	if len(encode(rendered)) > maxBody {
		rendered.Data, rendered.Truncated = d.eventData(e, nil, links[e.TargetID]), true
	}
	return rendered, nil
}

// clicksBody renders a batch of clicks. Clicks that have been removed since are missing. If the
// body is too large, the last clicks become another delivery.
func (d *Dispatcher) clicksBody(
	ctx context.Context, m workspace.Membership, w *webhook.Webhook, delivery *webhook.Delivery,
) (string, error) {
	firstAt, _, ok := click.SplitID(delivery.EventID)
	if !ok {
		return "", fmt.Errorf("%q is not the id of a click", delivery.EventID)
	}
	clicks, err := d.clicksByID(ctx, m, strings.Fields(delivery.ClickIDs))
	if err != nil {
		return "", err
	}
	var linkIDs []string
	for _, c := range clicks {
		linkIDs = append(linkIDs, c.LinkID)
	}
	links, err := d.Links.Many(ctx, m, linkIDs...)
	if err != nil {
		return "", err
	}
	data := make([]json.RawMessage, 0, len(clicks))
	for _, c := range clicks {
		data = append(data, json.RawMessage(encode(d.clickData(c, links[c.LinkID]))))
	}
	if end := fitting(data); end < len(data) {
		if err := d.split(ctx, w, delivery, clicks, end); err != nil {
			return "", err
		}
		data = data[:end]
	}
	return encode(message{
		Type: typeName(audit.LinkClicked), Timestamp: firstAt.UTC(), WorkspaceID: w.WorkspaceID,
		Data: object{{"clicks", data}},
	}), nil
}

// fitting returns how many of the rendered clicks fit into a body, at least one.
func fitting(data []json.RawMessage) int {
	size := envelope
	for i := range data {
		if size += len(data[i]) + 1; i > 0 && size > maxClickBody {
			return i
		}
	}
	return len(data)
}

// split moves clicks of a claimed delivery to a new one.
func (d *Dispatcher) split(
	ctx context.Context, w *webhook.Webhook, delivery *webhook.Delivery, clicks []*click.Click, end int,
) error {
	err := d.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		if err := d.Touch(ctx, tx, w.ID); err != nil {
			return err
		}
		n, err := db.Affected(tx.NewUpdate().Model((*webhook.Delivery)(nil)).Set("clicks = ?", end).
			Set("click_ids = ?", idsOf(clicks[:end])).
			Where("id = ?", delivery.ID).Where("claimed_until = ?", delivery.ClaimedUntil).Exec(ctx))
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the claim of the delivery was lost")
		}
		return d.Add(ctx, tx, []*webhook.Delivery{d.batch(w, clicks[end:])})
	})
	if err != nil {
		return fmt.Errorf("splitting a batch of clicks: %w", err)
	}
	return nil
}

// clicksByID returns the stored clicks with the ids, in their order.
func (d *Dispatcher) clicksByID(
	ctx context.Context, m workspace.Membership, ids []string,
) (clicks []*click.Click, err error) {
	if ctx, err = m.Enter(ctx, workspace.ReadStats); err != nil {
		return nil, err
	}
	found, err := d.Clicks.ByID(ctx, m.ID(), ids...)
	if err != nil {
		return nil, err
	}
	byID := map[string]*click.Click{}
	for _, c := range found {
		byID[c.PublicID()] = c
	}
	for _, clickID := range ids {
		if c := byID[clickID]; c != nil {
			clicks = append(clicks, c)
		}
	}
	return clicks, nil
}

// message is the body of a request.
type message struct {
	Type        string    `json:"type"`
	Timestamp   time.Time `json:"timestamp"`
	WorkspaceID string    `json:"workspaceId"`
	Data        any       `json:"data"`
	Truncated   bool      `json:"truncated,omitempty"`
	Test        bool      `json:"test,omitempty"`
}

func newMessage(e *audit.Event, data any) message {
	return message{Type: typeName(e.Action), Timestamp: e.At().UTC(), WorkspaceID: e.WorkspaceID, Data: data}
}

// typeName is the name of a type in bodies: link.updated for LINK_UPDATED.
func typeName(t audit.Action) string { return strings.Replace(strings.ToLower(string(t)), "_", ".", 1) }
