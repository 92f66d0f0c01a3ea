package ingest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/stats"
	"github.com/linkforge/linkforge/internal/workspace"
)

// idBlock is the number of click IDs that a process reserves at once. Unused ones are a gap.
const idBlock = 1 << 16

// Writer writes clicks into the database.
type Writer struct {
	DB  *db.DB
	Now func() time.Time

	mu        sync.Mutex
	next, end int64           // the ids that are left
	months    map[string]bool // that the database has room for
}

// Write writes a batch that ends at the position of its log: the clicks, the sums and the position
// in one transaction. What lies before the position that the database has is not written again, so
// a commit whose answer got lost can be tried again, also as a part of a larger batch.
func (w *Writer) Write(ctx context.Context, logID string, position int64, batch []click.Click) error {
	ctx = db.AsSystem(ctx)
	firstID, err := w.prepare(ctx, batch)
	if err != nil {
		return fmt.Errorf("making room for clicks: %w", err)
	}
	attempt := func(trusting bool) error {
		return w.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			before, err := advance(ctx, tx, logID, position)
			if err != nil {
				return err
			}
			clicks := slices.Clone(after(before, position, batch))
			if len(clicks) == 0 {
				return nil
			}
			for i := range clicks {
				clicks[i].ID = firstID + int64(i)
			}
			return w.Add(ctx, tx, clicks, trusting)
		})
	}
	// a total was removed or restored, and no longer matches its rollups
	if err = attempt(true); db.IsUniqueViolation(err) {
		err = attempt(false)
	}
	if err != nil {
		w.mu.Lock()
		w.months = nil // one of them may have been dropped meanwhile
		w.mu.Unlock()
		return fmt.Errorf("writing %d clicks: %w", len(batch), err)
	}
	return nil
}

// prepare prepares a batch outside of its transaction: it creates the months' partitions, and
// reserves IDs. It returns the first ID.
func (w *Writer) prepare(ctx context.Context, batch []click.Click) (firstID int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range batch {
		month := batch[i].ClickedAt.UTC().Format("2006-01")
		if w.months[month] {
			continue
		}
		if err := stats.KeepMonth(ctx, w.DB, batch[i].ClickedAt); err != nil {
			return 0, err
		}
		if w.months == nil {
			w.months = map[string]bool{}
		}
		w.months[month] = true
	}
	n := int64(len(batch))
	if w.end-w.next < n {
		block := max(idBlock, n)
		err := w.DB.NewRaw(`INSERT INTO counters AS c (name, next) VALUES ('click', ?)
			ON CONFLICT (name) DO UPDATE SET next = c.next + ? RETURNING next`, block+1, block).Scan(ctx, &w.end)
		if err != nil {
			return 0, err
		}
		w.next = w.end - block
	}
	w.next += n
	return w.next - n, nil
}

// Add writes clicks and all their rollups. With trusting it relies on totals to know which rollups
// do not exist yet.
//
// Links come first and workspaces last, each in the order of their IDs, so that concurrent writers
// do not deadlock. The total of each is locked until the commit, so no link moves to another
// workspace meanwhile. A workspace's total, which many writers need, is locked for a short time.
func (w *Writer) Add(ctx context.Context, tx bun.Tx, clicks []click.Click, trusting bool) error {
	links := totalsOf(clicks, func(c *click.Click) string { return c.LinkID })
	if err := stats.MergeTotals(ctx, tx, links); err != nil {
		return err
	}
	follow(links, clicks)
	if err := w.markVisits(ctx, tx, clicks); err != nil {
		return err
	}
	ofLinks, ofSpaces := make(chan []*stats.Rollup, 1), make(chan []*stats.Rollup, 1)
	var summing sync.WaitGroup // runs while the database reads the stored rows
	summing.Go(func() {
		ofLinks <- stats.Aggregate(clicks, stats.Rollups.AddToLink)
		ofSpaces <- stats.Aggregate(clicks, stats.Rollups.AddToWorkspace)
	})
	defer summing.Wait()
	if err := insertClicks(ctx, w.DB, tx, clicks); err != nil {
		return err
	}
	if err := w.addRollups(ctx, tx, <-ofLinks, links, trusting); err != nil {
		return err
	}
	spaces := totalsOf(clicks, func(c *click.Click) string { return c.WorkspaceID })
	spaces = slices.DeleteFunc(spaces, func(t stats.Total) bool { return t.SubjectID == workspace.PublicID })
	if err := stats.MergeTotals(ctx, tx, spaces); err != nil {
		return err
	}
	if err := w.addRollups(ctx, tx, <-ofSpaces, spaces, trusting); err != nil {
		return err
	}
	return w.announce(ctx, tx, clicks)
}

