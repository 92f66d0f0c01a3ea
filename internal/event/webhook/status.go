package webhook

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// setStatus changes the status of a locked webhook: see activate. With SkipBacklog, its position
// moves to the head of the log, unless a reader is further. It returns InvalidInput or UnsafeURL.
func (s *Store) setStatus(ctx context.Context, tx bun.Tx, w *Webhook, c Change, head feed.Position) error {
	switch {
	case !c.Status.Set:
		return nil
	case w.Blocked:
		return errs.New(errs.UnsafeURL, "The operator of this service has disabled this webhook. "+
			"Ask the operator to enable it.").At("status")
	case c.Status.To == Paused && w.Status == Disabled:
		return errs.New(errs.InvalidInput, "A disabled webhook sends nothing. To use it again, set the status ACTIVE.").
			At("status")
	case c.Status.To == Paused:
		w.Status = Paused
		return nil
	}
	if err := s.checkCreator(ctx, tx, w); err != nil {
		return err
	}
	if err := s.keep(ctx, tx, w); err != nil {
		return err
	}
	if c.SkipBacklog {
		w.Status, w.FailingSince = Active, nil
		w.moveTo(head)
		return skipWaiting(ctx, tx, w.ID)
	}
	if w.Status == Active {
		return nil
	}
	return s.activate(ctx, tx, w)
}

// moveTo moves the position to the head of the log, unless a reader is further.
func (w *Webhook) moveTo(head feed.Position) {
	if w.Until.Compare(head) < 0 {
		w.Until = head
	}
	w.Position = w.Until
}

// activate makes a locked webhook active. The caller stores it. The schedule begins again for
// waiting deliveries, and for deliveries that have failed since FailingSince.
func (s *Store) activate(ctx context.Context, tx bun.Tx, w *Webhook) error {
	failingSince := w.FailingSince
	w.Status, w.FailingSince, w.DueAt = Active, nil, new(s.now())
	err := requeue(ctx, tx, w, func(q *bun.UpdateQuery) *bun.UpdateQuery {
		if failingSince == nil {
			return q.Where("status = ?", Waiting)
		}
		return q.Where("status = ? OR status = ? AND first_tried_at >= ?", Waiting, Failed, *failingSince)
	})
	if err != nil {
		return err
	}
	return s.Release(ctx, tx, w.ID)
}

// checkCreator returns InvalidInput if the webhook belongs to an API key that has ended.
func (s *Store) checkCreator(ctx context.Context, tx bun.Tx, w *Webhook) error {
	ended, err := tx.NewSelect().Model((*Webhook)(nil)).Where("id = ?", w.ID).
		Where("EXISTS (?)", s.endedKey()).Exists(ctx)
	if err == nil && ended {
		return errs.New(errs.InvalidInput, "The API key that created this webhook has ended. Create another webhook.").
			At("status")
	}
	return err
}

// holders are the roles whose accounts may have webhooks.
var holders = bun.In(workspace.RolesWith(workspace.WriteWebhooks))

// lostAccount is the condition that a webhook depends on an account that has left the workspace, is
// disabled or deleted, or has none of the roles that are its argument.
const lostAccount = `substr(coalesce(webhook.kept_by, webhook.created_by), 1, 4) = 'usr_' AND NOT EXISTS (
	SELECT 1 FROM members JOIN accounts ON accounts.id = members.account_id
	WHERE members.workspace_id = webhook.workspace_id
		AND members.account_id = coalesce(webhook.kept_by, webhook.created_by)
		AND members.role IN (?) AND accounts.disabled_at IS NULL)`

// keep has a webhook, which a member sets ACTIVE, depend on the permission of this member if its
// creator has lost it. It returns Forbidden for an API key.
func (s *Store) keep(ctx context.Context, tx bun.Tx, w *Webhook) error {
	lost, err := tx.NewSelect().Model((*Webhook)(nil)).Where("id = ?", w.ID).Where(lostAccount, holders).Exists(ctx)
	if err != nil || !lost {
		return err
	}
	if w.In.AccountID() == "" {
		return errs.New(errs.Forbidden, "The user on whom this webhook depends has lost the permission. "+
			"A member with the role ADMIN has to set it ACTIVE.")
	}
	w.KeptBy = new(w.In.AccountID())
	return nil
}

// endedKey selects the API key that created a webhook if the key has been revoked or has expired.
// Keys are deleted with their workspace only.
func (s *Store) endedKey() *bun.SelectQuery {
	return s.DB.NewSelect().TableExpr("api_keys AS api_key").ColumnExpr("1").
		Where("api_key.id = webhook.created_by").
		Where("api_key.revoked_at IS NOT NULL OR api_key.expires_at <= ?", s.now())
}

// Notice is why a webhook was disabled, for the email about it.
type Notice string

// The notices.
const (
	ReceiverFailed Notice = "RECEIVER"
	KeyEnded       Notice = "API_KEY"
	MemberEnded    Notice = "MEMBER"
)

// Disable disables a webhook that is not disabled, and writes the event. With a notice, an email
// about it follows.
func (s *Store) Disable(ctx context.Context, tx bun.Tx, w *Webhook, details audit.Details, n *Notice) error {
	changed, err := db.Affected(tx.NewUpdate().Model((*Webhook)(nil)).Set("status = ?", Disabled).Set("due_at = NULL").
		Set("notice = ?", n).Where("id = ?", w.ID).Where("status <> ?", Disabled).Exec(ctx))
	if err != nil || changed == 0 {
		return err
	}
	after := *w
	after.Status = Disabled
	return audit.Write(ctx, tx, audit.New(w.WorkspaceID, "", audit.WebhookDisabled, w.ID, details, s.now()).
		WithChanges(audit.Compare(w.fields(), after.fields())))
}

// WithoutEnded leaves out webhooks of API keys that have ended, of accounts that have lost the
// permission, and of deleted workspaces.
func (s *Store) WithoutEnded(q *bun.SelectQuery) *bun.SelectQuery {
	return q.Where("NOT EXISTS (?)", s.endedKey()).Where("NOT ("+lostAccount+")", holders).
		Where(`NOT EXISTS (SELECT 1 FROM workspaces WHERE workspaces.id = webhook.workspace_id
			AND workspaces.deleted_at IS NOT NULL)`)
}

// endedRow is a webhook whose creator has lost the permission.
type endedRow struct {
	Webhook `bun:",extend"`

	// IsOfKey means that the creator is an API key.
	IsOfKey bool `bun:",scanonly"`
}

// DisableEnded disables the webhooks of API keys that have been revoked or have expired, and of
// accounts that have lost the permission.
func (s *Store) DisableEnded(ctx context.Context) error {
	var rows []endedRow
	err := s.DB.NewSelect().Model(&rows).ColumnExpr("?TableColumns").ColumnExpr("EXISTS (?) AS is_of_key",
		s.endedKey()).
		Where("webhook.status <> ?", Disabled).Where("EXISTS (?) OR "+lostAccount, s.endedKey(), holders).
		Limit(Batch).Scan(ctx)
	if err != nil {
		return fmt.Errorf("looking up webhooks whose creators have ended: %w", err)
	}
	for _, w := range rows {
		reason := MemberEnded
		if w.IsOfKey {
			reason = KeyEnded
		}
		err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			return s.Disable(ctx, tx, &w.Webhook, audit.Details{"reason": reason}, &reason)
		})
		if err != nil {
			return fmt.Errorf("disabling a webhook: %w", err)
		}
	}
	return nil
}
