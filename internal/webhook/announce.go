package webhook

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
)

// The reasons and remedies in emails about disabled webhooks.
const (
	receiverFailed = "its receiver at %s did not accept requests.\n\nEvents are still recorded. After you have fixed " +
		"the receiver, set the status of the webhook to ACTIVE: it then sends everything since its last event, up to 30 days."
	keyEnded = "the API key that created it has ended. It sent events to %s.\n\nThis webhook cannot be enabled again. " +
		"Create another webhook with a valid key or account."
)

// announce sends an email to the owners and admins of the workspace of a webhook that was disabled. The reason
// is receiverFailed or keyEnded. A failure is logged: the event and the status have the fact.
func (d *Dispatcher) announce(ctx context.Context, w *Webhook, reason string) {
	addresses, err := d.Workspaces.AdminAddresses(ctx, w.WorkspaceID)
	if err != nil {
		d.Log.ErrorContext(ctx, "looking up the admins of a workspace failed", "error", err)
		return
	}
	for _, to := range addresses {
		d.Mail.Send(ctx, to, "A webhook was disabled",
			fmt.Sprintf("The webhook %q (%s) was disabled, because "+reason, w.Name, w.ID, w.Host))
	}
}

// disableEnded disables the webhooks of API keys that have been revoked or have expired.
func (d *Dispatcher) disableEnded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), 2*statementTimeout)
	defer cancel()
	var rows []*Webhook
	err := d.DB.NewSelect().Model(&rows).Where("webhook.status <> ?", Disabled).Where("EXISTS (?)", d.endedKey()).
		Limit(batch).Scan(ctx)
	if err != nil {
		return fmt.Errorf("looking up webhooks of ended API keys: %w", err)
	}
	for _, w := range rows {
		disabled := false
		err := d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			disabled, err = d.disable(ctx, tx, w, audit.Details{"reason": "API_KEY"})
			return err
		})
		if err != nil {
			return fmt.Errorf("disabling a webhook: %w", err)
		}
		if disabled {
			d.announce(ctx, w, keyEnded)
		}
	}
	return nil
}
