package workspace

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/qr"
)

// changedQRStyle returns the style after a change; nil if it stays. Reading codes takes
// milliseconds, so it is done before the transaction, and of two changes at once the last one
// decides the whole style.
func (s *Store) changedQRStyle(ctx context.Context, m Membership, c Change) (*qr.Style, error) {
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
	return &style, nil
}

// QRStyle returns the style of the workspace's QR codes, with its logo.
func (s *Store) QRStyle(ctx context.Context, m Membership) (qr.Style, error) {
	style := qr.OrDefault(m.row.QRStyle)
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

// ClearURLs removes the matching fallback URLs from all workspaces for the operator, and returns
// how many.
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
			details := w.details(&before)
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
