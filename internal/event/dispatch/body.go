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
	// MaxBody is the maximum size of a body in bytes, except for batches of clicks.
	MaxBody = 32 << 10
	// maxClickBody is that of a batch of clicks, envelope that of a body without its clicks.
	maxClickBody = 128 << 10
	envelope     = 512
)

// Renderer renders the data of bodies. It reads what LINKS_READ and STATS_READ permit, and no data
// of users.
type Renderer interface {
	// Event returns the data of an event; nil if it has more than MaxBody bytes. With problem, the
	// selection is not valid any more, and the default data was rendered. After an error, rendering
	// again can succeed.
	Event(ctx context.Context, m workspace.Membership, selection *string, e *audit.Event) (data json.RawMessage,
		problem string, err error)
	// Clicks returns the data of each of a batch of clicks.
	Clicks(ctx context.Context, m workspace.Membership, clicks []*click.Click) ([]json.RawMessage, error)
}

// bodyOf renders the body of a delivery. With problem, the selection is not valid any more.
func (d *Dispatcher) bodyOf(
	ctx context.Context, w *webhook.Webhook, delivery *webhook.Delivery,
) (body string, problem string, err error) {
	m, err := d.Workspaces.ForDeliveries(ctx, w.WorkspaceID)
	if err != nil {
		return "", "", err
	}
	if delivery.Type == audit.LinkClicked {
		body, err = d.clicksBody(ctx, m, w, delivery)
		return body, "", err
	}
	inside, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return "", "", err
	}
	events, err := audit.Many(inside, d.DB, w.WorkspaceID, delivery.EventID)
	if err != nil {
		return "", "", err
	}
	if len(events) == 0 {
		return "", "", fmt.Errorf("the event %s is not in the log", delivery.EventID)
	}
	rendered, problem, err := d.eventMessage(ctx, m, w, events[0])
	return rendered.encode(), problem, err
}

// eventMessage renders an event: with the selection, if the body is too large with the default
// data, and if it still is without changes.
func (d *Dispatcher) eventMessage(
	ctx context.Context, m workspace.Membership, w *webhook.Webhook, e *audit.Event,
) (_ message, problem string, err error) {
	short := *e
	short.Changes = nil
	for i, try := range []struct {
		selection *string
		event     *audit.Event
	}{{w.Selection, e}, {nil, e}, {nil, &short}} {
		data, failed, err := d.Renderer.Event(ctx, m, try.selection, try.event)
		if err != nil {
			return message{}, "", err
		}
		if i == 0 {
			problem = failed
		}
		if data == nil {
			continue
		}
		rendered := newMessage(e, data)
		rendered.Truncated = i > 0
		if len(rendered.encode()) <= MaxBody {
			return rendered, problem, nil
		}
	}
	return message{}, "", errors.New("the default data of an event is too large")
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
	data, err := d.Renderer.Clicks(ctx, m, clicks)
	if err != nil {
		return "", err
	}
	if end := fitting(data); end < len(data) {
		if err := d.split(ctx, w, delivery, clicks, end); err != nil {
			return "", err
		}
		data = data[:end]
	}
	return message{
		Type: typeName(audit.LinkClicked), Timestamp: firstAt.UTC(), WorkspaceID: w.WorkspaceID, Data: clickData{data},
	}.encode(), nil
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

// clickData is the data of a batch of clicks.
type clickData struct {
	Clicks []json.RawMessage `json:"clicks"`
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
