// Package clickstore defines a store of clicks: it stores single clicks and their counts, and
// queries the clicks of one workspace. Packages stats, clickstream, ingest and link depend on this
// interface only. Package clicksql is the store in the SQL database. The Ledger of this package has
// the totals, the positions and the announcements of every store.
package clickstore

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Store stores clicks. Callers of methods with a Query or a workspace's id pass a context that has
// entered the workspace, see workspace.Membership.Enter. Points, Slices and Latencies return
// InvalidInput for a range whose required clicks are partly deleted; it names the first day that
// works.
type Store interface {
	// Write writes a batch, with the totals, the position of its log and the announcement: all of
	// them once, however often the batch, or a larger one that begins where it does, is written.
	Write(ctx context.Context, b Batch) error

	// AtOneInstant runs f, in which Points, Slices, Latencies and Ledger.Totals count the same clicks.
	// A store outside of the SQL database does not guarantee this.
	AtOneInstant(ctx context.Context, f func(ctx context.Context) error) error

	// Points counts clicks in chronological pieces that span no cut.
	Points(ctx context.Context, q Query, cuts []time.Time) ([]Point, error)
	// Slices counts clicks by the values of a dimension. Those of click.Others have values that are
	// not known.
	Slices(ctx context.Context, q Query, by click.Dimension) (click.Values, error)
	// Latencies tallies latencies, and counts clicks by the step of their latency, see
	// click.LatencyStep.
	Latencies(ctx context.Context, q Query) (click.Tally, click.Values, error)
	// Groups counts the newest single clicks of a range by their attributes, and calls each with every
	// group, in any order. It omits deleted clicks of the range without an error.
	Groups(ctx context.Context, q Query, by Grouping, each func(*Group)) error
	// List returns single clicks. It omits deleted clicks of a range without an error.
	List(ctx context.Context, q Query, p Page) ([]*click.Click, error)
	// CheckKept returns InvalidInput if there were single clicks in the range that are deleted.
	CheckKept(ctx context.Context, q Query) error
	// ByID returns the clicks of a workspace with the public ids. Other ids are missing.
	ByID(ctx context.Context, workspaceID string, ids ...string) ([]*click.Click, error)
	// WorkspacesOf returns which of the workspaces have the clicks with the public ids, by id.
	// Other ids are missing.
	WorkspacesOf(ctx context.Context, workspaceIDs []string, ids ...string) (map[string]string, error)
	// Span returns the clicks of workspaces that are in spans, in any order. A link restricts them
	// to its own.
	Span(ctx context.Context, spans []Span, workspaceIDs []string, linkID string) ([]*click.Click, error)

	// Count counts the clicks of a workspace after an instant whose numbers are lower than
	// another's.
	Count(ctx context.Context, workspaceID string, after time.Time, below int64) (int64, error)

	// Move moves the clicks of a link without an account to a workspace, including clicks that are
	// not written yet.
	Move(ctx context.Context, tx bun.Tx, linkID, workspaceID string) error
	// PurgeWorkspace removes all clicks of a workspace and their counts.
	PurgeWorkspace(ctx context.Context, workspaceID string) error
	// Seal sums up the clicks of days (UTC) that are over, and of busy subjects those of the day so
	// far. Later clicks of that time are added when they are written.
	Seal(ctx context.Context) error
	// Retain prepares the next months, and deletes expired clicks.
	Retain(ctx context.Context) error

	// Verify compares the counts of every link and workspace with the single clicks, and calls
	// found for each difference. It returns the number of links and workspaces. Only months whose
	// clicks are all kept are compared. Clicks may be written meanwhile.
	Verify(ctx context.Context, found func(Difference)) (subjects int, err error)
	// Rebuild counts again what Verify finds to differ, and returns the number of links and
	// workspaces.
	Rebuild(ctx context.Context) (subjects int, err error)
}

// DefaultMonths is the default number of whole months for which single clicks are stored. Counts of
// days are stored forever.
const DefaultMonths = 13

// KeptSince is the instant from which single clicks are retained for whole months; zero months mean
// DefaultMonths.
func KeptSince(now time.Time, months int) time.Time {
	return click.MonthOf(now).Start().AddDate(0, -cmp.Or(months, DefaultMonths), 0)
}

// ErrRefused says that a click of a batch can never be written.
var ErrRefused = errors.New("the store of clicks refuses a click")

// NotKept is the error of a query that needs single clicks of a time whose clicks are deleted.
func NotKept(since time.Time) error {
	return errs.New(errs.InvalidInput,
		"Several filters, and parts of a day (UTC), are counted from single clicks, which "+
			"are stored since %s: begin the range then or later.", since.Format(time.DateOnly)).At("range")
}

// Difference is a link, or a workspace, whose counts are not those of its clicks in a month.
type Difference struct {
	// SubjectID is the ID of the link or workspace.
	SubjectID string
	// Month is the first instant of the month in UTC; zero if the total differs from the
	// other counts.
	Month time.Time
	// Clicks is the count of single clicks, or of the other counts. Counted is the one that differs
	// from it.
	Clicks, Counted int64
}

