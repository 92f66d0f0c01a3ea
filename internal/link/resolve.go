package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// Address is where a short URL lives: at the root, or below a workspace's slug.
type Address struct {
	// Slug is empty for a code at the root.
	Slug string
	Code string
}

// Target is what a redirect needs to know of a link.
type Target struct {
	Link `bun:",extend"`

	// HitQuota is the workspace's own; nil means the instance's.
	HitQuota *int64 `bun:",scanonly"`
}

// Resolve finds the link that answers at the address, in whatever state it is. It returns NotFound.
func (s *Store) Resolve(ctx context.Context, a Address) (*Target, error) {
	// What cannot be a code is never asked for, whatever bytes it has.
	if shortcode.ValidateCustom(a.Code) != nil || a.Slug != "" && shortcode.ValidateCustom(a.Slug) != nil {
		return nil, errNotFound()
	}
	var t Target
	q := s.DB.NewSelect().Model(&t).
		ColumnExpr("?TableColumns").ColumnExpr("w.hit_quota").
		Join("JOIN workspaces AS w ON w.id = link.workspace_id")
	if a.Slug == "" {
		q = q.Where("link.root_code = ?", a.Code)
	} else {
		q = q.Where("w.slug = ?", a.Slug).Where("link.code = ?", a.Code)
	}
	err := q.Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("resolving a code: %w", err)
	}
	return &t, nil
}

// Grant lets one redirect through, and reports whether the link's MaxClicks had one left: one statement decides, so
// no more are ever granted, however many nodes ask at once.
func (s *Store) Grant(ctx context.Context, t *Target) (bool, error) {
	if t.MaxClicks == nil {
		return true, nil
	}
	n, err := affected(s.DB.NewUpdate().Model((*Link)(nil)).Set("granted = granted + 1").
		Where("id = ?", t.ID).Where("granted < max_clicks OR max_clicks IS NULL").Exec(ctx))
	if err != nil {
		return false, fmt.Errorf("granting a redirect: %w", err)
	}
	return n > 0, nil
}

// Revoke takes back a grant that was not used; of a link without MaxClicks there was none.
func (s *Store) Revoke(ctx context.Context, t *Target) error {
	if t.MaxClicks == nil {
		return nil
	}
	_, err := s.DB.NewUpdate().Model((*Link)(nil)).Set("granted = granted - 1").Where("id = ?", t.ID).Where("granted > 0").Exec(ctx)
	if err != nil {
		return fmt.Errorf("revoking a grant: %w", err)
	}
	return nil
}

// ParseShortURL reads the address out of one of this instance's short URLs, in whatever way it is written and
// whatever was added as a query. It returns NotFound for any other.
func (s *Store) ParseShortURL(shortURL string) (Address, error) {
	u, err := urlnorm.Canonical(shortURL) // codes have nothing that the canonical form would change
	if err != nil {
		return Address{}, errNotFound()
	}
	path, ok := strings.CutPrefix(u.String(), s.publicURL.String())
	if !ok {
		return Address{}, errNotFound()
	}
	path, _, _ = strings.Cut(path, "?")
	if slug, code, ok := strings.Cut(path, "/"); ok {
		return Address{Slug: slug, Code: code}, nil
	}
	return Address{Code: path}, nil
}
