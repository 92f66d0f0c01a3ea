package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
)

const (
	// maxClaims is how many webhooks send after one read of the due ones, at the same time.
	maxClaims = 8
	// renderTimeout bounds the rendering of a body.
	renderTimeout = 30 * time.Second
	// pauseAfterError is the time until the next attempt after a request that could not be
	// prepared.
	pauseAfterError = 10 * time.Second
)

// sendDue claims due deliveries, unless the operator has stopped all webhooks, and sends them in
// the background.
func (d *Dispatcher) sendDue(ctx context.Context) error {
	if d.stopped.Load() {
		return nil
	}
	due, err := d.due(ctx)
	if err != nil {
		return err
	}
	var claims errgroup.Group
	started := 0
	for _, t := range due {
		if started == maxClaims { // other webhooks may have become due
			d.Wake()
			break
		}
		bounds := t.bounds()
		slots := d.sending.Take(d.turns.room(t, time.Now()), bounds...)
		if slots == 0 {
			continue
		}
		started++
		claims.Go(func() error {
			n, err := d.sendNext(ctx, t.ID, slots, bounds)
			d.sending.Give(slots-n, bounds...)
			return err
		})
	}
	return claims.Wait()
}

// sendNext claims up to limit due deliveries of a webhook, and sends them in the background. Each
// gives a request back to the bounds. It returns how many they are.
func (d *Dispatcher) sendNext(
	ctx context.Context, webhookID string, limit int64, bounds []admission.Bound,
) (int64, error) {
	w, deliveries, err := d.claim(ctx, webhookID, limit)
	began := time.Now()
	d.turns.begin(webhookID, began, len(deliveries))
	for _, delivery := range deliveries {
		d.flights.Go(func() {
			defer d.Wake()
			defer func() { d.turns.end(webhookID, began, time.Now()) }()
			defer d.sending.Give(1, bounds...)
			d.deliver(ctx, w, delivery)
		})
	}
	return int64(len(deliveries)), err
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
		d.report(ctx, d.unclaim(context.WithoutCancel(ctx), delivery, 0))
		return
	}
	var o outcome
	err := recovered(func() error {
		rendering, cancel := context.WithTimeout(sending, renderTimeout)
		defer cancel()
		body, err := d.bodyOf(rendering, w, delivery)
		if err != nil {
			return err
		}
		o, err = d.send(sending, w, delivery.EventID, []byte(body))
		return err
	})
	recording := context.WithoutCancel(ctx)
	if err != nil {
		pause := time.Duration(0)
		if sending.Err() == nil { // it was not interrupted
			d.report(ctx, err)
			pause = pauseAfterError
		}
		d.report(ctx, d.unclaim(recording, delivery, pause))
		return
	}
	d.report(ctx, d.record(recording, w, delivery, o))
}

func (d *Dispatcher) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		d.Log.Log(ctx, errs.LogLevel(err), "sending to a webhook failed", "error", err)
	}
}

// mayAttempt consumes an attempt of the rates. If none is left, the webhook sends nothing on this
// node until the next window.
func (d *Dispatcher) mayAttempt(ctx context.Context, w *webhook.Webhook) bool {
	if ctx.Err() != nil {
		return false
	}
	if d.charge(ctx, w) == nil {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pausedUntil[w.ID] = d.Now().Add(webhookRate.Window)
	return false
}

// reserveTest takes a test of a webhook from its shares, and consumes an attempt of its rates. The
// caller calls done after the attempt. It returns RateLimited.
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
	if err := d.charge(ctx, w); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// charge consumes an attempt of the rates of a webhook and its workspace. It returns RateLimited.
func (d *Dispatcher) charge(ctx context.Context, w *webhook.Webhook) error {
	_, err := d.Limits.ChargeAll(ctx, ratelimit.Counter{Rate: webhookRate, Subject: w.ID},
		ratelimit.Counter{Rate: workspaceRate, Subject: w.WorkspaceID})
	return err
}

// recovered calls f and returns a panic as an error, with its stack, so that other webhooks
// continue.
func recovered(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			p := errs.Panic(value)
			err = fmt.Errorf("%w\n%s", p, p.Stack)
		}
	}()
	return f()
}
