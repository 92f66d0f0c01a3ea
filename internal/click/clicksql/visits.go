package clicksql

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
)

// visitorsAtOnce bounds a statement.
const visitorsAtOnce = 5000

// markVisits marks the first click of each visitor of a link on a day. The link's total is locked,
// so no other writer marks the same visitors.
func (s *Store) markVisits(ctx context.Context, tx bun.Tx, clicks []click.Click) error {
	firsts := map[int64]map[int64]*click.Click{} // by day and visitor
	for i := range clicks {
		c := &clicks[i]
		if c.Visitor == 0 || c.Bot {
			continue
		}
		d := click.DayOf(c.ClickedAt)
		if firsts[d] == nil {
			firsts[d] = map[int64]*click.Click{}
		}
		if firsts[d][c.Visitor] == nil {
			firsts[d][c.Visitor] = c
		}
	}
	for d, visitors := range firsts {
		if err := s.addVisitors(ctx, tx, d, visitors); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) addVisitors(ctx context.Context, tx bun.Tx, day int64, visitors map[int64]*click.Click) error {
	all := make([]int64, 0, len(visitors))
	for v := range visitors {
		all = append(all, v)
	}
	slices.Sort(all)
	for chunk := range slices.Chunk(all, visitorsAtOnce) {
		var known []int64
		err := tx.NewSelect().Table("visitors").Column("visitor").Where("day = ?", day).
			Where("visitor IN (?)", bun.In(chunk)).Scan(ctx, &known)
		if err != nil {
			return err
		}
		for _, v := range known {
			delete(visitors, v)
		}
	}
	added := slices.DeleteFunc(all, func(v int64) bool { return visitors[v] == nil })
	for _, v := range added {
		visitors[v].IsVisit = true
	}
	row := []any{day, nil}
	return s.DB.Load(ctx, tx, "visitors", []string{"day", "visitor"}, len(added), func(i int) []any {
		row[0], row[1] = int32(day), added[i]
		return row
	})
}
