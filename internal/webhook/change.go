package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/stream"
	"github.com/linkforge/linkforge/internal/validate"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Selection is a selection on the type Event, which package graph has checked.
type Selection struct {
	// Text is the selection; nil selects the default.
	Text *string
	// NeedsStats says that it reads statistics or clicks.
	NeedsStats bool
}

// Change is the input for a webhook. Fields without Set stay.
type Change struct {
	Name      optional.Edit[string]
	URL       optional.Edit[string]
	Types     optional.Edit[[]audit.Action]
	Tags      optional.Edit[[]string]
	Selection optional.Edit[Selection]
	Status    optional.Edit[Status]
	// SkipBacklog skips the waiting events and deliveries, together with the status Active.
	SkipBacklog bool
}

// Create creates a webhook and returns its secret, which cannot be read again. It returns InvalidInput,
// InvalidURL, UnsafeURL, QuotaExceeded or Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, c Change) (_ *Webhook, secret string, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return nil, "", err
	}
	now := s.now()
	w := &Webhook{
		ID: id.New(id.Webhook), WorkspaceID: m.ID(), Status: Active, Types: []audit.Action{}, Tags: []string{},
		CreatedAt: now, CreatedBy: m.ActorID(), In: m,
	}
	raw, secret := newSecret()
	if w.Secret, err = s.seal(w.ID, raw); err != nil {
		return nil, "", err
	}
	if err := s.apply(ctx, m, w, c); err != nil {
		return nil, "", err
	}
	if err := s.moveToHead(ctx, w); err != nil {
		return nil, "", err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.checkNumber(ctx, tx, m.ID()); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(w).Exec(ctx); err != nil {
			return err
		}
		return audit.Write(ctx, tx, m.Event(now, audit.WebhookCreated, w.ID, audit.Details{"name": w.Name}).
			Changing(audit.Compare((&Webhook{}).fields(), w.fields())))
	})
	if err != nil {
		return nil, "", fmt.Errorf("creating a webhook: %w", err)
	}
	return w, secret, nil
}

// checkNumber returns an error if the workspace has maxPerWorkspace already.
func (s *Store) checkNumber(ctx context.Context, tx bun.Tx, workspaceID string) error {
	n, err := workspace.LockAndCount(ctx, s.DB, tx, workspaceID, (*Webhook)(nil))
	if err == nil && n >= maxPerWorkspace {
		return errs.New(errs.QuotaExceeded, "A workspace has at most %d webhooks. Delete one first.", maxPerWorkspace)
	}
	return err
}

// moveToHead sets the position of a webhook after all events and clicks.
func (s *Store) moveToHead(ctx context.Context, w *Webhook) (err error) {
	if w.Position, err = audit.Horizon(ctx, s.DB); err != nil {
		return err
	}
	at, err := s.Clicks.Head(ctx)
	w.setClicks(at)
	return err
}

func (w *Webhook) setClicks(at stream.Position) {
	w.ClickXID, w.ClickBatch, w.ClickID, w.ClicksAt = at.XID, at.Seq, at.Item, db.Instant(at.At)
}

func (w *Webhook) clicks() stream.Position {
	return stream.Position{XID: w.ClickXID, Seq: w.ClickBatch, Item: w.ClickID, At: w.ClicksAt}
}

// Update changes a webhook. It returns NotFound, InvalidInput, InvalidURL, UnsafeURL or Forbidden.
func (s *Store) Update(ctx context.Context, m workspace.Membership, webhookID string, c Change) (*Webhook, error) {
	ctx, err := m.Enter(ctx, workspace.WriteWebhooks)
	if err != nil {
		return nil, err
	}
	before, err := s.get(ctx, m, webhookID)
	if err != nil {
		return nil, err
	}
	checked := *before // the URL is checked outside the transaction, because names are looked up
	if err := s.apply(ctx, m, &checked, c); err != nil {
		return nil, err
	}
	if c.SkipBacklog && (!c.Status.Set || c.Status.To != Active) {
		return nil, errs.New(errs.InvalidInput, "skipBacklog goes with the status ACTIVE.").At("skipBacklog")
	}
	head := &Webhook{}
	if err := s.moveToHead(ctx, head); err != nil {
		return nil, err
	}
	var w *Webhook
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if w, err = s.lock(ctx, tx, m, webhookID); err != nil {
			return err
		}
		was := *w
		w.copySettings(&checked, c)
		if w.WantsClicks && !was.WantsClicks {
			w.setClicks(head.clicks())
		}
		if err := s.setStatus(ctx, tx, w, c, head); err != nil {
			return err
		}
		changes := audit.Compare(was.fields(), w.fields())
		if len(changes) == 0 && !c.SkipBacklog && !c.Status.Set {
			return nil
		}
		if _, err := tx.NewUpdate().Model(w).Column(settings...).WherePK().Exec(ctx); err != nil {
			return err
		}
		return audit.Write(ctx, tx, m.Event(s.now(), audit.WebhookUpdated, w.ID, audit.Details{"name": w.Name}).
			Changing(changes))
	})
	if err != nil {
		return nil, db.NoRowsAs(s.Rows().NotFound(), err, "changing a webhook")
	}
	return w, nil
}

