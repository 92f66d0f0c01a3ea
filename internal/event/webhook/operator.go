package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// Stop ends all attempts and tests on every node within a second. Events are still recorded.
func (s *Store) Stop(ctx context.Context) error {
	_, err := s.DB.NewRaw("INSERT INTO webhook_stops (id, stopped_at) VALUES ('all', ?) ON CONFLICT (id) DO NOTHING",
		s.now()).Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("stopping webhooks: %w", err)
	}
	return nil
}

// Start reverses Stop.
func (s *Store) Start(ctx context.Context) error {
	if _, err := s.DB.NewDelete().Table("webhook_stops").Where("id = 'all'").Exec(db.AsSystem(ctx)); err != nil {
		return fmt.Errorf("starting webhooks: %w", err)
	}
	return nil
}

// Listed is a webhook in the operator's list.
type Listed struct {
	ID           string     `json:"id"`
	WorkspaceID  string     `json:"workspaceId"`
	Host         string     `json:"host"`
	Status       Status     `json:"status"`
	Blocked      bool       `json:"blocked"`
	Waiting      int64      `json:"waiting"`
	FailingSince *time.Time `json:"failingSince"`
	CreatedAt    time.Time  `json:"createdAt"`
}

// AdminList returns the webhooks of all workspaces, newest first, after an id; empty starts with
// the newest.
func (s *Store) AdminList(ctx context.Context, after string, limit int) (rows []Listed, err error) {
	waiting := s.DB.NewSelect().Model((*Delivery)(nil)).ColumnExpr("count(*)").Where("webhook_id = webhook.id").
		Where("status = 'WAITING'")
	q := s.DB.NewSelect().Model((*Webhook)(nil)).
		Column("id", "workspace_id", "host", "status", "blocked", "failing_since", "created_at").
		ColumnExpr("(?) AS waiting", waiting).Order("id DESC").Limit(int64(limit))
	if after != "" {
		q = q.Where("id < ?", after)
	}
	err = q.Scan(db.AsSystem(ctx), &rows)
	if err != nil {
		return nil, fmt.Errorf("listing webhooks: %w", err)
	}
	return rows, nil
}

// SetBlocked disables a webhook so that members cannot enable it, or reverses that: it is active
// again. It returns NotFound.
func (s *Store) SetBlocked(ctx context.Context, webhookID string, blocked bool) error {
	n, err := s.setBlocked(ctx, blocked, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("id = ?", webhookID)
	})
	if err == nil && n == 0 {
		return errs.New(errs.NotFound, "There is no such webhook. This lists them: linkforge webhooks list.")
	}
	return err
}

// BlockHost disables the webhooks of a host and its subdomains, and returns how many. It returns
// InvalidInput.
func (s *Store) BlockHost(ctx context.Context, host string) (int, error) {
	u, err := urlnorm.Canonical("https://" + host)
	if err != nil {
		return 0, errs.New(errs.InvalidInput, "This is not a host: %s", err)
	}
	return s.setBlocked(ctx, true, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("NOT blocked").Where("host = ? OR host LIKE ? ESCAPE '\\'", u.Host(),
			"%."+db.EscapeLike(u.Host()))
	})
}

// setBlocked changes the webhooks that match, and returns how many.
func (s *Store) setBlocked(
	ctx context.Context, blocked bool, match func(*bun.SelectQuery) *bun.SelectQuery,
) (n int, err error) {
	ctx = db.AsSystem(ctx)
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var rows []*Webhook
		if err := s.DB.ForChange(match(tx.NewSelect().Model(&rows)).Order("id")).Scan(ctx); err != nil {
			return err
		}
		n = len(rows)
		for _, w := range rows {
			if err := s.setOneBlocked(ctx, tx, w, blocked); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("changing webhooks: %w", err)
	}
	return n, nil
}

func (s *Store) setOneBlocked(ctx context.Context, tx bun.Tx, w *Webhook, blocked bool) error {
	before := *w
	_, err := tx.NewUpdate().Model((*Webhook)(nil)).Set("blocked = ?", blocked).Where("id = ?", w.ID).Exec(ctx)
	if err != nil {
		return err
	}
	if blocked {
		return s.Disable(ctx, tx, w, audit.Details{"reason": "OPERATOR"}, nil)
	}
	if !before.Blocked || w.Status == Active {
		return nil
	}
	if err := s.activate(ctx, tx, w); err != nil {
		return err
	}
	_, err = tx.NewUpdate().Model(w).Column("status", "failing_since", "due_at").WherePK().Exec(ctx)
	if err != nil {
		return err
	}
	return audit.Write(ctx, tx, audit.New(w.WorkspaceID, "", audit.WebhookUpdated, w.ID, audit.Details{"name": w.Name},
		s.now()).WithChanges(audit.Compare(before.fields(), w.fields())))
}

// AfterRestore moves the positions of webhooks and of their readers into the order that the event
// log has in another cluster, by sequence alone. It precedes audit.AfterRestore. Events that have a
// delivery get no other one.
func (s *Store) AfterRestore(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	clicks, err := s.Clicks.Head(ctx) // batches have the transactions of the former cluster
	if err != nil {
		return err
	}
	const last = "(SELECT coalesce(max(seq), 0) FROM audit_events WHERE seq IS NOT NULL)"
	const next = `(SELECT min(event.seq) - 1 FROM audit_events AS event
		WHERE event.workspace_id = webhook.workspace_id AND event.seq IS NOT NULL
			AND (event.xid, event.seq) > (webhook.xid, webhook.seq))`
	_, err = s.DB.NewUpdate().Model((*Webhook)(nil)).Set("seq = coalesce(" + next + ", " + last + ")").Set("xid = 0").
		Where("xid > 0").Exec(ctx)
	if err != nil {
		return fmt.Errorf("moving the positions of webhooks: %w", err)
	}
	_, err = s.DB.NewUpdate().Model((*Webhook)(nil)).Set("until_seq = "+last).Set("until_xid = 0").
		Set("due_at = ?", s.now()).
		Set("click_xid = ?", clicks.XID).Set("click_seq = ?", clicks.Seq).Where("1 = 1").Exec(ctx)
	if err != nil {
		return fmt.Errorf("making webhooks due: %w", err)
	}
	_, err = s.DB.NewUpdate().Table("webhook_readers").
		Set("xid = CASE log WHEN 'CLICKS' THEN ? ELSE 0 END", clicks.XID).
		Set("seq = CASE log WHEN 'CLICKS' THEN ? ELSE "+last+" END", clicks.Seq).
		Set("read_at = ?", s.now()).Set("lease_holder = NULL").Set("lease_until = NULL").Where("1 = 1").Exec(ctx)
	if err != nil {
		return fmt.Errorf("moving the positions of the readers of webhooks: %w", err)
	}
	return nil
}

// EndClaims ends the claims of all nodes, none of which runs: logs are read and deliveries are sent
// at once.
func (s *Store) EndClaims(ctx context.Context) error {
	err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		if err := lease.End(ctx, tx.NewUpdate().Table("webhook_readers"), s.now()); err != nil {
			return err
		}
		claimed := tx.NewSelect().Model((*Delivery)(nil)).Column("webhook_id").Where("claimed_until IS NOT NULL")
		_, err := tx.NewUpdate().Model((*Webhook)(nil)).Set("due_at = ?", s.now()).Where("id IN (?)", claimed).Exec(ctx)
		if err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model((*Delivery)(nil)).Set("claimed_until = NULL").
			Where("claimed_until IS NOT NULL").Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("ending the claims of webhooks: %w", err)
	}
	return nil
}
