package webhook

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
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
		if err := d.sendNext(ctx, w); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// sendNext claims due deliveries of a webhook, of which due has read a part, and sends them in the background. They use
// connections to its host, also if the URL has changed meanwhile.
func (d *Dispatcher) sendNext(ctx context.Context, w *Webhook) error {
	slots := d.reserve(w.Host, maxInFlight)
	if slots == 0 {
		return nil
	}
	attempts, wait := d.pace.take(w, slots)
	if attempts == 0 {
		d.free(w.Host, slots)
		d.pause(w.ID, wait)
		return nil
	}
	c, err := d.claim(ctx, w.ID, attempts)
	for _, delivery := range c.deliveries {
		d.flights.Go(func() {
			defer d.Wake()
			defer d.free(w.Host, 1)
			d.deliver(ctx, c.webhook, delivery)
		})
	}
	d.free(w.Host, slots-len(c.deliveries))
	d.pace.giveBack(w, attempts-len(c.deliveries))
	return err
}

// reserve reserves up to limit free connections to a host, and returns how many.
func (d *Dispatcher) reserve(host string, limit int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := max(0, min(limit, maxPerHost-d.hosts[host], maxSending-d.sending))
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
	var o outcome
	err := recovered(func() error {
		body, err := d.bodyOf(sending, w, delivery)
		if err == nil {
			o, err = d.send(sending, w, delivery.EventID, body)
		}
		return err
	})
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
		d.Log.Log(ctx, errs.LogLevel(err), "sending to a webhook failed", "error", err)
	}
}

// mayAttempt consumes an attempt of the rates. If none is left, it pauses the webhook.
func (d *Dispatcher) mayAttempt(ctx context.Context, w *Webhook) bool {
	if ctx.Err() != nil {
		return false
	}
	if d.charge(ctx, w) == nil {
		return true
	}
	d.pause(w.ID, time.Second)
	return false
}

// reserveTest reserves a connection for a test of a webhook, and consumes an attempt of its rates. The caller calls done
// after the attempt. It returns RateLimited.
func (d *Dispatcher) reserveTest(ctx context.Context, w *Webhook) (done func(), err error) {
	if d.reserve(w.Host, 1) == 0 {
		return nil, errs.New(errs.RateLimited, "All connections to the host of this webhook are in use. "+
			"Try again in a moment.").After(time.Second)
	}
	done = func() { d.free(w.Host, 1) }
	if n, wait := d.pace.take(w, 1); n == 0 {
		done()
		return nil, errs.New(errs.RateLimited, "This webhook sends as many requests as it may. Try again in a moment.").
			After(wait)
	}
	if err := d.charge(ctx, w); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// charge consumes an attempt of the rates of a webhook and its workspace. It returns RateLimited.
func (d *Dispatcher) charge(ctx context.Context, w *Webhook) error {
	if err := d.Limits.Charge(ctx, webhookRate, w.ID); err != nil {
		return err
	}
	return d.Limits.Charge(ctx, workspaceRate, w.WorkspaceID)
}

// pause has the webhook send nothing on this node for a duration.
func (d *Dispatcher) pause(webhookID string, duration time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pausedUntil[webhookID] = d.Now().Add(duration)
}

// forgetPauses drops pauses that have ended, so that deleted webhooks take no memory.
func (d *Dispatcher) forgetPauses() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	maps.DeleteFunc(d.pausedUntil, func(_ string, until time.Time) bool { return !now.Before(until) })
}
