package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/month"
	"github.com/linkforge/linkforge/internal/workspace"
)

// QuotaOf returns how many links the workspace may create in a month.
func (s *Store) QuotaOf(m workspace.Membership) int64 {
	if own := m.Workspace().LinkQuota; own != nil {
		return *own
	}
	return s.LinkQuota
}

// Usage returns how many links the workspace has created in the current month, and the month.
func (s *Store) Usage(ctx context.Context, m workspace.Membership) (links int64, this month.Month, err error) {
	ctx, err = m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return 0, 0, err
	}
	this = month.Of(s.Now())
	err = s.DB.NewSelect().Table("link_usage").Column("links").
		Where("workspace_id = ?", m.ID()).Where("month = ?", this.String()).Scan(ctx, &links)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, this, fmt.Errorf("reading a workspace's usage: %w", err)
	}
	return links, this, nil
}

// SpaceUsage is the usage and the quota of new links of a workspace in a month.
type SpaceUsage struct {
	ID, Slug, Name string
	Links, Quota   int64
}

// Usages returns the usage of all workspaces in the current month, ordered by id, for the operator.
func (s *Store) Usages(ctx context.Context) ([]SpaceUsage, error) {
	var usages []SpaceUsage
	err := s.DB.NewSelect().TableExpr("workspaces AS w").
		Join("LEFT JOIN link_usage AS u ON u.workspace_id = w.id AND u.month = ?", month.Of(s.Now()).String()).
		ColumnExpr("w.id, w.slug, w.name, COALESCE(u.links, 0) AS links, COALESCE(w.link_quota, ?) AS quota", s.LinkQuota).
		Where("w.deleted_at IS NULL").OrderExpr("w.id").Scan(db.AsSystem(ctx), &usages)
	if err != nil {
		return nil, fmt.Errorf("reading the usage of workspaces: %w", err)
	}
	return usages, nil
}

// consumeQuota locks the workspace's quota of the month and consumes n links, even beyond the
// limit. It returns the number of links that remained before. Anonymous links have no quota.
func (s *Store) consumeQuota(
	ctx context.Context, tx bun.Tx, m workspace.Membership, now time.Time, links int,
) (left int, err error) {
	if m.IsPublic() {
		return links, nil
	}
	var used int64
	p := s.DB.Params()
	err = tx.NewRaw(`INSERT INTO link_usage AS u (workspace_id, month, links) VALUES (?, ?, ?)
		ON CONFLICT (workspace_id, month) DO UPDATE SET links = u.links + excluded.links RETURNING links`,
		p.Of(m.ID()), p.Of(month.Of(now).String()), p.Of(links)).Scan(p.Bind(ctx), &used)
	if err != nil {
		return 0, fmt.Errorf("consuming the quota: %w", err)
	}
	return int(max(0, s.QuotaOf(m)-used+int64(links))), nil
}

// returnQuota returns links that were consumed and not created.
func (s *Store) returnQuota(
	ctx context.Context, tx bun.Tx, m workspace.Membership, now time.Time, links int,
) error {
	if m.IsPublic() || links == 0 {
		return nil
	}
	p := s.DB.Params()
	_, err := tx.NewRaw("UPDATE link_usage SET links = links - ? WHERE workspace_id = ? AND month = ?",
		p.Of(links), p.Of(m.ID()), p.Of(month.Of(now).String())).Exec(p.Bind(ctx))
	return err
}

func (s *Store) errQuota(m workspace.Membership, now time.Time) error {
	end := month.Of(now).End()
	return errs.New(errs.QuotaExceeded,
		"The workspace has made the %d links it may make this month. The next month begins at %s.",
		s.QuotaOf(m), end.Format("2006-01-02 15:04 MST")).After(end.Sub(now))
}
