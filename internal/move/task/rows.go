package task

import (
	"context"
	"fmt"
	"strconv"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// RowOrder is the order of lists of the rows of a task: by their numbers.
var RowOrder = page.Order{Name: "NUMBER", Ascending: true}

// ListRows returns one page of the rows of a task that a condition selects, in RowOrder. It returns
// InvalidInput for a cursor of another list, and Forbidden.
func ListRows[T any](
	ctx context.Context, d *db.DB, t *Task, r page.Request, number func(*T) int64,
	condition func(*bun.SelectQuery) *bun.SelectQuery,
) (p page.Page[*T], err error) {
	if ctx, err = t.In.Enter(ctx, workspace.ReadLinks); err != nil {
		return p, err
	}
	var rows []*T
	q := d.NewSelect().Model(&rows).Where("task_id = ?", t.ID).Apply(condition).Order("number").Limit(int64(r.Size) + 1)
	if r.After != "" {
		after, err := strconv.ParseInt(r.After, 10, 64)
		if err != nil {
			return p, errs.New(errs.InvalidInput, "after is not a cursor of this list.").At("after")
		}
		q = q.Where("number > ?", after)
	}
	if err := q.Scan(ctx); err != nil {
		return p, fmt.Errorf("listing the rows of a task: %w", err)
	}
	p = page.Cut(r, rows)
	for _, row := range p.Items {
		p.Cursors = append(p.Cursors, r.Order.Cursor(strconv.FormatInt(number(row), 10), ""))
	}
	return p, nil
}
