package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Quota reads the monthly quota of new links: how many a workspace may create, and how many it has
// created. Packages creation and edit consume it by AddUsage in the transactions that give a
// workspace links.
type Quota struct {
	DB *db.DB
	// Default is how many links a workspace without its own quota may create in a month.
	Default int64
	Now     func() time.Time
}

// Limit returns how many links the workspace may create in a month.
func (s *Quota) Limit(m workspace.Membership) int64 {
	if own := m.Workspace().LinkQuota; own != nil {
		return *own
	}
	return s.Default
}

// Used returns how many links the workspace has created in the current month, and the month. It
// returns Forbidden for a membership with a fence.
func (s *Quota) Used(ctx context.Context, m workspace.Membership) (links int64, this click.Month, err error) {
	ctx, err = m.EnterWhole(ctx, workspace.ReadLinks)
	if err != nil {
		return 0, 0, err
	}
	this = click.MonthOf(s.Now())
	err = s.DB.NewSelect().Model((*Usage)(nil)).Column("links").
		Where("workspace_id = ?", m.ID()).Where("month = ?", this.String()).Scan(ctx, &links)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, this, fmt.Errorf("reading a workspace's usage: %w", err)
	}
	return links, this, nil
}

// WorkspaceUsage is the usage and the quota of new links of a workspace in a month.
type WorkspaceUsage struct {
	ID, Slug, Name string
	Links, Quota   int64
}

// List returns the usage of all workspaces in the current month, ordered by id, for the operator.
func (s *Quota) List(ctx context.Context) ([]WorkspaceUsage, error) {
	var usages []WorkspaceUsage
	err := s.DB.NewSelect().TableExpr("workspaces AS w").
		Join("LEFT JOIN link_usage AS u ON u.workspace_id = w.id AND u.month = ?", click.MonthOf(s.Now()).String()).
		ColumnExpr("w.id, w.slug, w.name, COALESCE(u.links, 0) AS links, COALESCE(w.link_quota, ?) AS quota",
			s.Default).
		Where("w.deleted_at IS NULL").OrderExpr("w.id").Scan(db.AsSystem(ctx), &usages)
	if err != nil {
		return nil, fmt.Errorf("reading the usage of workspaces: %w", err)
	}
	return usages, nil
}

// Exceeded is the error of a workspace that has used its quota up. A membership with a fence may not
// know how many links that are.
func (s *Quota) Exceeded(m workspace.Membership, now time.Time) *errs.Error {
	end, links := click.MonthOf(now).End(), "all"
	if m.Fence() == nil {
		links = fmt.Sprint("the ", s.Limit(m))
	}
	return errs.New(errs.QuotaExceeded,
		"The workspace has made %s links it may make this month. The next month begins at %s.",
		links, end.Format("2006-01-02 15:04 MST")).After(end.Sub(now))
}

// membersPart is the part of the month's quota that publishable keys leave to the members of the
// workspace: a tenth.
const membersPart = 10

// DayOfKey is how many links a publishable key may still create today, within the month's quota of
// its workspace. Exceeded is the error beyond that.
type DayOfKey struct {
	Left     int64
	Exceeded *errs.Error
}

// AddDay adds links to what a publishable key has created today, and returns what that leaves. Left
// is what the month's quota leaves the workspace.
func (s *Quota) AddDay(
	ctx context.Context, tx bun.Tx, m workspace.Membership, at time.Time, links, left int64,
) (DayOfKey, error) {
	day, usage := at.UTC().Truncate(24*time.Hour), KeyUsage{KeyID: m.KeyID(), WorkspaceID: m.ID(), Links: links}
	usage.Day = day.Format(time.DateOnly)
	// Of nodes whose clocks differ around midnight, the later day counts.
	err := tx.NewInsert().Model(&usage).On("CONFLICT (key_id) DO UPDATE").
		Set("links = CASE WHEN key_usage.day < excluded.day THEN 0 ELSE key_usage.links END + excluded.links").
		Set("day = CASE WHEN key_usage.day < excluded.day THEN excluded.day ELSE key_usage.day END").
		Returning("links").Scan(ctx, &usage.Links)
	if err != nil {
		return DayOfKey{}, fmt.Errorf("consuming the quota of a key: %w", err)
	}
	month := s.Limit(m)
	perDay := max(1, month/membersPart)
	if own := m.LinksPerDay(); own != nil {
		perDay = int64(*own)
	}
	ofDay, ofMonth := perDay-(usage.Links-links), left-(month+membersPart-1)/membersPart
	next := day.Add(24 * time.Hour)
	d := DayOfKey{Left: max(0, min(ofDay, ofMonth)), Exceeded: errs.New(errs.QuotaExceeded,
		"The API key has made the %d links that it may make today. The next day begins at %s.",
		perDay, next.Format("2006-01-02 15:04 MST")).After(next.Sub(at))}
	if ofMonth < ofDay {
		end := click.MonthOf(at).End()
		d.Exceeded = errs.New(errs.QuotaExceeded,
			"The last tenth of the workspace's links of this month is for its members. The next month begins at %s.",
			end.Format("2006-01-02 15:04 MST")).After(end.Sub(at))
	}
	return d, nil
}

// KeyUsage is how many links a publishable key has created on a day.
type KeyUsage struct {
	bun.BaseModel `bun:"table:key_usage"`

	KeyID       string `bun:",pk"`
	WorkspaceID string
	Day         string
	Links       int64
}

// Usage is how many links a workspace has created in a month.
type Usage struct {
	bun.BaseModel `bun:"table:link_usage"`

	WorkspaceID string `bun:",pk"`
	Month       string `bun:",pk"`
	Links       int64
}

// NewUsage returns a row that adds links to the usage of a workspace.
func NewUsage(workspaceID string, at time.Time, links int) Usage {
	return Usage{WorkspaceID: workspaceID, Month: click.MonthOf(at).String(), Links: int64(links)}
}

// AddUsage adds to the usage of workspaces, and returns how much that is now. The source is SQL
// that joins the rows, which it names input: it may leave some out.
func AddUsage(ctx context.Context, tx bun.Tx, source string, rows ...Usage) (used []Usage, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	err = db.InsertReturning(ctx, tx,
		db.Insert{Into: "link_usage AS u", Rest: source + `ON CONFLICT (workspace_id, month)
		DO UPDATE SET links = u.links + excluded.links RETURNING workspace_id, month, links`}, rows, &used)
	if err != nil {
		return nil, fmt.Errorf("consuming quotas: %w", err)
	}
	return used, nil
}

// PurgeUsage deletes the usage of a workspace.
func PurgeUsage(ctx context.Context, conn bun.IDB, workspaceID string) error {
	if _, err := conn.NewDelete().Model((*Usage)(nil)).Where("workspace_id = ?", workspaceID).Exec(ctx); err != nil {
		return fmt.Errorf("deleting the usage of a workspace: %w", err)
	}
	if _, err := conn.NewDelete().Model((*KeyUsage)(nil)).Where("workspace_id = ?", workspaceID).Exec(ctx); err != nil {
		return fmt.Errorf("deleting the usage of the keys of a workspace: %w", err)
	}
	return nil
}
