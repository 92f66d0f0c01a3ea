package workspace

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/qr"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/routing/check"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// RoutingChange is the input for changing how a workspace's links answer by default. Fields without Set
// stay; nil resets a field.
type RoutingChange struct {
	// Defaults may change the query, the path and UTM values.
	Defaults    optional.Edit[*routing.Change]
	NotFoundURL optional.Edit[*string]
	EndedURL    optional.Edit[*string]
	// Inspectable is false after nil.
	Inspectable optional.Edit[*bool]
	// QRStyle changes the style of QR codes; nil resets it. VerifyQR checks that codes in the changed style can be read.
	QRStyle  optional.Edit[*qr.Change]
	VerifyQR func(context.Context, *qr.Style) error
}

// UpdateRouting changes how the links answer by default. It returns InvalidInput, InvalidURL, UnsafeURL
// or Forbidden.
func (s *Store) UpdateRouting(ctx context.Context, m Membership, c RoutingChange) (Membership, error) {
	ctx, err := m.Enter(ctx, WriteSettings)
	if err != nil {
		return Membership{}, err
	}
	for field, url := range map[string]*string{"notFoundUrl": c.NotFoundURL.To, "endedUrl": c.EndedURL.To} {
		if url == nil {
			continue
		}
		*url = urlnorm.Trim(*url)
		if err := s.Destinations.CheckFallback(ctx, s.DB, *url); err != nil {
			return Membership{}, errs.From(err).At(field)
		}
	}
	style, err := s.changeQRStyle(ctx, m, c)
	if err != nil {
		return Membership{}, errs.From(err).Under("qrStyle")
	}
	changed := m
	changed.workspace = &Workspace{}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		w := changed.workspace
		lock := tx.NewSelect().Model(w).Where("id = ?", m.ID())
		if err := s.DB.ForChange(lock).Scan(ctx); err != nil {
			return err
		}
		before := *w
		if c.Defaults.Set {
			if w.RoutingDefaults, err = check.Apply(c.Defaults.To, w.RoutingDefaults); err != nil {
				return errs.From(err).Under("defaults")
			}
		}
		c.NotFoundURL.Apply(&w.NotFoundURL)
		c.EndedURL.Apply(&w.EndedURL)
		if c.Inspectable.Set {
			w.Inspectable = optional.Value(c.Inspectable.To)
		}
		w.UpdatedAt = s.now()
		update := tx.NewUpdate().Model(w).WherePK().
			Column("routing_defaults", "not_found_url", "ended_url", "inspectable", "qr_style", "updated_at")
		if style != nil {
			if w.QRStyle = style; style.Equal(nil) {
				w.QRStyle = nil
			}
			update.Set("qr_logo = ?", style.Logo)
		}
		if _, err := update.Exec(ctx); err != nil {
			return err
		}
		if details := w.routingDetails(&before); len(details) > 0 {
			event := m.Event(s.Now(), audit.WorkspaceUpdated, m.ID(), details)
			return audit.Write(ctx, tx, event.WithChanges(w.changes(&before)))
		}
		return nil
	})
	if err != nil {
		return Membership{}, fmt.Errorf("changing the routing of a workspace: %w", err)
	}
	return changed, nil
}

// changeQRStyle returns the style after a change; nil if it stays. Reading codes takes milliseconds, so it
// is done before the transaction, and of two changes at once the last one decides the whole style.
func (s *Store) changeQRStyle(ctx context.Context, m Membership, c RoutingChange) (*qr.Style, error) {
	if !c.QRStyle.Set {
		return nil, nil
	}
	style := qr.Default()
	if c.QRStyle.To != nil {
		saved, err := s.QRStyle(ctx, m)
		if err != nil {
			return nil, err
		}
		if style, err = c.QRStyle.To.Apply(saved); err != nil {
			return nil, err
		}
	}
	return &style, c.VerifyQR(ctx, &style)
}

// QRStyle returns the style of the workspace's QR codes, with its logo.
func (s *Store) QRStyle(ctx context.Context, m Membership) (qr.Style, error) {
	style := qr.OrDefault(m.workspace.QRStyle)
	if !style.HasLogo() {
		return style, nil
	}
	var row struct {
		QRStyle *qr.Style `bun:"qr_style"` // it may have changed
		QRLogo  []byte    `bun:"qr_logo"`
	}
	err := s.DB.NewSelect().Table("workspaces").Column("qr_style", "qr_logo").Where("id = ?", m.ID()).
		Scan(db.AsResolver(ctx), &row)
	if err != nil {
		return qr.Style{}, fmt.Errorf("reading the style of QR codes: %w", err)
	}
	return qr.OrDefault(row.QRStyle).WithLogo(row.QRLogo), nil
}

// routingDetails returns the changed fields for the audit log.
func (w *Workspace) routingDetails(before *Workspace) audit.Details {
	details := audit.Details{}
	if !w.RoutingDefaults.Equal(before.RoutingDefaults) {
		details["routingDefaults"] = w.RoutingDefaults
	}
	if optional.Value(w.NotFoundURL) != optional.Value(before.NotFoundURL) {
		details["notFoundUrl"] = w.NotFoundURL
	}
	if optional.Value(w.EndedURL) != optional.Value(before.EndedURL) {
		details["endedUrl"] = w.EndedURL
	}
	if w.Inspectable != before.Inspectable {
		details["inspectable"] = w.Inspectable
	}
	if !w.QRStyle.Equal(before.QRStyle) {
		details["qrStyle"] = w.QRStyle
	}
	return details
}

// ClearURLs removes the matching fallback URLs from all workspaces for the operator, and returns how
// many.
func (s *Store) ClearURLs(ctx context.Context, matches func(url string) bool) (cleared int, err error) {
	ctx = db.AsSystem(ctx)
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var all []*Workspace
		q := tx.NewSelect().Model(&all).Where("not_found_url IS NOT NULL OR ended_url IS NOT NULL").Order("id")
		if err := s.DB.ForChange(q).Scan(ctx); err != nil {
			return err
		}
		cleared = 0
		for _, w := range all {
			before := *w
			for _, url := range []**string{&w.NotFoundURL, &w.EndedURL} {
				if *url != nil && matches(**url) {
					*url = nil
				}
			}
			details := w.routingDetails(&before)
			if len(details) == 0 {
				continue
			}
			cleared += len(details)
			if _, err := tx.NewUpdate().Model(w).Column("not_found_url", "ended_url").WherePK().Exec(ctx); err != nil {
				return err
			}
			event := audit.New(w.ID, "", audit.WorkspaceUpdated, w.ID, details, s.Now())
			if err := audit.Write(ctx, tx, event.WithChanges(w.changes(&before))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("clearing URLs of workspaces: %w", err)
	}
	return cleared, nil
}
