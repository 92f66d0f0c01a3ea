package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/resolve"
)

// CheckNotFuture returns InvalidInput for an instant in the future.
func (s *Store) CheckNotFuture(at time.Time) error {
	if at.After(s.Now()) {
		return errs.New(errs.InvalidInput, "at must not be in the future.").At("at")
	}
	return nil
}

// ByPastAddress returns the link that answered at an address at an instant, as it is now. Slugs are never reissued
// and codes stay with their links, so that only a host may have had another owner. It checks no permission.
// It returns NotFound.
func (s *Store) ByPastAddress(ctx context.Context, a resolve.Address, at time.Time) (*Link, error) {
	if a.Host == "" {
		return s.At(ctx, a)
	}
	var workspaceID string
	q := s.DB.NewSelect().Table("host_owners").Column("workspace_id").Where("host = ?", a.Host).
		Where("starts_at <= ?", db.Instant(at)).Where("ends_at IS NULL OR ends_at > ?", db.Instant(at))
	err := q.Scan(db.AsResolver(ctx), &workspaceID)
	if err != nil {
		return nil, db.NoRowsAs(errNotFound(), err, "looking up the owner of a host")
	}
	l := &Link{}
	err = s.DB.NewSelect().Model(l).Where("workspace_id = ?", workspaceID).Where("code = ?", a.Code).
		Scan(db.AsResolver(ctx))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("selecting a link by its code: %w", err)
	}
	return l, nil
}

// ResolvedAt returns the version of a link that answered at one of its addresses at an instant; nil if it
// did not. It returns the errors of AsOf.
func (s *Store) ResolvedAt(ctx context.Context, l *Link, a resolve.Address, at time.Time) (*Version, error) {
	v, err := s.AsOf(ctx, l, at)
	isAtRoot := a.Slug == "" && a.Host == ""
	if v != nil && v.Number == 1 && l.ClaimHash != nil && !isAtRoot { // it was in no workspace yet
		return nil, nil
	}
	return v, err
}
