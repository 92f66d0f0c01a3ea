package history

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// AsOf returns the version of a link at an instant; nil before its creation. It returns
// InvalidInput for the future, Expired for a version that was dropped, and Forbidden.
func (s *Store) AsOf(ctx context.Context, l *link.Link, at time.Time) (*link.Version, error) {
	if err := s.CheckNotFuture(at); err != nil {
		return nil, err
	}
	l = new(*l)
	if err := link.Complete(ctx, s.DB, s.now(), l); err != nil {
		return nil, err
	}
	number, err := l.Version, error(nil)
	if at.Before(l.VersionFrom()) {
		number, err = s.supersededAt(ctx, l, at)
	}
	if number == 0 || err != nil {
		return nil, err
	}
	versions, err := s.versionsBefore(ctx, l, number+1, 1)
	if err != nil || len(versions) == 0 {
		return nil, err
	}
	if v := versions[0]; number < l.Version || v.To == nil || at.Before(*v.To) {
		return v, nil
	}
	return s.unwrittenAt(ctx, l, at)
}

// unwrittenAt returns the version of an instant, which has begun and is not written yet.
func (s *Store) unwrittenAt(ctx context.Context, l *link.Link, at time.Time) (found *link.Version, err error) {
	versions, err := s.UnwrittenVersions(ctx, l)
	for _, v := range versions {
		if !v.From.After(at) {
			found = v
		}
	}
	return found, err
}

// supersededAt returns the number of the superseded version of an instant; zero before the creation
// of the link. It returns Expired for a version that was dropped, and Forbidden.
func (s *Store) supersededAt(ctx context.Context, l *link.Link, at time.Time) (int, error) {
	ctx, err := l.In.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return 0, err
	}
	var found struct{ Last, First *int }
	err = s.DB.NewSelect().Model((*link.VersionRow)(nil)).ColumnExpr("min(number) AS first").
		ColumnExpr("max(CASE WHEN starts_at <= ? THEN number END) AS last", db.Instant(at)).Where("link_id = ?", l.ID).
		Where("workspace_id = ?", l.WorkspaceID).Scan(db.UpToDate(ctx), &found)
	if err != nil {
		return 0, fmt.Errorf("looking up a version: %w", err)
	}
	if found.Last == nil && optional.Or(found.First, 1) > 1 {
		return 0, errs.New(errs.Expired, "The version of this instant is no longer stored.").At("at")
	}
	return optional.Value(found.Last), nil
}
