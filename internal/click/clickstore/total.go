package clickstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// Total is the total of a subject (a link or workspace) since its creation. Writers of the
// subject's clicks lock its row.
type Total struct {
	bun.BaseModel `bun:"table:click_totals"`

	SubjectID   string `bun:",pk"`
	WorkspaceID string
	click.Tally
	Bots int64
	// LastAt is the latest click.
	LastAt time.Time
	// SealedAt is the quarter of an hour before which the clicks of the subject are in click_days.
	SealedAt time.Time
	// SealedClicks is about how many clicks are there: the clicks that the subject had when it was
	// sealed.
	SealedClicks int64 `bun:"_sealed_clicks,scanonly"`
	// Month is that of the latest click, BeforeMonth the number of clicks before it, and BeforeLast
	// before the month that precedes it.
	Month       click.Month `bun:"_month"`
	BeforeMonth int64       `bun:"_before_month"`
	BeforeLast  int64       `bun:"_before_last,scanonly"`
	// Outage is how many clicks of Month have hits that were granted without Redis.
	Outage int64 `bun:"_outage"`
}

// TotalColumns are those of a Total.
const TotalColumns = "subject_id, workspace_id, clicks, latency_mean, latency_m2, bots, last_at, sealed_at, " +
	"_sealed_clicks, " +
	"_month, _before_month"

// Never is what LastAt and SealedAt begin with.
var Never = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// addTotal adds to an existing total by Chan's formula, and returns what only the table has: the
// workspace, and up to when it is sealed. If all its clicks are sealed, the following days without
// clicks are sealed too.
const addTotal = `ON CONFLICT (subject_id) DO UPDATE SET
	clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots,
	sealed_at = CASE WHEN t.last_at < t.sealed_at AND t.sealed_at < excluded.sealed_at
		THEN excluded.sealed_at ELSE t.sealed_at END,
	_before_last = CASE WHEN t._month >= excluded._month THEN t._before_last
		WHEN t._month = excluded._month - 1 THEN t._before_month ELSE t.clicks END,
	_before_month = CASE WHEN t._month < excluded._month THEN t.clicks + excluded._before_month
		WHEN t._month = excluded._month THEN t._before_month + excluded._before_month
		ELSE t._before_month + excluded.clicks END,
	_outage = CASE WHEN t._month < excluded._month THEN excluded._outage
		WHEN t._month = excluded._month THEN t._outage + excluded._outage ELSE t._outage END,
	_month = CASE WHEN t._month < excluded._month THEN excluded._month ELSE t._month END,
	last_at = CASE WHEN t.last_at < excluded.last_at THEN excluded.last_at ELSE t.last_at END,
	latency_mean = t.latency_mean
		+ (excluded.latency_mean - t.latency_mean) * excluded.clicks / (t.clicks + excluded.clicks),
	latency_m2 = t.latency_m2 + excluded.latency_m2
		+ (excluded.latency_mean - t.latency_mean) * (excluded.latency_mean - t.latency_mean)
		* t.clicks * excluded.clicks / (t.clicks + excluded.clicks)
	RETURNING subject_id, workspace_id, sealed_at`

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
		t.WorkspaceID, t.SealedAt = m.WorkspaceID, m.SealedAt.UTC()
	}
	return nil
}

// TotalsOfLinks and OfWorkspaces sum clicks up by link or by workspace, in the order of the ids.
// Links without an account belong to no workspace.
func TotalsOfLinks(clicks []click.Click) []Total {
	return sum(clicks, func(c *click.Click) string { return c.LinkID })
}

func TotalsOfWorkspaces(clicks []click.Click) []Total {
	totals := sum(clicks, func(c *click.Click) string { return c.WorkspaceID })
	return slices.DeleteFunc(totals, func(t Total) bool { return t.SubjectID == id.PublicWorkspace })
}

func sum(clicks []click.Click, subject func(*click.Click) string) []Total {
	bySubject := map[string]*Total{}
	for i := range clicks {
		c := &clicks[i]
		t := bySubject[subject(c)]
		if t == nil {
			t = &Total{SubjectID: subject(c), WorkspaceID: c.WorkspaceID, LastAt: Never,
				SealedAt: c.ClickedAt.UTC().Truncate(click.Day)}
			bySubject[subject(c)] = t
		}
		switch m := click.MonthOf(c.ClickedAt); {
		case m > t.Month:
			t.Month, t.BeforeMonth, t.Outage = m, t.Clicks, 0
		case m < t.Month:
			t.BeforeMonth++
		}
		if c.HitLease < 0 && click.MonthOf(c.ClickedAt) == t.Month {
			t.Outage++
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
	totals := make([]Total, 0, len(bySubject))
	for _, t := range bySubject {
		totals = append(totals, *t)
	}
	slices.SortFunc(totals, func(a, b Total) int { return cmp.Compare(a.SubjectID, b.SubjectID) })
	return totals
}