// copySettings copies the fields of a change, which has been applied to another copy of the webhook.
func (w *Webhook) copySettings(from *Webhook, c Change) {
	if c.Name.Set {
		w.Name = from.Name
	}
	if c.URL.Set {
		w.URL, w.Host = from.URL, from.Host
	}
	if c.Types.Set {
		w.Types, w.WantsClicks = from.Types, from.WantsClicks
	}
	if c.Tags.Set {
		w.Tags = from.Tags
	}
	if c.Selection.Set {
		w.Selection, w.SelectionError = from.Selection, nil
	}
}

// setStatus changes the status of a locked webhook. ACTIVE starts deliveries again that wait, and those that
// have failed since all did. It returns InvalidInput or UnsafeURL.
func (s *Store) setStatus(ctx context.Context, tx bun.Tx, w *Webhook, c Change, head *Webhook) error {
	switch {
	case !c.Status.Set:
		return nil
	case c.Status.To == Disabled:
		return errs.New(errs.InvalidInput, "Members set the status ACTIVE or PAUSED.").At("status")
	case w.Blocked:
		return errs.New(errs.UnsafeURL, "The operator of this service has disabled this webhook.").At("status")
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
	if w.Status == Active && !c.SkipBacklog {
		return nil
	}
	failing := w.FailingAt
	w.Status, w.FailingAt = Active, nil
	if c.SkipBacklog {
		w.Position = head.Position
		return skipWaiting(ctx, tx, w.ID)
	}
	w.DueAt = new(s.now())
	return s.restart(ctx, tx, w, failing)
}

// checkCreator returns InvalidInput if the webhook belongs to an API key that has ended.
func (s *Store) checkCreator(ctx context.Context, tx bun.Tx, w *Webhook) error {
	if !id.Valid(id.Key, w.CreatedBy) {
		return nil
	}
	valid, err := tx.NewSelect().Table("api_keys").Where("id = ?", w.CreatedBy).Where("revoked_at IS NULL").
		Where("expires_at IS NULL OR expires_at > ?", s.now()).Exists(ctx)
	if err == nil && !valid {
		return errs.New(errs.InvalidInput, "The API key that created this webhook has ended. Create another webhook.").
			At("status")
	}
	return err
}

// Delete deletes a webhook with its deliveries. It returns NotFound or Forbidden.
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
		if _, err := tx.NewDelete().Model(w).WherePK().Exec(ctx); err != nil {
			return err
		}
		return m.Audit(ctx, tx, s.now(), audit.WebhookDeleted, w.ID, audit.Details{"name": w.Name})
	})
	if err != nil {
		return nil, db.NoRowsAs(s.Rows().NotFound(), err, "deleting a webhook")
	}
	return w, nil
}

// maxOverlap is how long an old secret may sign, defaultOverlap how long it does.
const (
	maxOverlap     = 7 * 24 * time.Hour
	defaultOverlap = 24 * time.Hour
)

// Rotate replaces the secret of a webhook; the old one signs for the overlap, too, nil means a day. It
// returns the new secret, or NotFound, InvalidInput or Forbidden.
func (s *Store) Rotate(
	ctx context.Context, m workspace.Membership, webhookID string, overlap *int,
) (w *Webhook, secret string, err error) {
	if ctx, err = m.Enter(ctx, workspace.WriteWebhooks); err != nil {
		return nil, "", err
	}
	both := defaultOverlap
	if overlap != nil {
		both = time.Duration(*overlap) * time.Second
		if *overlap < 0 || *overlap > int(maxOverlap.Seconds()) {
			return nil, "", errs.New(errs.InvalidInput, "overlapSeconds goes from 0 to %d.", int(maxOverlap.Seconds())).
				At("overlapSeconds")
		}
	}
	raw, secret := newSecret()
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if w, err = s.lock(ctx, tx, m, webhookID); err != nil {
			return err
		}
		sealed, err := s.seal(w.ID, raw)
		if err != nil {
			return err
		}
		w.OldSecret, w.OldSecretEndsAt, w.Secret = w.Secret, new(s.now().Add(both)), sealed
		if both == 0 {
			w.OldSecret, w.OldSecretEndsAt = nil, nil
		}
		_, err = tx.NewUpdate().Model(w).Column("secret", "old_secret", "old_secret_ends_at").WherePK().Exec(ctx)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, m.Event(s.now(), audit.WebhookSecretRotated, w.ID, audit.Details{"name": w.Name}).
			Changing([]*audit.FieldChange{{Field: "secret", Omitted: true}}))
	})
	if err != nil {
		return nil, "", db.NoRowsAs(s.Rows().NotFound(), err, "rotating the secret of a webhook")
	}
	return w, secret, nil
}