// Batch is a part of a click log.
type Batch struct {
	// Log is the id of the log, and To the position in it at which the batch ends.
	Log string
	To  int64
	// Clicks are in the order of the log.
	Clicks []click.Click
}

// After returns the clicks of the batch behind a position.
func (b Batch) After(position int64) []click.Click {
	if position >= b.To {
		return nil
	}
	clicks := b.Clicks
	for len(clicks) > 0 && clicks[0].End > 0 && clicks[0].End <= position {
		clicks = clicks[1:]
	}
	return clicks
}

// Range is a span of time: From belongs to it, To does not. The zero Range is unbounded.
type Range struct{ From, To time.Time }

// Earlier and Later return one of two instants.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Subject selects the clicks of one link or of several links, else of a whole workspace.
type Subject struct {
	LinkID string
	// Links finds the ids of links.
	Links *bun.SelectQuery
}

// IsWorkspace reports whether it selects all clicks of the workspace.
func (s Subject) IsWorkspace() bool { return s.LinkID == "" && s.Links == nil }

// Filter leaves clicks out.
type Filter struct {
	// Bots keeps only bots, or only people; nil keeps both.
	Bots *bool
	// Values are the required values of dimensions. An empty text means unknown.
	Values map[click.Dimension]string
}

// People applies the filter of bots to a count. Bots are not visitors.
func (f Filter) People(n click.Count) click.Count {
	switch {
	case f.Bots == nil:
		return n
	case *f.Bots:
		return click.Count{Clicks: n.Bots, Bots: n.Bots}
	}
	return click.Count{Clicks: n.Clicks - n.Bots, Visits: n.Visits}
}

// Query selects clicks of a workspace.
type Query struct {
	WorkspaceID string
	Subject
	Range
	Filter
}

// Point is a count from a start on, until the next one at the earliest.
type Point struct {
	Start time.Time
	click.Count
}

// Grouping is how Groups counts clicks.
type Grouping struct {
	// Newest is the number of clicks that are counted at most.
	Newest int
	// By distinguish groups. Whether clicks are bots always does.
	By []Attribute
	// Phases distinguish groups by their numbers. They are in the order of time, and the first one
	// begins with the range.
	Phases []routing.Phase
}

// Attribute is a dimension of VisitDimensions. Unless Named is nil, all known values that it does not
// name are counted together, as click.Others, so that a million clicks have few groups. Names are in
// lower case. One with a leading dot names the host behind it, and all hosts below.
type Attribute struct {
	click.Dimension
	Named []string
}

// Group is a number of clicks with the same values.
type Group struct {
	// Click has the dimensions of the Grouping, Bot, and the instant of the oldest click.
	click.Click
	Clicks int64
}

// keySeparator is between the values of a key. Clicks have no control characters.
const keySeparator = "\x1f"

// KeySQL returns an expression that is the same for the clicks of a group, on all engines. One text
// is cheaper to group by than many columns. The functions write literals.
func (g *Grouping) KeySQL(instant func(time.Time) string, text func(string) string) string {
	key := "CASE WHEN bot THEN '1' ELSE '' END || " + text(keySeparator) + " || " + phaseSQL(g.Phases, instant)
	for _, a := range g.By {
		key += " || " + text(keySeparator) + " || " + a.valueSQL(text)
	}
	return key
}

func (a *Attribute) valueSQL(text func(string) string) string {
	column := a.Definition().Column
	if a.Named == nil {
		return "COALESCE(" + column + ", '')"
	}
	exact, below := []string{"''"}, ""
	for _, name := range a.Named {
		exact = append(exact, text(strings.TrimPrefix(name, ".")))
		if strings.HasPrefix(name, ".") {
			below += " OR " + column + " LIKE " + text("%"+name)
		}
	}
	return "CASE WHEN " + column + " IS NULL THEN '' WHEN LOWER(" + column + ") IN (" + strings.Join(exact, ", ") +
		")" + below + " THEN " + column + " ELSE " + text(click.Others) + " END"
}

// phaseSQL returns an expression for the number of the phase of a click, with few comparisons.
func phaseSQL(phases []routing.Phase, instant func(time.Time) string) string {
	if len(phases) == 1 {
		return "'" + strconv.Itoa(phases[0].Number) + "'"
	}
	half := len(phases) / 2
	return "CASE WHEN clicked_at < " + instant(phases[half].From) + " THEN " + phaseSQL(phases[:half], instant) +
		" ELSE " + phaseSQL(phases[half:], instant) + " END"
}

// Group returns the group with a key.
func (g *Grouping) Group(key string, clicks int64, oldest time.Time) *Group {
	values := strings.Split(key, keySeparator)
	group := &Group{Clicks: clicks}
	group.ClickedAt, group.Bot = oldest.UTC(), values[0] != ""
	for i, a := range g.By {
		*a.Definition().Text(&group.Click) = values[2+i]
	}
	return group
}

// Page is a part of a list, in the order of time.
type Page struct {
	// After is the click before the page; nil for the first page.
	After       *click.Click
	Size        int
	NewestFirst bool
}

// Span has the bounds of the numbers and times of clicks.
type Span struct {
	FirstID, LastID int64
	FirstAt, LastAt time.Time
}
