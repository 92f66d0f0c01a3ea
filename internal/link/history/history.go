// Package history reads the versions of links: their list, the version at an instant, and the
// response of a short URL at that instant. It also compares them with the links and events. Package
// link writes versions. The GraphQL resolvers and the commands call it.
package history

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Store reads the versions of links.
type Store struct{ *link.Store }

// now returns the current time in the precision of the database.
func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Versions returns one page of the versions of a link, newest first. The cursor is a number. It
// returns InvalidInput for one that is not, and Forbidden.
func (s *Store) Versions(
	ctx context.Context, l *link.Link, first *int, after string,
) (p page.Page[*link.Version], err error) {
	size, sizeErr := page.Size(first)
	before, cursorErr := l.Version+1, error(nil)
	if after != "" {
		if before, err = strconv.Atoi(after); err != nil || before < 1 || before > l.Version {
			cursorErr = errs.New(errs.InvalidInput, "The cursor is not one of this list.").At("after")
		}
	}
	if err := errs.All(sizeErr, cursorErr); err != nil {
		return p, err
	}
	versions, err := s.versionsBefore(ctx, l, before, size+1)
	if err != nil {
		return p, err
	}
	p.HasPrevious = after != ""
	if p.HasNext = len(versions) > size; p.HasNext {
		versions = versions[:size]
	}
	p.Items = versions
	for _, v := range versions {
		p.Cursors = append(p.Cursors, strconv.Itoa(v.Number))
	}
	return p, nil
}

// versionsBefore returns at most limit versions with smaller numbers, newest first.
func (s *Store) versionsBefore(
	ctx context.Context, l *link.Link, number, limit int,
) (versions []*link.Version, err error) {
	if ctx, err = l.In.Enter(ctx, workspace.ReadLinks); err != nil {
		return nil, err
	}
	ctx = db.UpToDate(ctx) // a standby may lack the versions before the link's
	if number > l.Version {
		unwritten, err := s.UnwrittenVersions(ctx, l)
		if err != nil {
			return nil, err
		}
		versions = append(versions, unwritten[0])
	}
	var rows []link.VersionRow
	err = s.DB.NewSelect().Model(&rows).Where("link_id = ?", l.ID).Where("workspace_id = ?", l.WorkspaceID).
		Where("number < ?", min(number, l.Version)).Order("number DESC").Limit(int64(limit + 1)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading versions: %w", err)
	}
	for _, row := range rows {
		v, err := row.Version(l)
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	for i := range versions[:max(len(versions)-1, 0)] {
		versions[i].Changes = audit.Compare(versions[i+1].Fields(), versions[i].Fields())
	}
	return versions[:min(len(versions), limit)], nil
}
