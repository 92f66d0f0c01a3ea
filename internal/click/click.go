// Package click holds what happened to links: every counted redirect, and the sums that stats are read from.
package click

import (
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/visitor"
)

// BucketLength is the grain of the sums over time. Days of every time zone start on a quarter of an hour in UTC.
const BucketLength = 15 * time.Minute

// day is a day in UTC.
const day = 24 * time.Hour

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
	// Visit is what is kept of who asked.
	visitor.Visit
	// Visitor tells visitors of the link apart on the day of the click; zero for who asked not to be.
	Visitor int64
	// IsVisit says that this is the first click of its visitor on the link and day (UTC); the database knows.
	IsVisit bool

	// HitLease and ClickLease are the numbers of the leases that the redirect was taken from; zero without one.
	HitLease   int64
	ClickLease int64

	// End is where its record ends in the log that it was read from; zero for one that was not.
	End int64
}

// visitTexts is how many texts there are of a visit.
const visitTexts = 11

// texts are those of a visit, in the order of the dimensions' numbers, of records and of columns.
func (c *Click) texts() [visitTexts]*string {
	return [...]*string{
		&c.Referrer, &c.Country, &c.Device, &c.Browser, &c.OS, &c.Language, &c.Source, &c.Medium, &c.Campaign, &c.Term, &c.Content,
	}
}

// value is that of a dimension which is known of each click.
func (c *Click) value(dimension Dimension) string {
	switch dimension {
	case Status:
		return strconv.Itoa(c.Status)
	case ByLink:
		return c.LinkID
	}
	return *c.texts()[numberOf(dimension)-1]
}

// PublicID is the id as others know it: such ids are in the order of time.
func (c *Click) PublicID() string { return id.Join(id.Click, c.ClickedAt.UnixMicro(), c.ID) }

// total is what is known of a subject, a link or a workspace, since it was made. Its row is locked by whoever writes sums of
// the subject.
type total struct {
	bun.BaseModel `bun:"table:click_totals"`

	SubjectID   string `bun:",pk"`
	WorkspaceID string
	Tally
	Bots int64
	// LastAt is the latest click.
	LastAt time.Time
	// BeforeAt is what LastAt was before it was last written: no sum that begins later has been there.
	BeforeAt time.Time
	// SealedAt is the midnight (UTC) before which each day of the subject has a row in click_days.
	SealedAt time.Time
	// DetailedAt is, of a workspace, the midnight (UTC) before which each busy day has a row in click_details.
	DetailedAt time.Time `bun:",scanonly"`
}

// never is what LastAt, BeforeAt and SealedAt begin with.
var never = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// bucket is the sum of a subject over one BucketLength or, as a row of click_days, over one day in UTC.
type bucket struct {
	bun.BaseModel `bun:"table:click_buckets"`

	SubjectID   string    `bun:",pk"`
	StartsAt    time.Time `bun:",pk"`
	WorkspaceID string
	Tally
	Visits int64
	Bots   int64
	Counts []byte
}

// The tables of sums.
const (
	quarters = "click_buckets"
	days     = "click_days"
)
