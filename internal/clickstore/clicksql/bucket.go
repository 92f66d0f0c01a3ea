package clicksql

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/rollup"
)

// bucket is the sum of a subject over one BucketLength or, as a row of click_days, over one day in
// UTC.
type bucket struct {
	bun.BaseModel `bun:"table:click_buckets"`

	SubjectID   string    `bun:",pk"`
	StartsAt    time.Time `bun:",pk"`
	WorkspaceID string
	rollup.Tally
	Visits int64
	Bots   int64
	Counts []byte
}

func (b *bucket) count() rollup.Count {
	return rollup.Count{Clicks: b.Clicks, Visits: b.Visits, Bots: b.Bots}
}

// The tables of sums.
const (
	quarters = "click_buckets"
	days     = "click_days"
)

// KeepMonth makes room for a month, where months have tables of their own.
func KeepMonth(ctx context.Context, d *db.DB, t time.Time) error {
	if d.Kind != db.Postgres {
		return nil
	}
	_, err := d.NewRaw("SELECT keep_month(?)", t).Exec(ctx)
	return err
}
