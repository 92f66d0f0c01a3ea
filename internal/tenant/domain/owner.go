package domain

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
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

// displace takes the domain's host from another workspace whose record is missing. It returns
// DomainTaken if that record exists, or was queried after found: a later query is more current.
func (s *Store) displace(ctx context.Context, tx bun.Tx, d *Domain, found records) error {
	other := &Domain{}
	q := tx.NewSelect().Model(other).Where("host = ?", d.Host).Where("verified_at IS NOT NULL")
	err := s.DB.ForUpdate(q).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	later := other.CheckedAt != nil && other.CheckedAt.After(found.queriedAt)
	if other.FailedAt == nil && (later || found.prove(other)) {
		return errDomainTaken()
	}
	return s.lose(ctx, tx, other, found)
}

// lose turns a verified domain, whose row is locked, into an unverified claim.
func (s *Store) lose(ctx context.Context, tx bun.Tx, d *Domain, found records) error {
	before := d.Status()
	d.VerifiedAt, d.FailedAt, d.CheckedAt = nil, nil, &found.queriedAt
	_, err := tx.NewUpdate().Model(d).Column("verified_at", "failed_at", "checked_at").WherePK().Exec(ctx)
	if err != nil {
		return err
	}
	if err := endOwnership(ctx, tx, d, s.now()); err != nil {
		return err
	}
	if err := workspace.ClearPrimaryHost(ctx, tx, d.WorkspaceID, d.Host, s.now()); err != nil {
		return err
	}
	return s.writeStatus(ctx, tx, "", before, d)
}

func errDomainTaken() error {
	return errs.New(errs.DomainTaken, "Another workspace has verified this host, and its TXT record is there too. "+
		"Remove that record first if the host is to be yours, then verify again.").At("id")
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
