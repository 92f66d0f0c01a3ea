package clicksql

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// days is the table of the days.
const days = "click_days"

// day has the counts of a subject (a link or a workspace) on a day in UTC: of the clicks before the
// instant until which the subject is sealed. Later ones are counted from their rows.
type day struct {
	bun.BaseModel `bun:"table:click_days"`

	SubjectID   string    `bun:",pk"`
	StartsAt    time.Time `bun:",pk"`
	WorkspaceID string
	click.Tally
	Visits int64
	Bots   int64
	Counts []byte

	// SealedAt is that instant.
	SealedAt time.Time `bun:",scanonly"`
}

// end is the end of the time whose clicks it has.
func (d *day) end() time.Time { return clickstore.Earlier(d.StartsAt.Add(click.Day), d.SealedAt) }

func (d *day) count() click.Count {
	return click.Count{Clicks: d.Clicks, Visits: d.Visits, Bots: d.Bots}
}

// dayKey is the key of a day: a subject, and the start of the day, in seconds since 1970.
type dayKey struct {
	subject string
	start   int64
}

// addition has the counts that are added to a day.
type addition struct {
	day
	counts click.Counts
}

// additions are merged in memory first, so that each row is written once.
type additions map[dayKey]*addition

// of returns the addition to a day of a subject, and creates it if it does not exist.
func (a additions) of(subject, workspaceID string, start time.Time) *addition {
	k := dayKey{subject, start.Unix()}
	if a[k] == nil {
		a[k] = &addition{day{SubjectID: subject, StartsAt: start.UTC(), WorkspaceID: workspaceID}, click.Counts{}}
	}
	return a[k]
}

// addToLink counts a click with its link.
func (a additions) addToLink(c *click.Click) { a.addClick(c.LinkID, c) }

// addToWorkspace counts a click for the workspace of its link, if the link has an owner.
func (a additions) addToWorkspace(c *click.Click) {
	if c.WorkspaceID != id.PublicWorkspace {
		one := a.addClick(c.WorkspaceID, c)
		one.counts.Add(click.LinkDimension, c.LinkID, countOf(c))
	}
}

// addClick counts a click with a subject.
func (a additions) addClick(subject string, c *click.Click) *addition {
	at := c.ClickedAt.UTC()
	d, one := a.of(subject, c.WorkspaceID, at.Truncate(click.Day)), countOf(c)
	d.Tally.Add(c.LatencyMs)
	d.Visits += one.Visits
	d.Bots += one.Bots
	d.counts.AddClick(c, one)
	d.counts.AddQuarter(at, one)
	return d
}

// countOf is the count of one click.
func countOf(c *click.Click) click.Count {
	one := click.Count{Clicks: 1}
	if c.IsVisit {
		one.Visits = 1
	}
	if c.Bot {
		one.Bots = 1
	}
	return one
}

// addDay adds a row.
func (a *addition) addDay(d *day) error {
	a.Tally.Merge(d.Tally)
	a.Visits += d.Visits
	a.Bots += d.Bots
	return a.counts.AddEncoded(d.Counts)
}

// sorted are the additions in the order of their keys.
func (a additions) sorted() []*addition {
	all := make([]*addition, 0, len(a))
	for _, one := range a {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *addition) int {
		return cmp.Or(cmp.Compare(a.SubjectID, b.SubjectID), a.StartsAt.Compare(b.StartsAt))
	})
	return all
}

// clicks is their number.
func (a additions) clicks() (n int64) {
	for _, one := range a {
		n += one.Clicks
	}
	return n
}

// lateOf are the clicks of days that are sealed already, by the totals of their links and
// workspaces.
func lateOf(clicks []click.Click, links, spaces []clickstore.Total) additions {
	sealed := map[string]time.Time{}
	for _, t := range slices.Concat(links, spaces) {
		sealed[t.SubjectID] = t.SealedAt
	}
	late := additions{}
	for i := range clicks {
		c := &clicks[i]
		if c.ClickedAt.Before(sealed[c.LinkID]) {
			late.addToLink(c)
		}
		if c.ClickedAt.Before(sealed[c.WorkspaceID]) {
			late.addToWorkspace(c)
		}
	}
	return late
}

