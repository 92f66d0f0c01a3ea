// Package click holds what happened to links: every counted redirect, and the sums that stats are read from.
package click

import (
	"time"

	"github.com/uptrace/bun"
)

// BucketLength is the grain of the sums over time. Days of every time zone start on a quarter of an hour in UTC.
const BucketLength = 15 * time.Minute

// Click is one redirect that was answered.
type Click struct {
	bun.BaseModel `bun:"table:clicks"`

	ID          string `bun:",pk"`
	WorkspaceID string
	LinkID      string
	// ClickedAt is when the request arrived.
	ClickedAt time.Time
	// LatencyMs is the time in milliseconds from then until the answer was ready to be written.
	LatencyMs float64

	// HitLease and ClickLease are the numbers of the leases that the redirect was taken from; zero without one.
	HitLease   int64 `bun:"-"`
	ClickLease int64 `bun:"-"`
}

// bucket is the tally of a link in one BucketLength.
type bucket struct {
	bun.BaseModel `bun:"table:click_buckets"`

	LinkID      string    `bun:",pk"`
	StartsAt    time.Time `bun:",pk"`
	WorkspaceID string
	Tally
}

// total is the tally of a link since it was made.
type total struct {
	bun.BaseModel `bun:"table:click_totals"`

	LinkID      string `bun:",pk"`
	WorkspaceID string
	Tally
}
