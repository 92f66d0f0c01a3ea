// Package click owns the fact that a visitor was redirected: the Click, the table of its
// dimensions, and its row in the database. It does not record or query clicks: see ingest,
// clickstore and stats. All of these call it.
package click

import (
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// BucketLength is the resolution of counts over time. Days of every time zone start on a quarter of
// an hour in UTC.
const BucketLength = 15 * time.Minute

// Day is a day in UTC.
const Day = 24 * time.Hour

// Click is one redirect that was answered.
type Click struct {
	ID          int64
	WorkspaceID string
	LinkID      string
	// ClickedAt is when the request arrived.
	ClickedAt time.Time
	// LatencyMs is the time in milliseconds from then until the answer was ready to be written.
	LatencyMs float64
	// Status is that of the redirect.
	Status int
	// Visit has the stored properties of the visitor.
	visitor.Visit
	// Visitor distinguishes the link's visitors on the day of the click. It is zero for visitors
	// who asked not to be tracked.
	Visitor int64
	// IsVisit says that this is the first click of its visitor on the link and day (UTC); the
	// database knows.
	IsVisit bool

	// RuleID and TargetID are the rule that chose the destination and its target; empty: none, or a
	// private visitor.
	RuleID   string
	TargetID string
	// QRSource is the source of the scanned QR code; empty: none, or a private visitor.
	QRSource string

	// HitLease is the number of the lease that the hit was taken from, in the log of the click. It is
	// negative if the node has granted the hit without Redis.
	HitLease int64

	// End is where its record ends in the log that it was read from; zero for one that was not.
	End int64
}

// PublicID is the id as others know it: such ids are in the order of time.
func (c *Click) PublicID() string { return id.Join(id.Click, c.ClickedAt.UnixMicro(), c.ID) }

// SplitID returns the instant and the number in a public id. It returns false for an instant that
// no database stores.
func SplitID(publicID string) (at time.Time, number int64, ok bool) {
	micros, number, ok := id.Split(id.Click, publicID)
	at = time.UnixMicro(micros).UTC()
	return at, number, ok && at.Year() >= 2000 && at.Year() <= 9999
}

// DayOf returns the number of the UTC day since 1970.
func DayOf(t time.Time) int64 { return t.Unix() / int64(Day/time.Second) }
