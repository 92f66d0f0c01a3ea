package workspace

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// slugRow reserves a slug that a workspace has or had.
type slugRow struct {
	bun.BaseModel `bun:"table:slugs,alias:slug"`

	Slug        string `bun:",pk"`
	WorkspaceID string
	CreatedAt   time.Time
}

// reserveSlug reserves a slug for the workspace for ever. It may have had the slug before. It
// returns SlugTaken.
func (s *Store) reserveSlug(ctx context.Context, tx bun.Tx, workspaceID, slug string) error {
	row := &slugRow{Slug: slug, WorkspaceID: workspaceID, CreatedAt: s.now()}
	if _, err := tx.NewInsert().Model(row).On("CONFLICT (slug) DO NOTHING").Returning("NULL").Exec(ctx); err != nil {
		return err
	}
	own, err := tx.NewSelect().Model((*slugRow)(nil)).
		Where("slug = ?", slug).Where("workspace_id = ?", workspaceID).Exists(ctx)
	if err == nil && !own {
		return errSlugTaken()
	}
	return err
}

// checkSlugChanges returns QuotaExceeded if the workspace has had as many new slugs in the month as
// it may have. A slug that it has had before is not new. The workspace is locked.
func (s *Store) checkSlugChanges(ctx context.Context, tx bun.Tx, w *Workspace, slug string) error {
	if s.SlugChanges == 0 {
		return nil
	}
	now := s.now()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	var others []string
	err := tx.NewSelect().Model((*slugRow)(nil)).Column("slug").Where("workspace_id = ?", w.ID).
		Where("created_at >= ?", month).Where("created_at > ?", w.CreatedAt).Scan(ctx, &others)
	if err != nil || len(others) < s.SlugChanges || slices.Contains(others, slug) {
		return err
	}
	return errs.New(errs.QuotaExceeded, "The workspace has changed its slug %d times this month, the maximum.",
		s.SlugChanges).At("slug")
}

// ReleaseSlugs deletes former slugs, a day after they were taken, if no link of the workspace was ever
// followed: their short URLs were never used.
func (s *Store) ReleaseSlugs(ctx context.Context) error {
	followed := s.DB.NewSelect().Table("click_totals").ColumnExpr("1").
		Where("click_totals.subject_id = slug.workspace_id").Where("click_totals.clicks > 0")
	current := s.DB.NewSelect().Table("workspaces").ColumnExpr("1").Where("workspaces.slug = slug.slug")
	_, err := s.DB.NewDelete().Model((*slugRow)(nil)).Where("created_at < ?", s.now().Add(-24*time.Hour)).
		Where("NOT EXISTS (?)", followed).Where("NOT EXISTS (?)", current).Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("releasing slugs: %w", err)
	}
	return nil
}

func errSlugTaken() error {
	return errs.New(errs.SlugTaken, "The slug is taken. Choose another one.").At("slug")
}

// slugPattern is a label of host names. Browsers decode a label that starts with xn--, so that it
// would be shown as another name.
var slugPattern = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{1,46}[a-z0-9])$`)

func checkSlug(slug string) error {
	if !slugPattern.MatchString(slug) {
		return errs.New(errs.InvalidInput,
			"A slug has 3 to 48 characters: lower-case letters, digits and, not at its ends, hyphens.").At("slug")
	}
	if strings.HasPrefix(slug, "xn--") {
		return errs.New(errs.InvalidInput,
			"A slug must not start with xn--: that prefix marks an encoded host name.").At("slug")
	}
	if shortcode.Reserved(slug) {
		return errs.New(errs.SlugTaken, "The server keeps this word for itself. Choose another slug.").At("slug")
	}
	return nil
}
