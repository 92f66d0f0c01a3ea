package webhook

import (
	"context"
	"maps"
	"slices"

	"github.com/linkforge/linkforge/internal/admission"
	"github.com/linkforge/linkforge/internal/ratelimit"
)

// SendNext claims and sends due deliveries of a webhook whose host was read before, and waits for the requests.
func (d *Dispatcher) SendNext(ctx context.Context, webhookID, host string) error {
	_, err := d.sendNext(ctx, &target{ID: webhookID, Host: host, Concurrency: maxConcurrency})
	d.flights.Wait()
	return err
}

// Claim claims due deliveries of a webhook, which are not sent, and returns their number.
func (d *Dispatcher) Claim(ctx context.Context, webhookID string) (int, error) {
	c, err := d.claim(ctx, webhookID, maxConcurrency)
	return len(c.deliveries), err
}

// ClaimForLater claims the due deliveries of a webhook, and returns a function that sends them.
func (d *Dispatcher) ClaimForLater(ctx context.Context, webhookID string) (send func(), err error) {
	c, err := d.claim(ctx, webhookID, maxConcurrency)
	return func() {
		for _, delivery := range c.deliveries {
			d.deliver(ctx, c.webhook, delivery)
		}
	}, err
}

// ReadEvents creates deliveries of new events.
func (d *Dispatcher) ReadEvents(ctx context.Context, webhookID string) error {
	_, err := d.readEvents(ctx, webhookID)
	return err
}

// InFlight returns the number of requests in flight.
func (d *Dispatcher) InFlight() int64 { return d.sending.Used(allRequests) }

// Due returns the ids of the webhooks that may send, in their order.
func (d *Dispatcher) Due(ctx context.Context) (ids []string, err error) {
	rows, err := d.due(ctx)
	for _, t := range rows {
		ids = append(ids, t.ID)
	}
	return ids, err
}

// Occupy takes up to n requests of the shares of a webhook, and returns how many.
func (d *Dispatcher) Occupy(ctx context.Context, webhookID string, n int64) (int64, error) {
	t, err := d.targetOf(ctx, webhookID)
	if err != nil {
		return 0, err
	}
	return d.sending.Take(n, t.bounds()...), nil
}

// DeliverLate claims the due deliveries of a webhook and delivers them after an interrupt of Run, which ends ctx.
func (d *Dispatcher) DeliverLate(ctx context.Context, webhookID string) error {
	ctx, cancel := context.WithCancel(ctx)
	c, err := d.claim(ctx, webhookID, maxConcurrency)
	cancel()
	d.interrupt()
	for _, delivery := range c.deliveries {
		d.deliver(ctx, c.webhook, delivery)
	}
	return err
}

// FindEvents searches for webhooks behind the event log, and returns the ids of all that are behind.
func (d *Dispatcher) FindEvents(ctx context.Context) ([]string, error) {
	err := d.findEvents(ctx)
	return slices.Sorted(maps.Keys(d.events.behind)), err
}

// FindClicks searches for webhooks with new clicks, and returns the ids of all that are behind.
func (d *Dispatcher) FindClicks(ctx context.Context) ([]string, error) {
	err := d.findClicks(ctx)
	return slices.Sorted(maps.Keys(d.clicks.behind)), err
}

// ReadClicks reads the clicks of all webhooks that are behind.
func (d *Dispatcher) ReadClicks(ctx context.Context) error {
	for len(d.clicks.behind) > 0 {
		for webhookID, b := range d.clicks.take() {
			p, err := d.readClicks(ctx, webhookID)
			if d.clicks.finish(ctx, webhookID, b, p, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// Vacate returns all requests that Occupy took.
func (d *Dispatcher) Vacate() { d.sending = admission.Shares{} }

// UseUpRate consumes all attempts of a webhook's rate, or of that of its workspace.
func (d *Dispatcher) UseUpRate(ctx context.Context, w *Webhook, ofWorkspace bool) {
	rate, subject := webhookRate, w.ID
	if ofWorkspace {
		rate, subject = workspaceRate, w.WorkspaceID
	}
	_, _ = d.Limits.Spend(ctx, rate, subject, rate.Attempts)
}

// EnforceRates bounds the attempts of this node.
func (d *Dispatcher) EnforceRates() { d.pace = newPace(d.Now, false) }

// Rates returns the rates of a webhook and of its workspace.
func Rates() (ofWebhook, ofWorkspace ratelimit.Rate) { return webhookRate, workspaceRate }

// IsPaused reports whether a webhook sends nothing on this node for a while.
func (d *Dispatcher) IsPaused(webhookID string) bool {
	return slices.Contains(d.paused(), webhookID)
}
