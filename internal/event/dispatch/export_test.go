package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
)

// SendNext claims and sends due deliveries of a webhook whose host was read before, and waits for
// the requests.
func (d *Dispatcher) SendNext(ctx context.Context, webhookID, host string) error {
	t := &target{ID: webhookID, Host: host, Concurrency: maxConcurrency}
	slots := d.sending.Take(maxConcurrency, t.bounds()...)
	n, err := d.sendNext(ctx, webhookID, slots, t.bounds())
	d.sending.Give(slots-n, t.bounds()...)
	d.flights.Wait()
	return err
}

// Claim claims due deliveries of a webhook, which are not sent, and returns their number.
func (d *Dispatcher) Claim(ctx context.Context, webhookID string) (int, error) {
	_, deliveries, err := d.claim(ctx, webhookID, maxConcurrency)
	return len(deliveries), err
}

// ClaimForLater claims the due deliveries of a webhook, and returns a function that sends them.
func (d *Dispatcher) ClaimForLater(ctx context.Context, webhookID string) (send func(), err error) {
	w, deliveries, err := d.claim(ctx, webhookID, maxConcurrency)
	return func() {
		for _, delivery := range deliveries {
			d.deliver(ctx, w, delivery)
		}
	}, err
}

// ReadEvents reads the event log, and creates as many deliveries of a webhook as its queue can
// hold.
func (d *Dispatcher) ReadEvents(ctx context.Context, webhookID string) error {
	if err := d.FindEvents(ctx); err != nil {
		return err
	}
	return d.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		w := &webhook.Webhook{}
		if err := d.WithFilter(tx.NewSelect().Model(w)).Where("id = ?", webhookID).Scan(ctx); err != nil {
			return nil // deleted
		}
		if _, err := d.refill(ctx, tx, w); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Model(w).Column("xid", "seq").WherePK().Exec(ctx)
		return err
	})
}

// FindEvents reads the event log.
func (d *Dispatcher) FindEvents(ctx context.Context) error {
	return d.readLog(ctx, eventLog, d.nextEvents)
}

// FailReading claims the event log, and fails to read it.
func (d *Dispatcher) FailReading(ctx context.Context) error {
	return d.readLog(ctx, eventLog, func(context.Context, feed.Position) (part, error) {
		return part{}, errors.New("no events")
	})
}

// ClaimEvents takes the event log as a node that dies, and reports whether it did.
func (d *Dispatcher) ClaimEvents(ctx context.Context) (bool, error) {
	r, err := d.takeLog(db.AsSystem(ctx), lease.New(d.Now, time.Time{}), eventLog)
	return r != nil, err
}

// Doubt repairs instants of clocks that were ahead.
func (d *Dispatcher) Doubt(ctx context.Context) error { return d.doubt(ctx) }

// ReadClicks creates the deliveries of clicks.
func (d *Dispatcher) ReadClicks(ctx context.Context) error {
	return d.readLog(ctx, clickLog, d.nextClicks)
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

// DeliverLate claims the due deliveries of a webhook and delivers them after an interrupt of Run,
// which ends ctx.
func (d *Dispatcher) DeliverLate(ctx context.Context, webhookID string) error {
	ctx, cancel := context.WithCancel(ctx)
	w, deliveries, err := d.claim(ctx, webhookID, maxConcurrency)
	cancel()
	d.interrupt()
	for _, delivery := range deliveries {
		d.deliver(ctx, w, delivery)
	}
	return err
}

// Vacate returns all requests that Occupy took.
func (d *Dispatcher) Vacate() { d.sending = admission.Queue{} }

// UseUpRate consumes all attempts of a webhook's rate, or of that of its workspace.
func (d *Dispatcher) UseUpRate(ctx context.Context, w *webhook.Webhook, ofWorkspace bool) {
	rate, subject := webhookRate, w.ID
	if ofWorkspace {
		rate, subject = workspaceRate, w.WorkspaceID
	}
	_, _ = d.Limits.Spend(ctx, rate, subject, rate.Attempts)
}

// Rates returns the rates of a webhook and of its workspace.
func Rates() (ofWebhook, ofWorkspace ratelimit.Rate) { return webhookRate, workspaceRate }

// IsPaused reports whether a webhook sends nothing on this node for a while.
func (d *Dispatcher) IsPaused(webhookID string) bool {
	return slices.Contains(d.paused(), webhookID)
}

// AnnounceDisabled disables webhooks of lost creators, and sends the emails about disabled ones.
func (d *Dispatcher) AnnounceDisabled(ctx context.Context) error { return d.disable(ctx) }
