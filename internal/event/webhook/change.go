package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Change is the input for a webhook. Fields without Set stay.
type Change struct {
	Name   optional.Edit[string]
	URL    optional.Edit[string]
	Types  optional.Edit[[]audit.Action]
	Tags   optional.Edit[[]string]
	Status optional.Edit[Status]
	// SkipBacklog skips the waiting events and deliveries, together with the status Active.
	SkipBacklog bool

	// host is the canonical host of URL, as of check.
	host string
}

// Create creates a webhook and returns its secret, which cannot be read again. It returns
// InvalidInput, InvalidURL, UnsafeURL, QuotaExceeded or Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, c Change) (_ *Webhook, secret string, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return nil, "", err
	}
	now := s.now()
	w := &Webhook{
		ID: id.New(id.Webhook), WorkspaceID: m.ID(), Status: Active, Types: []audit.Action{}, Tags: []string{},
		Concurrency: initialConcurrency, CreatedAt: now, CreatedBy: m.ActorID(), In: m,
	}
	raw, secret := newSecret()
	if w.Secret, err = s.Sealed.Seal(secrets.WebhookSecret, w.ID, raw); err != nil {
		return nil, "", err
	}
	if c, err = s.check(ctx, c); err != nil {
		return nil, "", err
	}
	c.applyTo(w)
	if err := CheckReads(ctx, m, w); err != nil {
		return nil, "", err
	}
	head, clicks, err := s.heads(ctx)
	if err != nil {
		return nil, "", err
	}
	w.Position, w.Until, w.Clicks = head, head, clicks
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := workspace.LockForOneMore(ctx, s.DB, tx, m.ID(), (*Webhook)(nil), maxPerWorkspace,
			"webhooks"); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(w).Exec(ctx); err != nil {
			return err
		}
		if err := storeFilter(ctx, tx, w); err != nil {
			return err
		}
		return audit.Write(ctx, tx, m.Event(now, audit.WebhookCreated, w.ID, audit.Details{"name": w.Name}).
			WithChanges(audit.Compare((&Webhook{}).fields(), w.fields())))
	})
	if err != nil {
		return nil, "", fmt.Errorf("creating a webhook: %w", err)
	}
	return w, secret, nil
}

// heads returns the positions after all events and after all clicks.
func (s *Store) heads(ctx context.Context) (events, clicks feed.Position, err error) {
	if events, err = audit.Horizon(ctx, s.DB); err != nil {
		return events, clicks, err
	}
	clicks, err = s.Clicks.Head(ctx)
	return events, clicks, err
}

// Update changes a webhook. It returns NotFound, InvalidInput, InvalidURL, UnsafeURL or Forbidden.
func (s *Store) Update(ctx context.Context, m workspace.Membership, webhookID string, c Change) (*Webhook, error) {
	ctx, err := m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return nil, err
	}
	if _, err := s.Get(ctx, m, webhookID); err != nil {
		return nil, err
	}
	// The URL is checked outside the transaction, because names are looked up.
	if c, err = s.check(ctx, c); err != nil {
		return nil, err
	}
	head, clicks, err := s.heads(ctx)
	if err != nil {
		return nil, err
	}
	var w *Webhook
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if w, err = s.lock(ctx, tx, m, webhookID); err != nil {
			return err
		}
		before := *w
		c.applyTo(w)
		if (c.Types.Set || c.Tags.Set) && !before.IsBehind() {
			w.moveTo(head) // it receives new events by the new filter
		}
		if err := checkUpdate(ctx, tx, m, &before, w); err != nil {
			return err
		}
		if !slices.Contains(before.Types, audit.LinkClicked) {
			w.Clicks = clicks
		}
		if err := s.setStatus(ctx, tx, w, c, head); err != nil {
			return err
		}
		changes := audit.Compare(before.fields(), w.fields())
		if len(changes) == 0 && !c.SkipBacklog && !c.Status.Set {
			return nil
		}
		if _, err := tx.NewUpdate().Model(w).Column(settings...).WherePK().Exec(ctx); err != nil {
			return err
		}
		if err := storeFilter(ctx, tx, w); err != nil {
			return err
		}
		return audit.Write(ctx, tx, m.Event(s.now(), audit.WebhookUpdated, w.ID, audit.Details{"name": w.Name}).
			WithChanges(changes))
	})
	if err != nil {
		return nil, db.NoRowsAs(s.Rows().NotFound(), err, "changing a webhook")
	}
	return w, nil
}

