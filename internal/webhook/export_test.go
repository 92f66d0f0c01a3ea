package webhook

import (
	"context"
	"maps"
	"slices"

	"github.com/linkforge/linkforge/internal/ratelimit"
)

// SendNext claims and sends due deliveries of a webhook whose host was read before, and waits for the requests.
func (d *Dispatcher) SendNext(ctx context.Context, webhookID, host string) error {
	err := d.sendNext(ctx, &Webhook{ID: webhookID, Host: host})
	d.flights.Wait()
	return err
}

// Claim claims due deliveries of a webhook, which are not sent, and returns their number.
func (d *Dispatcher) Claim(ctx context.Context, webhookID string) (int, error) {
	c, err := d.claim(ctx, webhookID, maxInFlight)
	return len(c.deliveries), err
}

// ClaimForLater claims the due deliveries of a webhook, and returns a function that sends them.
func (d *Dispatcher) ClaimForLater(ctx context.Context, webhookID string) (send func(), err error) {
	c, err := d.claim(ctx, webhookID, maxInFlight)
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

// Connections returns the reserved connections by host.
func (d *Dispatcher) Connections() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.hosts)
}

// DeliverLate claims the due deliveries of a webhook and delivers them after an interrupt of Run, which ends ctx.
func (d *Dispatcher) DeliverLate(ctx context.Context, webhookID string) error {
	ctx, cancel := context.WithCancel(ctx)
	c, err := d.claim(ctx, webhookID, maxInFlight)
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

// Reserve reserves all connections to a host, until the caller frees them.
func (d *Dispatcher) Reserve(host string) (free func()) {
	n := d.reserve(host, maxPerHost)
	return func() { d.free(host, n) }
}

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
	_, paused := d.busy()
	return slices.Contains(paused, webhookID)
}
