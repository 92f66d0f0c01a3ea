package webhook

import (
	"context"
	"errors"
	"time"
)

// pauseAfterError is how long a webhook sends nothing after a request that could not be prepared.
const pauseAfterError = 10 * time.Second

func (d *Dispatcher) sendUnlessStopped(ctx context.Context) error {
	stopped, err := d.checkStop(ctx)
	if err != nil || stopped {
		return err
	}
	return d.sendDue(ctx)
}

// sendDue claims due deliveries, and sends them in the background.
func (d *Dispatcher) sendDue(ctx context.Context) error {
	due, err := d.due(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, w := range due {
		if err := d.sendNext(ctx, w.ID, w.Host); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// sendNext claims due deliveries of a webhook and sends them in the background. They use connections to the
// host, also if the URL of the webhook has changed meanwhile.
func (d *Dispatcher) sendNext(ctx context.Context, webhookID, host string) error {
	slots := d.reserve(host)
	if slots == 0 {
		return nil
	}
	c, err := d.claim(ctx, webhookID, slots)
	for _, delivery := range c.deliveries {
		d.flights.Go(func() {
			defer d.Wake()
			defer d.free(host, 1)
			d.deliver(ctx, c.webhook, delivery)
		})
	}
	d.free(host, slots-len(c.deliveries))
	return err
}

// reserve reserves free connections to a host, up to the number that one webhook may use.
func (d *Dispatcher) reserve(host string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := max(0, min(maxInFlight, maxPerHost-d.hosts[host], maxSending-d.sending))
	d.hosts[host] += n
	d.sending += n
	return n
}

// free returns n connections to a host.
func (d *Dispatcher) free(host string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sending -= n
	if d.hosts[host] -= n; d.hosts[host] <= 0 {
		delete(d.hosts, host)
	}
}

// busy returns the hosts without a free connection, and the ids of the paused webhooks.
func (d *Dispatcher) busy() (hosts, paused []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for host, n := range d.hosts {
		if n >= maxPerHost {
			hosts = append(hosts, host)
		}
	}
	now := d.Now()
	for webhookID, until := range d.pausedUntil {
		if now.Before(until) {
			paused = append(paused, webhookID)
		}
	}
	return hosts, paused
}

// deliver sends a claimed delivery and records the attempt. An interrupted one is released.
func (d *Dispatcher) deliver(ctx context.Context, w *Webhook, delivery *Delivery) {
	sending := d.attemptContext(ctx)
	// An attempt that begins after the last interrupt of Run would keep Run waiting.
	if ctx.Err() != nil || !d.mayAttempt(sending, w) {
		d.report(ctx, d.unclaim(context.WithoutCancel(ctx), delivery))
		return
	}
	body, err := d.bodyOf(sending, w, delivery)
	var o outcome
	if err == nil {
		o, err = d.send(sending, w, delivery.EventID, body)
	}
	recording := context.WithoutCancel(ctx)
	if err != nil {
		if sending.Err() == nil { // it was not interrupted
			d.report(ctx, err)
			d.pause(w.ID, pauseAfterError)
		}
		d.report(ctx, d.unclaim(recording, delivery))
		return
	}
	d.report(ctx, d.record(recording, w, delivery, o))
}

func (d *Dispatcher) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		d.Log.ErrorContext(ctx, "sending to a webhook failed", "error", err)
	}
}

// mayAttempt consumes an attempt of the rates. If none is left, it pauses the webhook.
func (d *Dispatcher) mayAttempt(ctx context.Context, w *Webhook) bool {
	if ctx.Err() != nil {
		return false
	}
	if d.Limits.Charge(ctx, webhookRate, w.ID) == nil && d.Limits.Charge(ctx, workspaceRate, w.WorkspaceID) == nil {
		return true
	}
	d.pause(w.ID, time.Second)
	return false
}

// pause has the webhook send nothing on this node for a duration.
func (d *Dispatcher) pause(webhookID string, duration time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pausedUntil[webhookID] = d.Now().Add(duration)
}
