package click

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/workspace"
)

// idBlock is how many ids of clicks a process takes from the database at once. What it has not used when it ends is a gap.
const idBlock = 1 << 16

// writer writes clicks into the database.
type writer struct {
	db  *db.DB
	now func() time.Time

	mu        sync.Mutex
	next, end int64           // the ids that are left
	months    map[string]bool // that the database has room for
}

// write writes a batch that ends at the position of its log: the clicks, the sums and the position in one transaction. What
// lies before the position that the database has is not written again, so a commit whose answer got lost can be tried again,
// also as a part of a larger batch.
func (w *writer) write(ctx context.Context, logID string, position int64, batch []Click) error {
	ctx = db.AsSystem(ctx)
	firstID, err := w.makeRoom(ctx, batch)
	if err != nil {
		return fmt.Errorf("making room for clicks: %w", err)
	}
	attempt := func(trusting bool) error {
		return w.db.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
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
			return w.add(ctx, tx, clicks, trusting)
		})
	}
	if err = attempt(true); db.IsUniqueViolation(err) { // a total knew too little of its sums: somebody has removed or restored it
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

// makeRoom sees to everything that a batch needs and no transaction may wait for: its months, and its ids, of which it
// returns the first.
func (w *writer) makeRoom(ctx context.Context, batch []Click) (firstID int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range batch {
		month := batch[i].ClickedAt.UTC().Format("2006-01")
		if w.months[month] {
			continue
		}
		if err := keepMonth(ctx, w.db, batch[i].ClickedAt); err != nil {
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
		err := w.db.NewRaw(`INSERT INTO counters AS c (name, next) VALUES ('click', ?)
			ON CONFLICT (name) DO UPDATE SET next = c.next + ? RETURNING next`, block+1, block).Scan(ctx, &w.end)
		if err != nil {
			return 0, err
		}
		w.next = w.end - block
	}
	w.next += n
	return w.next - n, nil
}

// keepMonth makes room for a month, where months have tables of their own.
func keepMonth(ctx context.Context, d *db.DB, t time.Time) error {
	if d.Kind != db.Postgres {
		return nil
	}
	_, err := d.NewRaw("SELECT keep_month(?)", t).Exec(ctx)
	return err
}

// add writes clicks and everything that is summed up of them. Whoever trusts the totals does not look for sums that cannot be
// there.
//
// Links come first and workspaces last, each in the order of their ids: nobody deadlocks who writes the same rows. The total of
// each is locked from then on, so no link moves before the commit; a workspace, which many wait for, is locked for a short time.
func (w *writer) add(ctx context.Context, tx bun.Tx, clicks []Click, trusting bool) error {
	links := totalsOf(clicks, func(c *Click) string { return c.LinkID })
	if err := mergeTotals(ctx, tx, links); err != nil {
		return err
	}
	follow(links, clicks)
	if err := w.markVisits(ctx, tx, clicks); err != nil {
		return err
	}
	ofLinks, ofSpaces := make(chan []*sum, 1), make(chan []*sum, 1)
	var summing sync.WaitGroup // goes on while the database takes what is there
	summing.Go(func() {
		ofLinks <- sumUp(clicks, sums.addToLink)
		ofSpaces <- sumUp(clicks, sums.addToWorkspace)
	})
	defer summing.Wait()
	if err := insertClicks(ctx, w.db, tx, clicks); err != nil {
		return err
	}
	if err := w.addSums(ctx, tx, <-ofLinks, links, trusting); err != nil {
		return err
	}
	spaces := totalsOf(clicks, func(c *Click) string { return c.WorkspaceID })
	spaces = slices.DeleteFunc(spaces, func(t total) bool { return t.SubjectID == workspace.PublicID })
	if err := mergeTotals(ctx, tx, spaces); err != nil {
		return err
	}
	if err := w.addSums(ctx, tx, <-ofSpaces, spaces, trusting); err != nil {
		return err
	}
	return w.announce(ctx, tx, clicks)
}

// addSums adds to the sums of subjects whose totals have been merged.
func (w *writer) addSums(ctx context.Context, tx bun.Tx, all []*sum, totals []total, trusting bool) error {
	known := make(map[string]*total, len(totals))
	for i := range totals {
		known[totals[i].SubjectID] = &totals[i]
	}
	if err := addLate(ctx, w.db, tx, lateOf(all, known), known); err != nil {
		return err
	}
	if !trusting {
		known = nil
	}
	return addSums(ctx, w.db, tx, quarters, all, known)
}

// advance moves the log's position forward, and returns where it was before. Its row is locked first: whoever else writes of
// the same log, be it a commit that nobody waits for any more, is waited for.
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
func after(before, position int64, batch []Click) []Click {
	if before >= position {
		return nil
	}
	for len(batch) > 0 && batch[0].End > 0 && batch[0].End <= before {
		batch = batch[1:]
	}
	return batch
}

// totalsOf sums clicks up by subject, in the order of their ids.
func totalsOf(clicks []Click, subject func(*Click) string) []total {
	bySubject := map[string]*total{}
	for i := range clicks {
		c := &clicks[i]
		t := bySubject[subject(c)]
		if t == nil {
			t = &total{SubjectID: subject(c), WorkspaceID: c.WorkspaceID, LastAt: never, BeforeAt: never, SealedAt: c.ClickedAt.UTC().Truncate(day)}
			bySubject[subject(c)] = t
		}
		t.Add(c.LatencyMs)
		if c.Bot {
			t.Bots++
		}
		if c.ClickedAt.Before(t.SealedAt) { // a new subject has nothing to seal before its first day
			t.SealedAt = c.ClickedAt.UTC().Truncate(day)
		}
		if c.ClickedAt.After(t.LastAt) {
			t.LastAt = db.Instant(c.ClickedAt)
		}
	}
	totals := make([]total, 0, len(bySubject))
	for _, t := range bySubject {
		totals = append(totals, *t)
	}
	slices.SortFunc(totals, func(a, b total) int { return cmp.Compare(a.SubjectID, b.SubjectID) })
	return totals
}

// addTotal adds to a total that is there by Chan's formula, and reads back what only the table knows: the workspace, and what
// has been there and sealed before. When all that was there is sealed, so are the days without clicks that followed.
const addTotal = `ON CONFLICT (subject_id) DO UPDATE SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots, before_at = t.last_at,
	sealed_at = CASE WHEN t.last_at < t.sealed_at AND t.sealed_at < excluded.sealed_at THEN excluded.sealed_at ELSE t.sealed_at END,
	last_at = CASE WHEN t.last_at < excluded.last_at THEN excluded.last_at ELSE t.last_at END,
	latency_mean = t.latency_mean + (excluded.latency_mean - t.latency_mean) * excluded.clicks / (t.clicks + excluded.clicks),
	latency_m2 = t.latency_m2 + excluded.latency_m2 + (excluded.latency_mean - t.latency_mean) * (excluded.latency_mean - t.latency_mean)
		* t.clicks * excluded.clicks / (t.clicks + excluded.clicks)
	RETURNING subject_id, workspace_id, before_at, sealed_at`

// mergeTotals adds to totals, which are in the order of their ids, in one statement.
func mergeTotals(ctx context.Context, tx bun.Tx, totals []total) error {
	if len(totals) == 0 {
		return nil
	}
	var merged []total
	if err := db.InsertReturning(ctx, tx, db.Insert{Into: "click_totals AS t", Rest: addTotal}, totals, &merged); err != nil {
		return err
	}
	bySubject := make(map[string]*total, len(totals))
	for i := range totals {
		bySubject[totals[i].SubjectID] = &totals[i]
	}
	for _, m := range merged {
		t := bySubject[m.SubjectID]
		t.WorkspaceID, t.BeforeAt, t.SealedAt = m.WorkspaceID, m.BeforeAt.UTC(), m.SealedAt.UTC()
	}
	return nil
}

// follow puts clicks into the workspaces of their links' totals, which the database has told: a link may have moved since
// its clicks were recorded.
func follow(totals []total, clicks []Click) {
	workspaces := make(map[string]string, len(totals))
	for _, t := range totals {
		workspaces[t.SubjectID] = t.WorkspaceID
	}
	for i := range clicks {
		clicks[i].WorkspaceID = workspaces[clicks[i].LinkID]
	}
}

// clickColumns are what is kept of a click.
var clickColumns = []string{
	"id", "workspace_id", "link_id", "clicked_at", "latency_ms", "visit", "bot", "status",
	"referrer", "country", "device", "browser", "os", "language", "utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content",
}

func insertClicks(ctx context.Context, d *db.DB, tx bun.Tx, clicks []Click) error {
	values := make([]any, len(clickColumns))
	byMonth := map[string][]*Click{}
	for i := range clicks {
		table := monthTable(d, "clicks", clicks[i].ClickedAt)
		byMonth[table] = append(byMonth[table], &clicks[i])
	}
	for table, clicks := range byMonth {
		err := d.Load(ctx, tx, table, clickColumns, len(clicks), func(i int) []any {
			c := clicks[i]
			values[0], values[1], values[2], values[3] = c.ID, c.WorkspaceID, c.LinkID, c.ClickedAt
			values[4], values[5], values[6], values[7] = c.LatencyMs, c.IsVisit, c.Bot, c.Status
			for i, text := range c.texts() {
				if values[8+i] = *text; *text == "" {
					values[8+i] = nil
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

// announce tells those who watch that clicks were written, whose ids follow each other.
func (w *writer) announce(ctx context.Context, tx bun.Tx, clicks []Click) error {
	first, last := clicks[0].ClickedAt, clicks[0].ClickedAt
	for i := range clicks {
		if clicks[i].ClickedAt.Before(first) {
			first = clicks[i].ClickedAt
		}
		if clicks[i].ClickedAt.After(last) {
			last = clicks[i].ClickedAt
		}
	}
	_, err := tx.NewRaw("INSERT INTO click_batches (first_id, last_id, first_at, last_at, written_at) VALUES (?, ?, ?, ?, ?)",
		clicks[0].ID, clicks[len(clicks)-1].ID, db.Instant(first), db.Instant(last), db.Instant(w.now())).Exec(ctx)
	return err
}
