package resolve

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// errDown is the error of queries while the database does not answer.
var errDown = errs.New(errs.Unavailable, "The database is unavailable. Try again in a moment.")

// query runs one indexed SELECT. It fails at once while the feed finds no database: no visitor
// waits for it.
func (s *Resolver) query(ctx context.Context, at subject) (e entry, err error) {
	if s.Feed.IsDown() {
		return "", errDown
	}
	ctx, cancel := context.WithTimeout(db.AsResolver(ctx), loadDeadline)
	defer cancel()
	switch at.space {
	case slugs:
		e, err = s.querySlug(ctx, at)
	case hosts:
		e, err = s.queryHost(ctx, at)
	case documents:
		e, err = s.queryDocument(ctx, at)
	case workspaces:
		e, err = s.queryWorkspace(ctx, at)
	default:
		if strings.HasPrefix(at.name, folded) {
			e, err = s.queryCodeKey(ctx, at)
		} else {
			e, err = s.queryLink(ctx, at)
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		return absence(at, s.Now()), nil
	}
	if err != nil {
		return "", fmt.Errorf("resolving a code: %w", err)
	}
	return e, nil
}

func (s *Resolver) querySlug(ctx context.Context, at subject) (entry, error) {
	var workspaceID string
	if err := s.Place(Address{Slug: at.name}).Scan(ctx, &workspaceID); err != nil {
		return "", err
	}
	return placeEntry(at, workspaceID), nil
}

// workspaceRow has the columns of a workspace that a redirect needs.
type workspaceRow struct {
	HitQuota              *int64
	DeletedAt             *time.Time
	NotFoundURL, EndedURL *string
	CaseSensitiveCodes    bool
}

func (s *Resolver) queryWorkspace(ctx context.Context, at subject) (entry, error) {
	var w workspaceRow
	err := s.DB.NewSelect().Table("workspaces").Column("hit_quota", "deleted_at", "not_found_url", "ended_url",
		"case_sensitive_codes").
		Where("id = ?", at.name).Scan(ctx, &w)
	if err != nil {
		return "", err
	}
	return workspaceEntry(at, &settings{
		hitQuota: *cmp.Or(w.HitQuota, new(int64(-1))), isGone: w.DeletedAt != nil, foldsCodes: !w.CaseSensitiveCodes,
		notFoundURL: location(w.NotFoundURL), endedURL: location(w.EndedURL),
	}), nil
}
