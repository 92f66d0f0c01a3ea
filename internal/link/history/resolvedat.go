package history

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// CheckNotFuture returns InvalidInput for an instant in the future.
func (s *Store) CheckNotFuture(at time.Time) error {
	if at.After(s.Now()) {
		return errs.New(errs.InvalidInput, "at must not be in the future.").At("at")
	}
	return nil
}

// ByPastAddress returns the link that answered at an address at an instant, as it is now. Codes
// stay with their links, so that only the slug or host may have belonged to no workspace then, or
// to another. Whether a path is forwarded is as it is now. It checks no permission. It returns
// NotFound.
func (s *Store) ByPastAddress(ctx context.Context, a resolve.Address, at time.Time) (*link.Link, error) {
	at = db.Instant(at)
	if a.Host == "" {
		return s.AtPlace(ctx, a, s.Resolver.Place(a).Where("created_at <= ?", at)) // slugs have no end
	}
	return s.AtPlace(ctx, a, s.DB.NewSelect().Table("host_owners").Column("workspace_id", "case_sensitive").
		ColumnExpr("coalesce(domain_id, '') AS own_id").Where("host = ?", a.Host).
		Where("starts_at <= ?", at).Where("ends_at IS NULL OR ends_at > ?", at))
}

// ResolvedAt returns the version of a link that answered at one of its addresses at an instant; nil
// if it did not. It returns the errors of AsOf.
func (s *Store) ResolvedAt(ctx context.Context, l *link.Link, a resolve.Address, at time.Time) (*link.Version, error) {
	v, err := s.AsOf(ctx, l, at)
	isAtRoot := a.Slug == "" && a.Host == ""
	if v != nil && v.Number == 1 && l.ClaimHash != nil && !isAtRoot { // it was in no workspace yet
		return nil, nil
	}
	return v, err
}
