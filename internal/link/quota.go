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

// UsageRow is how many links a workspace has created in a month.
type UsageRow struct {
	bun.BaseModel `bun:"table:link_usage"`

	WorkspaceID string `bun:",pk"`
	Month       string `bun:",pk"`
	Links       int64
}

// NewUsage returns a row that adds links to the usage of a workspace.
func NewUsage(workspaceID string, at time.Time, links int) UsageRow {
	return UsageRow{WorkspaceID: workspaceID, Month: month.Of(at).String(), Links: int64(links)}
}

// AddUsage adds to the usage of workspaces, and returns how much that is now. The source may restrict input.
func AddUsage(ctx context.Context, tx bun.Tx, source string, rows ...UsageRow) (used []UsageRow, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	err = db.InsertReturning(ctx, tx, db.Insert{Into: "link_usage AS u", Rest: source + `ON CONFLICT (workspace_id, month)
		DO UPDATE SET links = u.links + excluded.links RETURNING workspace_id, month, links`}, rows, &used)
	if err != nil {
		return nil, fmt.Errorf("consuming quotas: %w", err)
	}
	return used, nil
}

// ErrQuota is the error of a workspace that has used its quota up.
func (s *Store) ErrQuota(m workspace.Membership, now time.Time) *errs.Error {
	end := month.Of(now).End()
	return errs.New(errs.QuotaExceeded,
		"The workspace has made the %d links it may make this month. The next month begins at %s.",
		s.QuotaOf(m), end.Format("2006-01-02 15:04 MST")).After(end.Sub(now))
}
