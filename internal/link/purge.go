package link

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Purge deletes links that the caller has locked in the transaction, with their tags, versions,
// scheduled changes, URLs and the values in their events, and records that they were purged. The
// rows of deterministic links are scrubbed instead, so that the same URL always gets the same code.
func (s *Store) Purge(ctx context.Context, tx bun.Tx, links ...*Link) error {
	ids, scrubbed, events := make([]string, 0, len(links)), []Rewrite{}, []*audit.Event{}
	for _, l := range links {
		ids = append(ids, l.ID)
		if l.WorkspaceID != id.PublicWorkspace {
			events = append(events, audit.New(l.WorkspaceID, "", audit.LinkPurged, l.ID, nil, s.Now()))
		}
		if l.Strategy == Deterministic {
			scrubbed = append(scrubbed, Rewrite{Before: l, After: scrub(l, s.now())})
		}
	}
	if _, err := tx.NewDelete().Model((*tag)(nil)).Where("link_id IN (?)", bun.In(ids)).Exec(ctx); err != nil {
		return fmt.Errorf("deleting tags: %w", err)
	}
	if err := s.write(ctx, tx, scrubbed); err != nil {
		return err
	}
	for _, row := range []any{(*VersionRow)(nil), (*ScheduledChange)(nil), (*URLRow)(nil)} {
		if _, err := tx.NewDelete().Model(row).Where("link_id IN (?)", bun.In(ids)).Exec(ctx); err != nil {
			return fmt.Errorf("deleting the history of links: %w", err)
		}
	}
	_, err := tx.NewDelete().Model((*Link)(nil)).Where("id IN (?)", bun.In(ids)).Where("strategy <> 'DETERMINISTIC'").
		Exec(ctx)
	if err != nil {
		return fmt.Errorf("deleting links: %w", err)
	}
	if err := audit.ForgetValues(ctx, tx, ids...); err != nil {
		return err
	}
	return audit.Write(ctx, tx, events...)
}

// scrub returns a purged deterministic link, which only reserves its code.
func scrub(l *Link, now time.Time) *Link {
	h := &Link{
		ID: l.ID, WorkspaceID: l.WorkspaceID, Code: l.Code, RootCode: l.RootCode, Strategy: l.Strategy,
		CanonicalHash: l.CanonicalHash,
		Values:        linkfield.Values{Settings: routing.Settings{RedirectStatus: l.RedirectStatus}},
		CreatedAt:     l.CreatedAt, UpdatedAt: now, DeletedAt: l.DeletedAt, EndedAt: l.EndedAt, PurgedAt: &now,
		ClaimHash: l.ClaimHash,
	}
	if h.DeletedAt == nil {
		h.DeletedAt = &now
	}
	return h
}
