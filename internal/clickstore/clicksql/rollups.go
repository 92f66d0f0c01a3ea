package clicksql

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/clickledger"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/rollup"
	"github.com/linkforge/linkforge/internal/workspace"
)

// slot is the key of a rollup: a subject, and the start of the quarter-hour or day, in seconds
// since 1970.
type slot struct {
	subject string
	start   int64
}

// sum is a rollup row with decoded counts.
type sum struct {
	bucket
	counts rollup.Counts
}

// sums are additions to a table of rollups. They are merged in memory first, so that each row is
// written once.
type sums map[slot]*sum

// rollupFor returns the rollup of a subject from start on, and creates it if it does not exist.
func (s sums) rollupFor(subject, workspaceID string, start time.Time) *sum {
	k := slot{subject, start.Unix()}
	if s[k] == nil {
		s[k] = &sum{bucket{SubjectID: subject, StartsAt: start.UTC(), WorkspaceID: workspaceID}, rollup.Counts{}}
	}
	return s[k]
}

// addToLink counts a click with its link.
func (s sums) addToLink(c *click.Click) {
	s.rollupFor(c.LinkID, c.WorkspaceID, quarterAt(c)).addClick(c, oneClick(c))
}

// addToWorkspace counts a click for the workspace of its link, if the link has an owner.
func (s sums) addToWorkspace(c *click.Click) {
	if c.WorkspaceID == workspace.PublicID {
		return
	}
	all, one := s.rollupFor(c.WorkspaceID, c.WorkspaceID, quarterAt(c)), oneClick(c)
	all.addClick(c, one)
	all.counts.Add(click.LinkDimension, c.LinkID, one)
}

// quarterAt is when the quarter of an hour of a click began.
func quarterAt(c *click.Click) time.Time { return c.ClickedAt.UTC().Truncate(click.BucketLength) }

// oneClick is the count of one click.
func oneClick(c *click.Click) rollup.Count {
	one := rollup.Count{Clicks: 1}
	if c.IsVisit {
		one.Visits = 1
	}
	if c.Bot {
		one.Bots = 1
	}
	return one
}

func (s *sum) addClick(c *click.Click, one rollup.Count) {
	s.Tally.Add(c.LatencyMs)
	s.Visits += one.Visits
	s.Bots += one.Bots
	s.counts.AddClick(c, one)
}

// add adds a row.
func (s *sum) add(b *bucket) error {
	s.Tally.Merge(b.Tally)
	s.Visits += b.Visits
	s.Bots += b.Bots
	return s.counts.AddEncoded(b.Counts)
}

// sorted are the sums in the order of their keys.
func (s sums) sorted() []*sum {
	all := make([]*sum, 0, len(s))
	for _, one := range s {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *sum) int {
		return cmp.Or(cmp.Compare(a.SubjectID, b.SubjectID), a.StartsAt.Compare(b.StartsAt))
	})
	return all
}

// aggregate are the sums of clicks, in the order of their keys and with their counts encoded.
func aggregate(clicks []click.Click, add func(sums, *click.Click)) []*sum {
	s := sums{}
	for i := range clicks {
		add(s, &clicks[i])
	}
	all := s.sorted()
	for _, one := range all {
		one.Counts = one.counts.Encode()
	}
	return all
}

// lateOf are the days among sums that have been sealed: what comes to them comes to click_days as
// well.
func lateOf(all []*sum, known map[string]*clickledger.Total) sums {
	late := sums{}
	for _, one := range all {
		if one.StartsAt.Before(known[one.SubjectID].SealedAt) {
			d := late.rollupFor(one.SubjectID, one.WorkspaceID, one.StartsAt.Truncate(click.Day))
			_ = d.add(&bucket{Tally: one.Tally, Visits: one.Visits, Bots: one.Bots}) // nothing to read
			d.counts.AddAll(one.counts)
			d.counts.AddQuarter(one.StartsAt, one.count())
		}
	}
	return late
}

// addLate adds to days that have been summed up.
func addLate(ctx context.Context, d *db.DB, tx bun.Tx, late sums, totals map[string]*clickledger.Total) error {
	if len(late) == 0 {
		return nil
	}
	if err := addSums(ctx, d, tx, days, late.sorted(), totals); err != nil {
		return err
	}
	for workspaceID, from := range late.workspaces() {
		if err := reopen(ctx, tx, workspaceID, from); err != nil {
			return err
		}
	}
	return nil
}

// workspaces are those among the subjects, with the oldest of their sums.
func (s sums) workspaces() map[string]time.Time {
	found := map[string]time.Time{}
	for _, one := range s {
		if one.SubjectID != one.WorkspaceID {
			continue
		}
		if oldest, known := found[one.SubjectID]; !known || one.StartsAt.Before(oldest) {
			found[one.SubjectID] = one.StartsAt
		}
	}
	return found
}

// sumsAtOnce bounds a statement.
const sumsAtOnce = 1000

