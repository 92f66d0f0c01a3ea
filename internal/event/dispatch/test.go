package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// testRate is how many tests a workspace may send.
var testRate = ratelimit.Rate{Name: "webhook tests", Attempts: 10, Window: time.Minute}

// Test sends a sample event of a type to a webhook at once, whatever its status, and returns the
// attempt, which is not stored. It returns NotFound, InvalidInput, RateLimited or Forbidden.
func (d *Dispatcher) Test(
	ctx context.Context, m workspace.Membership, webhookID string, t audit.Action,
) (*webhook.Attempt, error) {
	ctx, err := m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return nil, err
	}
	if err := errs.At(webhook.CheckType(t), "type"); err != nil {
		return nil, err
	}
	w, err := d.Get(ctx, m, webhookID)
	if err != nil {
		return nil, err
	}
	if err := webhook.CheckReads(ctx, m, w); err != nil {
		return nil, err
	}
	if w.Blocked {
		return nil, errs.New(errs.InvalidInput, "The operator of this service has disabled this webhook. "+
			"Ask the operator to enable it.").At("id")
	}
	if err := d.Limits.Charge(ctx, testRate, m.ID()); err != nil {
		return nil, err
	}
	if d.stopped.Load() {
		return nil, errStopped()
	}
	body, err := d.testBody(ctx, w, t)
	if err != nil {
		return nil, err
	}
	done, err := d.reserveTest(ctx, w)
	if err != nil {
		return nil, err
	}
	defer done()
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.attemptContext(ctx), cancel)()
	o, err := d.send(sending, w, id.New(id.Event), []byte(body))
	if err != nil && ctx.Err() == nil && sending.Err() != nil {
		return nil, errStopped()
	}
	if err != nil {
		return nil, fmt.Errorf("testing a webhook: %w", err)
	}
	return &o.Attempt, nil
}

func errStopped() error {
	return errs.New(errs.Forbidden, "The operator of this service has stopped webhooks. Try again later.")
}

// testBody renders a made-up event.
func (d *Dispatcher) testBody(ctx context.Context, w *webhook.Webhook, t audit.Action) (string, error) {
	m, err := d.Workspaces.ForDeliveries(ctx, w.WorkspaceID)
	if err != nil {
		return "", err
	}
	e := audit.New(w.WorkspaceID, "", t, id.New(id.Link), nil, d.Now())
	body := newMessage(e, object{{"clicks", []object{}}})
	if t != audit.LinkClicked {
		if body, err = d.eventMessage(ctx, m, e); err != nil {
			return "", err
		}
	}
	body.Test = true
	return encode(body), nil
}
