package domain

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"
)

// owner is a span of time during which a workspace had a host. Spans of a host do not overlap.
type owner struct {
	bun.BaseModel `bun:"table:host_owners"`

	Host        string `bun:",pk"`
	WorkspaceID string
	StartsAt    time.Time `bun:",pk"`
	// EndsAt is the first instant after it; nil if the workspace has the host.
	EndsAt *time.Time
	// DomainID is a domain with its own codes, case-sensitive or not; nil for others.
	DomainID      *string
	CaseSensitive bool
}

// startOwnership records that the workspace of a domain has the host from an instant on. The
// context has the scope of the system: the owner before may be another workspace.
func startOwnership(ctx context.Context, tx bun.Tx, d *Domain, at time.Time) error {
	var end *time.Time
	err := tx.NewSelect().Model((*owner)(nil)).ColumnExpr("max(ends_at)").Where("host = ?", d.Host).Scan(ctx, &end)
	if err != nil {
		return err
	}
	if end != nil && at.Before(*end) { // the clock of another node is ahead
		at = *end
	}
	span := &owner{Host: d.Host, WorkspaceID: d.WorkspaceID, StartsAt: at, CaseSensitive: d.CaseSensitive}
	if d.CodeSpace == Own {
		span.DomainID = &d.ID
	}
	_, err = tx.NewInsert().Model(span).Exec(ctx)
	return err
}

// endOwnership records that the workspace of a domain no longer has the host.
func endOwnership(ctx context.Context, tx bun.Tx, d *Domain, at time.Time) error {
	var start time.Time
	err := tx.NewSelect().Model((*owner)(nil)).Column("starts_at").Where("host = ?", d.Host).
		Where("workspace_id = ?", d.WorkspaceID).Where("ends_at IS NULL").Limit(1).Scan(ctx, &start)
	if errors.Is(err, sql.ErrNoRows) { // verified by a version that recorded no owners
		return nil
	}
	if err != nil {
		return err
	}
	if first := start.Add(time.Microsecond); at.Before(first) {
		at = first
	}
	_, err = tx.NewUpdate().Model((*owner)(nil)).Set("ends_at = ?", at).Where("host = ?", d.Host).
		Where("workspace_id = ?", d.WorkspaceID).Where("ends_at IS NULL").Exec(ctx)
	return err
}

// Purge removes the domains of a workspace that is being purged, and its ownership of hosts. The
// context must have the scope of the system.
func (s *Store) Purge(ctx context.Context, workspaceID string) error {
	if err := s.Rows().Purge(ctx, workspaceID); err != nil {
		return err
	}
	_, err := s.DB.NewDelete().Model((*owner)(nil)).Where("workspace_id = ?", workspaceID).Exec(ctx)
	return err
}
