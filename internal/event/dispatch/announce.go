package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// reasons have the reasons and remedies in emails.
var reasons = map[webhook.Notice]string{
	webhook.ReceiverFailed: "its receiver at %s did not accept requests.\n\nEvents are still recorded. After you " +
		"have fixed the receiver, set the status of the webhook to ACTIVE: it then sends everything since its last " +
		"event, up to 30 days.",
	webhook.KeyEnded: "the API key that created it has ended. It sent events to %s.\n\nThis webhook cannot be " +
		"enabled again. Create another webhook with a valid key or account.",
	webhook.MemberEnded: "the user on whose permission it depends has left the workspace, has another role, or " +
		"cannot log in any more. It sent events to %s.\n\nCheck that this address is still yours. Then set the " +
		"status of the webhook to ACTIVE, or delete it.",
}

// announce hands over the emails about disabled webhooks to the owners and admins of their
// workspaces. A notice stays stored until its emails were handed over.
func (d *Dispatcher) announce(ctx context.Context) error {
	var rows []*webhook.Webhook
	err := d.DB.NewSelect().Model(&rows).Column("id", "workspace_id", "name", "host", "notice").
		Where("notice IS NOT NULL").Limit(webhook.Batch).Scan(ctx)
	if err != nil {
		return fmt.Errorf("looking up disabled webhooks: %w", err)
	}
	var problems []error
	for _, w := range rows {
		problems = append(problems, d.announceOne(ctx, w))
	}
	return errors.Join(problems...)
}

// announceOne hands over the emails of a notice in the transaction that removes it, so that one
// node does, and another one if this node dies before.
func (d *Dispatcher) announceOne(ctx context.Context, w *webhook.Webhook) error {
	addresses, err := d.Workspaces.AdminAddresses(ctx, w.WorkspaceID)
	if err != nil {
		return fmt.Errorf("looking up the admins of a workspace: %w", err)
	}
	text := fmt.Sprintf("The webhook %q (%s) was disabled, because "+reasons[*w.Notice], w.Name, w.ID, w.Host)
	err = d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := db.Affected(tx.NewUpdate().Model((*webhook.Webhook)(nil)).Set("notice = NULL").Where("id = ?", w.ID).
			Where("notice = ?", *w.Notice).Exec(ctx))
		if err != nil || n == 0 {
			return err
		}
		for _, to := range addresses {
			d.Mail.Send(ctx, to, "A webhook was disabled", text)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("announcing a disabled webhook: %w", err)
	}
	return nil
}
