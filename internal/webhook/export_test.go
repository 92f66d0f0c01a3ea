package webhook

import (
	"context"
	"maps"
)

// SendNext claims and sends due deliveries of a webhook whose host was read before, and waits for the requests.
func (d *Dispatcher) SendNext(ctx context.Context, webhookID, host string) error {
	err := d.sendNext(ctx, webhookID, host)
	d.flights.Wait()
	return err
}

// Claim claims due deliveries of a webhook, which are not sent, and returns their number.
func (d *Dispatcher) Claim(ctx context.Context, webhookID string) (int, error) {
	c, err := d.claim(ctx, webhookID, maxInFlight)
	return len(c.deliveries), err
}

// ReadEvents creates deliveries of new events.
func (d *Dispatcher) ReadEvents(ctx context.Context, webhookID string) error {
	_, err := d.read(ctx, webhookID)
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
