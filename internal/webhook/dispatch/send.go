package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/webhook"
)

// maxClaims is how many webhooks send after one read of the due ones: each takes a transaction, while others wait.
const maxClaims = 8

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
	claims := 0
	for _, t := range due {
		if claims == maxClaims { // others may have become due whose turn it is
			d.Wake()
			break
		}
		tried, err := d.sendNext(ctx, t)
		if problems = append(problems, err); tried {
			claims++
		}
	}
	return errors.Join(problems...)
}

// sendNext claims due deliveries of a webhook, and sends them in the background. They use the shares of the target, also
// if the webhook has changed meanwhile. It reports whether there was room for any.
func (d *Dispatcher) sendNext(ctx context.Context, t *target) (tried bool, err error) {
	bounds := t.bounds()
	slots := d.sending.Take(t.Concurrency, bounds...)
	if slots == 0 {
		return false, nil
	}
	attempts, wait := d.pace.take(t, slots)
	if attempts == 0 {
		d.sending.Give(slots, bounds...)
		d.pause(t.ID, wait)
		return false, nil
	}
	c, err := d.claim(ctx, t.ID, attempts)
	for _, delivery := range c.deliveries {
		d.flights.Go(func() {
			defer d.Wake()
			defer d.sending.Give(1, bounds...)
			d.deliver(ctx, c.webhook, delivery)
		})
	}
	claimed := int64(len(c.deliveries))
	d.sending.Give(slots-claimed, bounds...)
	d.pace.giveBack(t, attempts-claimed)
	return true, err
}

// paused returns the ids of the paused webhooks, and forgets pauses that have ended.
func (d *Dispatcher) paused() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	maps.DeleteFunc(d.pausedUntil, func(_ string, until time.Time) bool { return !now.Before(until) })
	return slices.Collect(maps.Keys(d.pausedUntil))
}

// deliver sends a claimed delivery and records the attempt. An interrupted one is released.
func (d *Dispatcher) deliver(ctx context.Context, w *webhook.Webhook, delivery *webhook.Delivery) {
	sending := d.attemptContext(ctx)
	// An attempt that begins after the last interrupt of Run would keep Run waiting.
	if ctx.Err() != nil || !d.mayAttempt(sending, w) {
		d.report(ctx, d.unclaim(context.WithoutCancel(ctx), delivery))
		return
	}
	var o outcome
	err := recovered(func() error {
		body, problem, err := d.bodyOf(sending, w, delivery)
		if err != nil {
			return err
		}
		o, err = d.send(sending, w, delivery.EventID, []byte(body))
		if problem != "" {
			o.problem = &problem
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
func (d *Dispatcher) mayAttempt(ctx context.Context, w *webhook.Webhook) bool {
	if ctx.Err() != nil {
		return false
	}
	if d.charge(ctx, w) == nil {
		return true
	}
	d.pause(w.ID, time.Second)
	return false
}

// reserveTest takes a test of a webhook from its shares, and consumes an attempt of its rates. The caller calls done
// after the attempt. It returns RateLimited.
func (d *Dispatcher) reserveTest(ctx context.Context, w *webhook.Webhook) (done func(), err error) {
	t, err := d.targetOf(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	bounds := t.bounds()
	if d.sending.Take(1, bounds...) == 0 {
		return nil, errs.New(errs.RateLimited, "Too many requests of your webhooks or to this host are in progress. "+
			"Try again in a moment.").After(time.Second)
	}
	done = func() { d.sending.Give(1, bounds...) }
	if n, wait := d.pace.take(t, 1); n == 0 {
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
func (d *Dispatcher) charge(ctx context.Context, w *webhook.Webhook) error {
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

// recovered calls f and returns a panic as an error, with its stack, so that other webhooks continue.
func recovered(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			p := errs.Panic(value)
			err = fmt.Errorf("%w\n%s", p, p.Stack)
		}
	}()
	return f()
}