// checkUpdate returns Forbidden unless the caller may read all that the webhook has received and
// will receive: the deliveries that were not delivered may go to its new URL.
func checkUpdate(ctx context.Context, tx bun.Tx, m workspace.Membership, before, after *Webhook) error {
	if err := CheckReads(ctx, m, before); err != nil {
		return err
	}
	if err := CheckReads(ctx, m, after); err != nil {
		return err
	}
	return checkReadsDeliveries(ctx, tx, m, after, isUndelivered)
}

func isUndelivered(q *bun.SelectQuery) *bun.SelectQuery {
	return q.Where("status IN (?)", bun.In([]DeliveryStatus{Waiting, Failed}))
}

// Delete marks a webhook as deleted, which hides it with its deliveries. CleanUp removes them. It
// returns NotFound or Forbidden.
func (s *Store) Delete(ctx context.Context, m workspace.Membership, webhookID string) (*Webhook, error) {
	ctx, err := m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return nil, err
	}
	var w *Webhook
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if w, err = s.lock(ctx, tx, m, webhookID); err != nil {
			return err
		}
		w.DeletedAt = new(s.now())
		if _, err := tx.NewUpdate().Model(w).Column("deleted_at").WherePK().Exec(ctx); err != nil {
			return err
		}
		return m.Audit(ctx, tx, s.now(), audit.WebhookDeleted, w.ID, audit.Details{"name": w.Name})
	})
	if err != nil {
		return nil, db.NoRowsAs(s.Rows().NotFound(), err, "deleting a webhook")
	}
	return w, nil
}

// lock returns a webhook of the workspace, locked until the transaction ends. Without one it
// returns sql.ErrNoRows.
func (s *Store) lock(ctx context.Context, tx bun.Tx, m workspace.Membership, webhookID string) (*Webhook, error) {
	w := &Webhook{ID: webhookID, In: m}
	q := tx.NewSelect().Model(w).Column("id").WherePK().Where("workspace_id = ?", m.ID())
	if err := s.DB.ForChange(q).Scan(ctx); err != nil {
		return nil, err
	}
	// A statement that waits for a lock reads other tables as of before.
	return w, s.WithFilter(tx.NewSelect().Model(w)).WherePK().Scan(ctx)
}

// Get returns a webhook of the workspace. It returns NotFound or Forbidden.
func (s *Store) Get(ctx context.Context, m workspace.Membership, webhookID string) (*Webhook, error) {
	return s.Rows().Get(db.UpToDate(ctx), m, webhookID)
}

// check returns a change with canonical values. It returns InvalidInput, InvalidURL or UnsafeURL.
func (s *Store) check(ctx context.Context, c Change) (_ Change, err error) {
	var checks []error
	if c.Name.Set {
		c.Name.To, err = validate.Line("The name", c.Name.To, 1, maxName)
		checks = append(checks, errs.At(err, "name"))
	}
	if c.URL.Set {
		_, err = s.parseURL(c.URL.To)
		checks = append(checks, err)
	}
	if c.Types.Set {
		c.Types.To, err = checkTypes(c.Types.To)
		checks = append(checks, errs.Under(err, "types"))
	}
	if c.Tags.Set {
		c.Tags.To, err = checkTags(c.Tags.To)
		checks = append(checks, errs.Under(err, "tags"))
	}
	if c.Status.Set && c.Status.To == Disabled {
		checks = append(checks, errs.New(errs.InvalidInput, "status must be ACTIVE or PAUSED.").At("status"))
	}
	if c.SkipBacklog && (!c.Status.Set || c.Status.To != Active) {
		checks = append(checks, errs.New(errs.InvalidInput,
			"skipBacklog requires the status ACTIVE. Set status to ACTIVE, or omit skipBacklog.").At("skipBacklog"))
	}
	if err := errs.All(checks...); err != nil || !c.URL.Set {
		return c, err
	}
	u, err := s.CheckURL(ctx, c.URL.To)
	if err != nil {
		return c, err
	}
	// as it was given: a receiver may distinguish canonically equal URLs
	c.URL.To, _, _ = strings.Cut(urlnorm.Location(c.URL.To), "#")
	c.host = u.Host()
	return c, s.checkHost(ctx, u)
}

// applyTo changes the settings of a webhook in memory, except for its status. The change has been
// checked.
func (c Change) applyTo(w *Webhook) {
	if c.Name.Set {
		w.Name = c.Name.To
	}
	if c.URL.Set {
		w.URL, w.Host = c.URL.To, c.host
	}
	if c.Types.Set {
		w.Types = c.Types.To
	}
	if c.Tags.Set {
		w.Tags = c.Tags.To
	}
}
