package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/rollup"
	"github.com/uptrace/bun"
)

// Total is the total of a subject (a link or workspace) since its creation. Writers of the
// subject's rollups lock its row.
type Total struct {
	bun.BaseModel `bun:"table:click_totals"`

	SubjectID   string `bun:",pk"`
	WorkspaceID string
	rollup.Tally
	Bots int64
	// LastAt is the latest click.
	LastAt time.Time
	// BeforeAt is what LastAt was before it was last written: no sum that begins later has been there.
	BeforeAt time.Time
	// SealedAt is the midnight (UTC) before which each day of the subject has a row in click_days.
	SealedAt time.Time
	// DetailedAt is, of a workspace, the midnight (UTC) before which each busy day has a row in
	// click_details.
	DetailedAt time.Time `bun:",scanonly"`
}

// LinkTotal is what users see of the total of a link.
type LinkTotal struct {
	rollup.Tally
	// LastAt is the latest click, if there is one.
	LastAt time.Time
}

// Never is what LastAt, BeforeAt and SealedAt begin with.
var Never = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Bucket is the sum of a subject over one BucketLength or, as a row of click_days, over one day in
// UTC.
type Bucket struct {
	bun.BaseModel `bun:"table:click_buckets"`

	SubjectID   string    `bun:",pk"`
	StartsAt    time.Time `bun:",pk"`
	WorkspaceID string
	rollup.Tally
	Visits int64
	Bots   int64
	Counts []byte
}

// The tables of sums.
const (
	Quarters = "click_buckets"
	Days     = "click_days"
)

// KeepMonth makes room for a month, where months have tables of their own.
func KeepMonth(ctx context.Context, d *db.DB, t time.Time) error {
	if d.Kind != db.Postgres {
		return nil
	}
	_, err := d.NewRaw("SELECT keep_month(?)", t).Exec(ctx)
	return err
}

// addTotal adds to an existing total by Chan's formula, and returns what only the table has: the
// workspace, the stored rollups and the sealed ones. If everything stored is sealed, the following
// days without clicks are sealed too.
const addTotal = `ON CONFLICT (subject_id) DO UPDATE SET
	clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots, before_at = t.last_at,
	sealed_at = CASE WHEN t.last_at < t.sealed_at AND t.sealed_at < excluded.sealed_at
		THEN excluded.sealed_at ELSE t.sealed_at END,
	last_at = CASE WHEN t.last_at < excluded.last_at THEN excluded.last_at ELSE t.last_at END,
	latency_mean = t.latency_mean
		+ (excluded.latency_mean - t.latency_mean) * excluded.clicks / (t.clicks + excluded.clicks),
	latency_m2 = t.latency_m2 + excluded.latency_m2
		+ (excluded.latency_mean - t.latency_mean) * (excluded.latency_mean - t.latency_mean)
		* t.clicks * excluded.clicks / (t.clicks + excluded.clicks)
	RETURNING subject_id, workspace_id, before_at, sealed_at`

// MergeTotals adds to totals, which are in the order of their ids, in one statement.
func MergeTotals(ctx context.Context, tx bun.Tx, totals []Total) error {
	if len(totals) == 0 {
		return nil
	}
	var merged []Total
	if err := db.InsertReturning(ctx, tx, db.Insert{Into: "click_totals AS t", Rest: addTotal}, totals,
		&merged); err != nil {
		return err
	}
	bySubject := make(map[string]*Total, len(totals))
	for i := range totals {
		bySubject[totals[i].SubjectID] = &totals[i]
	}
	for _, m := range merged {
		t := bySubject[m.SubjectID]
		if t == nil {
			return fmt.Errorf("a total of %q, which was not written", m.SubjectID)
		}
		t.WorkspaceID, t.BeforeAt, t.SealedAt = m.WorkspaceID, m.BeforeAt.UTC(), m.SealedAt.UTC()
	}
	return nil
}

func (b *Bucket) count() rollup.Count {
	return rollup.Count{Clicks: b.Clicks, Visits: b.Visits, Bots: b.Bots}
}