// lock returns a webhook of the workspace, locked until the transaction ends. Without one it returns
// sql.ErrNoRows.
func (s *Store) lock(ctx context.Context, tx bun.Tx, m workspace.Membership, webhookID string) (*Webhook, error) {
	w := &Webhook{In: m}
	q := tx.NewSelect().Model(w).Where("id = ?", webhookID).Where("workspace_id = ?", m.ID())
	return w, s.DB.ForChange(q).Scan(ctx)
}

func (s *Store) get(ctx context.Context, m workspace.Membership, webhookID string) (*Webhook, error) {
	rows, err := s.ByID(db.UpToDate(ctx), m, webhookID)
	if err == nil && len(rows) == 0 {
		err = s.Rows().NotFound()
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// apply changes the settings of a webhook in memory, except for its status. It returns InvalidInput,
// InvalidURL, UnsafeURL or Forbidden.
func (s *Store) apply(ctx context.Context, m workspace.Membership, w *Webhook, c Change) (err error) {
	if c.Name.Set {
		if w.Name, err = validate.Line("The name", c.Name.To, 1, maxName); err != nil {
			return errs.From(err).At("name")
		}
	}
	if c.Types.Set {
		if w.Types, err = checkTypes(c.Types.To); err != nil {
			return err
		}
		w.WantsClicks = slices.Contains(w.Types, audit.LinkClicked)
	}
	if c.Tags.Set {
		if w.Tags, err = checkTags(c.Tags.To); err != nil {
			return err
		}
	}
	if c.Selection.Set {
		w.Selection, w.SelectionError = c.Selection.To.Text, nil
	}
	if err := checkPermissions(ctx, m, c); err != nil {
		return err
	}
	if !c.URL.Set {
		return nil
	}
	u, err := s.CheckURL(ctx, s.DB, c.URL.To)
	if err != nil {
		return err
	}
	w.URL, w.Host = u.String(), u.Host()
	return s.checkHost(ctx, u)
}

// checkPermissions returns Forbidden if the caller could not read by itself what the webhook receives.
func checkPermissions(ctx context.Context, m workspace.Membership, c Change) error {
	needed := []workspace.Permission{workspace.ReadLinks}
	if slices.Contains(c.Types.To, audit.LinkClicked) || c.Selection.To.NeedsStats {
		needed = append(needed, workspace.ReadStats)
	}
	if slices.ContainsFunc(c.Types.To, func(t audit.Action) bool { return slices.Contains(audit.DomainActions, t) }) {
		needed = append(needed, workspace.ReadDomains)
	}
	for _, p := range needed {
		if _, err := m.Enter(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// Types are the types of events that webhooks can receive.
func Types() []audit.Action {
	return slices.Concat(audit.LinkActions, audit.DomainActions, audit.WebhookActions, []audit.Action{audit.LinkClicked})
}

func checkTypes(types []audit.Action) ([]audit.Action, error) {
	known := Types()
	for _, t := range types {
		if !slices.Contains(known, t) {
			return nil, errs.New(errs.InvalidInput, "%s is no type of events.", validate.Quote(string(t))).At("types")
		}
	}
	if len(types) == 0 {
		return nil, errs.New(errs.InvalidInput, "A webhook receives at least one type of events.").At("types")
	}
	sorted := slices.Sorted(slices.Values(types))
	return slices.Compact(sorted), nil
}

func checkTags(tags []string) ([]string, error) {
	all := []string{}
	for _, tag := range tags {
		name, err := validate.Line("A tag", tag, 1, maxTag)
		if err != nil {
			return nil, errs.From(err).At("tags")
		}
		all = append(all, name)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > maxTags {
		return nil, errs.New(errs.InvalidInput, "A webhook has at most %d tags.", maxTags).At("tags")
	}
	return all, nil
}