// addRollups adds to the sums of subjects whose totals have been merged.
func (w *Writer) addRollups(
	ctx context.Context, tx bun.Tx, all []*stats.Rollup, totals []stats.Total, trusting bool,
) error {
	known := make(map[string]*stats.Total, len(totals))
	for i := range totals {
		known[totals[i].SubjectID] = &totals[i]
	}
	if err := stats.AddLate(ctx, w.DB, tx, stats.LateOf(all, known), known); err != nil {
		return err
	}
	if !trusting {
		known = nil
	}
	return stats.AddRollups(ctx, w.DB, tx, stats.Quarters, all, known)
}

// advance moves the log's position forward, and returns the previous one. It locks the position's
// row first, so that it waits for other writers of the same log, such as a commit whose caller has
// given up.
func advance(ctx context.Context, tx bun.Tx, logID string, position int64) (before int64, err error) {
	err = tx.NewRaw(`INSERT INTO click_logs AS l (id, position) VALUES (?, 0)
		ON CONFLICT (id) DO UPDATE SET position = l.position RETURNING position`, logID).Scan(ctx, &before)
	if err != nil || before >= position {
		return before, err
	}
	_, err = tx.NewUpdate().Table("click_logs").Set("position = ?", position).Where("id = ?", logID).Exec(ctx)
	return before, err
}

// after is what of a batch, which ends at a position, lies after another.
func after(before, position int64, batch []click.Click) []click.Click {
	if before >= position {
		return nil
	}
	for len(batch) > 0 && batch[0].End > 0 && batch[0].End <= before {
		batch = batch[1:]
	}
	return batch
}

// totalsOf sums clicks up by subject, in the order of their ids.
func totalsOf(clicks []click.Click, subject func(*click.Click) string) []stats.Total {
	bySubject := map[string]*stats.Total{}
	for i := range clicks {
		c := &clicks[i]
		t := bySubject[subject(c)]
		if t == nil {
			t = &stats.Total{SubjectID: subject(c), WorkspaceID: c.WorkspaceID, LastAt: stats.Never, BeforeAt: stats.Never,
				SealedAt: c.ClickedAt.UTC().Truncate(click.Day)}
			bySubject[subject(c)] = t
		}
		t.Add(c.LatencyMs)
		if c.Bot {
			t.Bots++
		}
		if c.ClickedAt.Before(t.SealedAt) { // a new subject has nothing to seal before its first day
			t.SealedAt = c.ClickedAt.UTC().Truncate(click.Day)
		}
		if c.ClickedAt.After(t.LastAt) {
			t.LastAt = db.Instant(c.ClickedAt)
		}
	}
	totals := make([]stats.Total, 0, len(bySubject))
	for _, t := range bySubject {
		totals = append(totals, *t)
	}
	slices.SortFunc(totals, func(a, b stats.Total) int { return cmp.Compare(a.SubjectID, b.SubjectID) })
	return totals
}

// follow sets the workspaces of clicks to those of their links' totals, because a link may have
// moved since its clicks were recorded.
func follow(totals []stats.Total, clicks []click.Click) {
	workspaces := make(map[string]string, len(totals))
	for _, t := range totals {
		workspaces[t.SubjectID] = t.WorkspaceID
	}
	for i := range clicks {
		clicks[i].WorkspaceID = workspaces[clicks[i].LinkID]
	}
}

// clickColumns are the columns of clicks: the common ones, then the texts of the visit.
var clickColumns = func() []string {
	columns := []string{"id", "workspace_id", "link_id", "clicked_at", "latency_ms", "visit", "bot", "status"}
	for _, d := range click.VisitDimensions {
		columns = append(columns, d.Column)
	}
	return columns
}()

func insertClicks(ctx context.Context, d *db.DB, tx bun.Tx, clicks []click.Click) error {
	values := make([]any, len(clickColumns))
	byMonth := map[string][]*click.Click{}
	for i := range clicks {
		table := stats.MonthTable(d, "clicks", clicks[i].ClickedAt)
		byMonth[table] = append(byMonth[table], &clicks[i])
	}
	for table, clicks := range byMonth {
		err := d.Load(ctx, tx, table, clickColumns, len(clicks), func(i int) []any {
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

// announce notifies subscribers of the written clicks, whose IDs are consecutive.
func (w *Writer) announce(ctx context.Context, tx bun.Tx, clicks []click.Click) error {
	first, last := clicks[0].ClickedAt, clicks[0].ClickedAt
	for i := range clicks {
		if clicks[i].ClickedAt.Before(first) {
			first = clicks[i].ClickedAt
		}
		if clicks[i].ClickedAt.After(last) {
			last = clicks[i].ClickedAt
		}
	}
	_, err := tx.NewRaw("INSERT INTO click_batches (first_id, last_id, first_at, last_at, written_at) VALUES (?, ?, ?, "+
		"?, ?)",
		clicks[0].ID, clicks[len(clicks)-1].ID, db.Instant(first), db.Instant(last), db.Instant(w.Now())).Exec(ctx)
	return err
}
