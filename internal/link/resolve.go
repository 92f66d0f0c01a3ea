package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// Address is where a short URL lives: at the root, below a workspace's slug, or at a workspace's own host.
type Address struct {
	// Host is empty for the instance's own.
	Host string
	// Slug is empty for a code at the root.
	Slug string
	Code string
}

// hostPattern is what the name of a domain is written with.
var hostPattern = regexp.MustCompile(`^[a-z0-9._-]{0,253}$`)

// Target is what a redirect needs to know of a link.
type Target struct {
	Link `bun:",extend"`

	// HitQuota is the workspace's own; nil means the instance's.
	HitQuota *int64 `bun:",scanonly"`
	// WorkspaceDeletedAt is when the workspace was deleted.
	WorkspaceDeletedAt *time.Time `bun:",scanonly"`
}

// Gone says that the workspace has been deleted, whatever state the link is in.
func (t *Target) Gone() bool { return t.WorkspaceDeletedAt != nil }

// Resolve finds the link that answers at the address, in whatever state it is. It returns NotFound, or Expired for
// addresses of a workspace that has been deleted.
func (s *Store) Resolve(ctx context.Context, a Address) (*Target, error) {
	// What cannot be a code is never asked for, whatever bytes it has.
	if shortcode.ValidateCustom(a.Code) != nil || a.Slug != "" && shortcode.ValidateCustom(a.Slug) != nil || !hostPattern.MatchString(a.Host) {
		return nil, errNotFound()
	}
	ctx = db.AsResolver(ctx)
	var t Target
	q := s.DB.NewSelect().Model(&t).
		ColumnExpr("?TableColumns").ColumnExpr("w.hit_quota, w.deleted_at AS workspace_deleted_at").
		Join("JOIN workspaces AS w ON w.id = link.workspace_id")
	if a.Slug == "" && a.Host == "" {
		q = q.Where("link.root_code = ?", a.Code)
	} else {
		q = q.Where("w.id = (?)", s.workspaceAt(a)).Where("link.code = ?", a.Code)
	}
	err := q.Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, s.errUnknown(ctx, a)
	}
	if err != nil {
		return nil, fmt.Errorf("resolving a code: %w", err)
	}
	return &t, nil
}

// workspaceAt asks for the workspace that has, or had, the slug, or that has the host now.
func (s *Store) workspaceAt(a Address) *bun.SelectQuery {
	if a.Host != "" {
		return s.DB.NewSelect().Table("domains").Column("workspace_id").Where("host = ?", a.Host).Where("verified_at IS NOT NULL")
	}
	return s.DB.NewSelect().Table("slugs").Column("workspace_id").Where("slug = ?", a.Slug)
}

// errUnknown is what there is to say of an address that leads nowhere.
func (s *Store) errUnknown(ctx context.Context, a Address) error {
	if a.Slug == "" && a.Host == "" {
		return errNotFound()
	}
	gone, err := s.DB.NewSelect().Table("workspaces").Where("id = (?)", s.workspaceAt(a)).Where("deleted_at IS NOT NULL").Exists(ctx)
	if err != nil {
		return fmt.Errorf("looking for a deleted workspace: %w", err)
	}
	if gone {
		return errs.New(errs.Expired, "The workspace of this link has been deleted.")
	}
	return errNotFound()
}

// Grant lets one redirect through, and reports whether the link's MaxClicks had one left: one statement decides, so
// no more are ever granted, however many nodes ask at once.
func (s *Store) Grant(ctx context.Context, t *Target) (bool, error) {
	if t.MaxClicks == nil {
		return true, nil
	}
	n, err := affected(s.DB.NewUpdate().Model((*Link)(nil)).Set("granted = granted + 1").
		Where("id = ?", t.ID).Where("granted < max_clicks OR max_clicks IS NULL").Exec(db.AsResolver(ctx)))
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
	_, err := s.DB.NewUpdate().Model((*Link)(nil)).Set("granted = granted - 1").Where("id = ?", t.ID).Where("granted > 0").Exec(db.AsResolver(ctx))
	if err != nil {
		return fmt.Errorf("revoking a grant: %w", err)
	}
	return nil
}

// ParseShortURL reads the address out of one of this instance's short URLs, in whatever way it is written and
// whatever was added as a query. Any other host may be a workspace's own. It returns NotFound for what is no URL.
func (s *Store) ParseShortURL(shortURL string) (Address, error) {
	u, err := urlnorm.Canonical(shortURL) // codes have nothing that the canonical form would change
	if err != nil {
		return Address{}, errNotFound()
	}
	path, ok := strings.CutPrefix(u.String(), s.publicURL.String())
	if !ok {
		_, path, _ = strings.Cut(u.String(), "://")
		_, path, _ = strings.Cut(path, "/")
		path, _, _ = strings.Cut(path, "?")
		return Address{Host: u.Host(), Code: path}, nil
	}
	path, _, _ = strings.Cut(path, "?")
	if slug, code, ok := strings.Cut(path, "/"); ok {
		return Address{Slug: slug, Code: code}, nil
	}
	return Address{Code: path}, nil
}