// addSums adds rollups, in the order of their keys, to the table. The caller has locked the
// totals of the subjects, so no other writer changes these rows. The totals tell which rows cannot
// exist yet.
func addSums(ctx context.Context, d *db.DB, tx bun.Tx, table string, all []*sum, totals map[string]*clickledger.Total) error {
	old := make([]*sum, 0, len(all))
	for _, one := range all {
		if t := totals[one.SubjectID]; t == nil || !one.StartsAt.After(t.BeforeAt) {
			old = append(old, one)
		}
	}
	known, err := existing(ctx, d, tx, table, old)
	if err != nil {
		return err
	}
	var added, changed []bucket
	for _, one := range all {
		old := known[slot{one.SubjectID, one.StartsAt.Unix()}]
		if old != nil {
			if err := one.add(old); err != nil {
				return err
			}
		}
		if old != nil || one.Counts == nil {
			one.Counts = one.counts.Encode()
		}
		if old != nil || table == days {
			changed = append(changed, one.bucket)
		} else {
			added = append(added, one.bucket)
		}
	}
	if err := replace(ctx, tx, table, changed); err != nil {
		return err
	}
	return insertBuckets(ctx, d, tx, added)
}

// replaceRollup replaces a stored rollup.
const replaceRollup = `ON CONFLICT (subject_id, starts_at) DO UPDATE SET
	workspace_id = excluded.workspace_id, clicks = excluded.clicks,
	visits = excluded.visits, bots = excluded.bots,
	latency_mean = excluded.latency_mean, latency_m2 = excluded.latency_m2, counts = excluded.counts`

// replace writes rows in place of existing ones.
func replace(ctx context.Context, tx bun.Tx, table string, rows []bucket) error {
	return db.InsertRows(ctx, tx, db.Insert{Into: table, Rest: replaceRollup}, rows)
}

// insertBuckets writes rows that are not there yet, in the order of their keys.
func insertBuckets(ctx context.Context, d *db.DB, tx bun.Tx, rows []bucket) error {
	columns := []string{"subject_id", "starts_at", "workspace_id", "clicks", "visits", "bots", "latency_mean",
		"latency_m2", "counts"}
	values := make([]any, len(columns))
	byMonth := map[string][]*bucket{}
	for i := range rows {
		table := monthTable(d, quarters, rows[i].StartsAt)
		byMonth[table] = append(byMonth[table], &rows[i])
	}
	for table, rows := range byMonth {
		err := d.Load(ctx, tx, table, columns, len(rows), func(i int) []any {
			b := rows[i]
			values[0], values[1], values[2], values[3], values[4], values[5] = b.SubjectID, b.StartsAt, b.WorkspaceID, b.Clicks,
				b.Visits, b.Bots
			values[6], values[7], values[8] = b.LatencyMean, b.LatencyM2, b.Counts
			return values
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// existing are the rows that the table has of the sums.
func existing(ctx context.Context, d *db.DB, tx bun.Tx, table string, all []*sum) (map[slot]*bucket, error) {
	found := make(map[slot]*bucket, len(all))
	for chunk := range slices.Chunk(all, sumsAtOnce) {
		var rows []bucket
		if err := lookUp(d, tx, table, chunk).Scan(ctx, &rows); err != nil {
			return nil, err
		}
		for i := range rows {
			found[slot{rows[i].SubjectID, rows[i].StartsAt.Unix()}] = &rows[i]
		}
	}
	return found, nil
}

// lookUp selects rows by their keys. It forces PostgreSQL to look each of them up by index, because
// it cannot estimate their number. The statement is not prepared: a plan from the beginning of a
// month would read the whole month for each key later.
func lookUp(d *db.DB, tx bun.Tx, table string, all []*sum) *bun.RawQuery {
	if d.Kind == db.Postgres {
		subjects, starts := make([]string, len(all)), make([]time.Time, len(all))
		for i, one := range all {
			subjects[i], starts[i] = one.SubjectID, one.StartsAt
		}
		return tx.NewRaw(`SELECT b.* FROM unnest(?::TEXT[], ?::TIMESTAMPTZ[]) AS k (subject, start)
			CROSS JOIN LATERAL (SELECT * FROM ? WHERE subject_id = k.subject AND starts_at = k.start OFFSET 0) AS b`,
			pgdialect.Array(subjects), pgdialect.Array(starts), bun.Ident(table))
	}
	keys := make([][]any, len(all))
	for i, one := range all {
		keys[i] = []any{one.SubjectID, one.StartsAt}
	}
	return tx.NewRaw("SELECT * FROM ? WHERE (subject_id, starts_at) IN (VALUES ?)", bun.Ident(table), bun.In(keys))
}

// monthTable is where PostgreSQL keeps a month of a table.
func monthTable(d *db.DB, table string, t time.Time) string {
	if d.Kind == db.Postgres {
		return table + t.UTC().Format("_2006_01")
	}
	return table
}
