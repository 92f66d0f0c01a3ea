package click

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// List is a page of the clicks of a subject, newest first. A nil range means all that are kept. It returns InvalidInput or
// Forbidden.
func (s *Store) List(ctx context.Context, m workspace.Membership, of Subject, r *Range, f Filter, request page.Request) (page.Page[*Click], error) {
	ctx, err := m.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return page.Page[*Click]{}, err
	}
	if err := f.check(); err != nil {
		return page.Page[*Click]{}, err
	}
	stats := &Stats{Subject: of, Filter: f, store: s, member: m}
	var rows []*row
	q := s.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID())
	if !stats.isWorkspace() {
		q = stats.subject(q, "link_id")
	}
	if r != nil {
		if !r.From.Before(r.To) {
			return page.Page[*Click]{}, errs.New(errs.InvalidInput, "The range must begin before it ends.").At("range")
		}
		q = q.Where("clicked_at >= ?", r.From.UTC()).Where("clicked_at < ?", r.To.UTC())
	}
	if request.After != "" {
		micros, number, ok := id.Split(id.Click, request.After)
		if !ok {
			return page.Page[*Click]{}, errs.New(errs.InvalidInput, "The cursor is none of these clicks.").At("after")
		}
		q = q.Where("(clicked_at, id) < (?, ?)", time.UnixMicro(micros).UTC(), number)
	}
	err = f.filter(q).OrderExpr("clicked_at DESC, id DESC").Limit(int64(request.Size) + 1).Scan(ctx)
	if err != nil {
		return page.Page[*Click]{}, fmt.Errorf("listing clicks: %w", err)
	}
	clicks := make([]*Click, len(rows))
	for i, r := range rows {
		clicks[i] = r.click()
	}
	return page.Cut(request, clicks), nil
}
