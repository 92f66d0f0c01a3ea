package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/shortcode"
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
	if a.Slug == "" && a.Host == "" {
		return s.At(ctx, a)
	}
	if !a.IsPlausible() {
		return nil, link.ErrNotFound()
	}
	ctx = db.AsResolver(ctx)
	var owner struct {
		WorkspaceID   string
		DomainID      *string
		CaseSensitive bool
	}
	if err := s.pastOwner(a, db.Instant(at)).Scan(ctx, &owner); err != nil {
		return nil, db.NoRowsAs(link.ErrNotFound(), err, "looking up the owner of an address")
	}
	for candidate := range a.Candidates() {
		l := &link.Link{}
		q := s.DB.NewSelect().Model(l)
		if owner.DomainID == nil {
			q = q.Where("id = (?)", s.Resolver.WithCode(owner.WorkspaceID, candidate.Code))
		} else {
			key, _ := shortcode.OwnKey(candidate.Whole().Code, owner.CaseSensitive)
			q = q.Where("workspace_id = ?", owner.WorkspaceID).Where("code = ?", *owner.DomainID+"/"+key)
		}
		err := q.Scan(ctx)
		if err == nil && l.AnswersAt(candidate) {
			return l, link.Complete(ctx, s.DB, s.now(), l)
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("selecting a link by its code: %w", err)
		}
	}
	return nil, link.ErrNotFound()
}

// pastOwner selects the workspace that had the slug or host of an address at an instant. Slugs have
// no end.
func (s *Store) pastOwner(a resolve.Address, at time.Time) *bun.SelectQuery {
	if a.Host == "" {
		return s.DB.NewSelect().Table("slugs").Column("workspace_id").
			ColumnExpr("NULL AS domain_id, ? AS case_sensitive", true).
			Where("slug = ?", a.Slug).Where("created_at <= ?", at)
	}
	return s.DB.NewSelect().Table("host_owners").Column("workspace_id", "domain_id", "case_sensitive").
		Where("host = ?", a.Host).
		Where("starts_at <= ?", at).Where("ends_at IS NULL OR ends_at > ?", at)
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