// isNeverNew is the isNew of addDays if no day is new.
func isNeverNew(*addition) bool { return false }

// replaceDay replaces a stored day.
const replaceDay = `ON CONFLICT (subject_id, starts_at) DO UPDATE SET
	workspace_id = excluded.workspace_id, clicks = excluded.clicks,
	visits = excluded.visits, bots = excluded.bots,
	latency_mean = excluded.latency_mean, latency_m2 = excluded.latency_m2, counts = excluded.counts`

// addDays adds to the table. The caller has locked the totals of the subjects, so no other writer
// changes these rows. If isNew is true, days are written unchanged: rows of them are left over from
// a total that was lost.
func (s *Store) addDays(ctx context.Context, tx bun.Tx, more additions, isNew func(*addition) bool) error {
	all := more.sorted()
	known, err := s.existing(ctx, tx, slices.DeleteFunc(slices.Clone(all), isNew))
	if err != nil {
		return err
	}
	rows := make([]day, 0, len(all))
	for _, one := range all {
		if old := known[dayKey{one.SubjectID, one.StartsAt.Unix()}]; old != nil {
			if err := one.addDay(old); err != nil {
				return err
			}
		}
		one.Counts = one.counts.Encode()
		rows = append(rows, one.day)
	}
	return db.InsertRows(ctx, tx, db.Insert{Into: days, Rest: replaceDay}, rows)
}

// daysAtOnce bounds a statement.
const daysAtOnce = 1000

// existing are the rows that the table has of the days.
func (s *Store) existing(ctx context.Context, tx bun.Tx, all []*addition) (map[dayKey]*day, error) {
	found := make(map[dayKey]*day, len(all))
	for chunk := range slices.Chunk(all, daysAtOnce) {
		var rows []day
		if err := s.lookUp(tx, chunk).Scan(ctx, &rows); err != nil {
			return nil, err
		}
		for i := range rows {
			found[dayKey{rows[i].SubjectID, rows[i].StartsAt.Unix()}] = &rows[i]
		}
	}
	return found, nil
}

// lookUp selects rows by their keys. It forces PostgreSQL to look each of them up by index, because
// it cannot estimate their number.
func (s *Store) lookUp(tx bun.Tx, all []*addition) *bun.RawQuery {
	if s.DB.Kind == db.Postgres {
		subjects, starts := make([]string, len(all)), make([]time.Time, len(all))
		for i, one := range all {
			subjects[i], starts[i] = one.SubjectID, one.StartsAt
		}
		return tx.NewRaw(`SELECT b.* FROM unnest(?::TEXT[], ?::TIMESTAMPTZ[]) AS k (subject, start)
			CROSS JOIN LATERAL (
				SELECT * FROM click_days WHERE subject_id = k.subject AND starts_at = k.start OFFSET 0
			) AS b`,
			pgdialect.Array(subjects), pgdialect.Array(starts))
	}
	keys := make([][]any, len(all))
	for i, one := range all {
		keys[i] = []any{one.SubjectID, one.StartsAt}
	}
	return tx.NewRaw("SELECT * FROM click_days WHERE (subject_id, starts_at) IN (VALUES ?)", bun.In(keys))
}

// createPartition creates the partition of a month, where months have partitions.
func (s *Store) createPartition(ctx context.Context, t time.Time) error {
	if s.DB.Kind != db.Postgres {
		return nil
	}
	_, err := s.DB.NewRaw("SELECT keep_month(?)", t).Exec(ctx)
	return err
}

// monthTable is the table of the clicks of a month.
func (s *Store) monthTable(t time.Time) string {
	if s.DB.Kind == db.Postgres {
		return "clicks" + t.UTC().Format("_2006_01")
	}
	return "clicks"
}
