package resolve

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// row has the columns of a link that a redirect needs.
type row struct {
	bun.BaseModel `bun:"table:links,alias:link"`

	ID          string
	WorkspaceID string
	Code        string
	RootCode    *string
	OriginalURL string
	routing.Settings
	DeletedAt    *time.Time
	DisabledAt   *time.Time
	NextChangeAt *time.Time

	MonthClicks int64     `bun:",scanonly"`
	readAt      time.Time // before the query
}

func (l *row) target() Target {
	t := Target{
		WorkspaceID: l.WorkspaceID, MonthClicks: l.MonthClicks, ReadAt: l.readAt.UnixMicro(),
		Program: routing.NewProgram(l.ID, &l.Settings, urlnorm.Location(l.OriginalURL)),
	}
	t.Deleted, t.Disabled = l.DeletedAt != nil, l.DisabledAt != nil
	return t
}

// queryLink reads a link, in one statement with concurrent lookups.
func (s *Resolver) queryLink(ctx context.Context, at subject) (entry, error) {
	found, err := s.lookups.Do(ctx, at.space == root, at, s.selectLinks)
	if errs.Is(err, errs.Unavailable) {
		return "", err
	}
	if err != nil { // another link may be the reason
		found, err = s.selectLinks(ctx, []subject{at})
	}
	if err != nil {
		return "", err
	}
	l := found[at]
	if l == nil {
		return "", sql.ErrNoRows
	}
	if l.NextChangeAt != nil {
		return s.queryScheduled(ctx, at)
	}
	t := l.target()
	return linkEntry(at, &t), nil
}

// queryCodeKey reads the code of a code key.
func (s *Resolver) queryCodeKey(ctx context.Context, at subject) (entry, error) {
	var code string
	err := s.DB.NewSelect().Table("links").Column("code").Where("workspace_id = ?", at.space).
		Where("code_key = ?", strings.TrimPrefix(at.name, folded)).Scan(ctx, &code)
	if err != nil {
		return "", err
	}
	return codeEntry(at, code), nil
}

// selectLinks reads links by their subjects, which all have the space root, or all have another.
// Links that do not exist are missing from the result.
func (s *Resolver) selectLinks(ctx context.Context, all []subject) (map[subject]*row, error) {
	ctx, cancel := context.WithTimeout(ctx, loadDeadline)
	defer cancel()
	readAt := s.Now()
	rows, err := s.selectRows(ctx, all, readAt)
	found := make(map[subject]*row, len(rows))
	for _, l := range rows {
		l.readAt = readAt
		found[l.subject(all[0].space == root)] = l
	}
	return found, err
}

// selectRows looks up each link by a unique index. On PostgreSQL the statement is planned once,
// perhaps when there are hardly any links. OFFSET 0 keeps the planner from merging the lateral
// subquery with the join, so that it looks up each key by itself.
func (s *Resolver) selectRows(ctx context.Context, all []subject, now time.Time) (rows []*row, err error) {
	spaces, codes := make([]string, len(all)), make([]string, len(all))
	for i, at := range all {
		spaces[i], codes[i] = at.space, at.name
	}
	q, p := s.DB.NewSelect().Model(&rows), s.DB.Params()
	wanted, by := "unnest(?::TEXT[]) AS wanted (code)", "root_code = wanted.code"
	keys := []any{p.Of(codes)}
	if all[0].space != root {
		wanted, by = "unnest(?::TEXT[], ?::TEXT[]) AS wanted (code, workspace_id)",
			"workspace_id = wanted.workspace_id AND code = wanted.code"
		keys = append(keys, p.Of(spaces))
	}
	q = q.ColumnExpr("?TableColumns").ColumnExpr("? AS month_clicks", monthClicks(p, now))
	switch {
	case p != nil:
		q = q.ModelTableExpr(wanted+" CROSS JOIN LATERAL (SELECT * FROM links WHERE "+by+" OFFSET 0) AS link", keys...)
	case all[0].space == root:
		q = q.Where("root_code IN (?)", bun.In(codes))
	default:
		q = q.WhereGroup("", func(q *bun.SelectQuery) *bun.SelectQuery {
			for _, at := range all {
				q = q.WhereOr("workspace_id = ? AND code = ?", at.space, at.name)
			}
			return q
		})
	}
	return rows, q.Scan(p.Bind(ctx))
}

// monthClicks returns the SQL of the clicks of a link in the month of an instant, or -1 if they do
// not suffice for its counter.
func monthClicks(p *db.Params, now time.Time) schema.QueryWithArgs {
	m := click.MonthOf(now)
	return clickstore.FloorSQL("link.id", p.Of(m), p.Of(m+1))
}

// subject returns the subject of the link's lookup.
func (l *row) subject(atRoot bool) subject {
	if atRoot {
		return subject{root, *l.RootCode}
	}
	return subject{l.WorkspaceID, l.Code}
}

func whereSubject(q *bun.SelectQuery, at subject) *bun.SelectQuery {
	if at.space == root {
		return q.Where("root_code = ?", at.name)
	}
	return q.Where("?TableAlias.workspace_id = ?", at.space).Where("code = ?", at.name)
}

// scheduledRow is a link with one of its pending changes, if there is one.
type scheduledRow struct {
	row `bun:",extend"`

	DueAt *time.Time        `bun:",scanonly"`
	Patch *linkfield.Change `bun:",scanonly"`
}

// queryScheduled reads a link and its pending changes by one statement, in case one is written
// meanwhile.
func (s *Resolver) queryScheduled(ctx context.Context, at subject) (entry, error) {
	var rows []scheduledRow
	readAt := s.Now()
	q := s.DB.NewSelect().Model(&rows).ColumnExpr("?TableColumns").ColumnExpr("scheduled.due_at, scheduled.patch").
		ColumnExpr("? AS month_clicks", monthClicks(nil, readAt)).
		Join("LEFT JOIN scheduled_changes AS scheduled ON scheduled.link_id = ?TableAlias.id").
		OrderExpr("scheduled.due_at, scheduled.id")
	if err := whereSubject(q, at).Scan(ctx); err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", sql.ErrNoRows
	}
	l := rows[0].row
	l.readAt = readAt
	states := []scheduledTarget{{Target: l.target()}}
	for _, change := range rows {
		if change.DueAt == nil {
			continue
		}
		change.Patch.Apply(&l.OriginalURL, &l.Settings)
		states = append(states, scheduledTarget{l.target(), *change.DueAt})
	}
	if len(states) == 1 {
		return linkEntry(at, &states[0].Target), nil
	}
	return scheduledEntry(at, states), nil
}
