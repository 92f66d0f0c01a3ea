package clicksql

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// Write implements clickstore.Store: the clicks, the totals and the position are one transaction.
// What lies before the position that the database has is not written again, so a commit whose
// response was lost can be repeated, also as a part of a larger batch.
func (s *Store) Write(ctx context.Context, b clickstore.Batch) error {
	ctx = db.AsSystem(ctx)
	if err := s.createPartitions(ctx, b.Clicks); err != nil {
		return err
	}
	firstID, err := s.ids.Take(ctx, s.DB, int64(len(b.Clicks)))
	if err != nil {
		return err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		before, err := clickstore.AdvancePosition(ctx, tx, b.Log, b.To)
		if err != nil {
			return err
		}
		clicks := slices.Clone(b.After(before))
		if len(clicks) == 0 {
			return nil
		}
		for i := range clicks {
			clicks[i].ID = firstID + int64(i)
		}
		return s.add(ctx, tx, clicks)
	})
	if err != nil {
		s.months.Clear() // one of them may have been dropped meanwhile
		return fmt.Errorf("writing %d clicks: %w", len(b.Clicks), err)
	}
	return nil
}

// createPartitions creates the partitions of the months of a batch, outside of its transaction.
func (s *Store) createPartitions(ctx context.Context, batch []click.Click) error {
	for i := range batch {
		month := batch[i].ClickedAt.UTC().Format("2006-01")
		if _, known := s.months.Load(month); known {
			continue
		}
		if err := s.createPartition(ctx, batch[i].ClickedAt); err != nil {
			return fmt.Errorf("creating the partition of a month: %w", err)
		}
		s.months.Store(month, true)
	}
	return nil
}

// add writes clicks, their totals, and those of days that are sealed.
//
// Links come first and workspaces last, each in the order of their IDs, so that concurrent writers
// do not deadlock. The total of each is locked until the commit, so no link moves to another
// workspace meanwhile, and no day is sealed. A workspace's total, which many writers need, is
// locked for a short time.
func (s *Store) add(ctx context.Context, tx bun.Tx, clicks []click.Click) error {
	links := clickstore.TotalsOfLinks(clicks)
	if err := clickstore.MergeTotals(ctx, tx, links); err != nil {
		return err
	}
	clickstore.Follow(links, clicks)
	if err := s.markVisits(ctx, tx, clicks); err != nil {
		return err
	}
	if err := s.insertClicks(ctx, tx, clicks); err != nil {
		return err
	}
	spaces := clickstore.TotalsOfWorkspaces(clicks)
	if err := clickstore.MergeTotals(ctx, tx, spaces); err != nil {
		return err
	}
	if late := lateOf(clicks, links, spaces); len(late) > 0 {
		if err := s.addDays(ctx, tx, late, isNeverNew); err != nil {
			return err
		}
	}
	return clickstore.Announce(ctx, tx, clicks, s.Now())
}

// clickColumns are the columns of clicks: the common ones, then the texts of the visit.
var clickColumns = func() []string {
	columns := []string{"id", "workspace_id", "link_id", "clicked_at", "latency_ms", "visit", "bot", "status"}
	for _, d := range click.VisitDimensions {
		columns = append(columns, d.Column)
	}
	return columns
}()

func (s *Store) insertClicks(ctx context.Context, tx bun.Tx, clicks []click.Click) error {
	values := make([]any, len(clickColumns))
	byMonth := map[string][]*click.Click{}
	for i := range clicks {
		table := s.monthTable(clicks[i].ClickedAt)
		byMonth[table] = append(byMonth[table], &clicks[i])
	}
	for table, clicks := range byMonth {
		err := s.DB.Load(ctx, tx, table, clickColumns, len(clicks), func(i int) []any {
			c := clicks[i]
			values[0], values[1], values[2], values[3] = c.ID, c.WorkspaceID, c.LinkID, c.ClickedAt
			values[4], values[5], values[6], values[7] = c.LatencyMs, c.IsVisit, c.Bot, c.Status
			for i, d := range click.VisitDimensions {
				if text := *d.Text(c); text == "" {
					values[8+i] = nil
				} else {
					values[8+i] = text
				}
			}
			return values
		})
		if err != nil {
			return err
		}
	}
	return nil
}
