package clicktest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// texts are the values of dimensions that clicks are drawn from. Empty means unknown.
var texts = map[click.Dimension][]string{
	click.Referrer: {"", "example.com", "news.example", "t.example"}, click.Country: {"", "DE", "NP", "CA"},
	click.Device:  {"", visitor.Desktop, visitor.Mobile},
	click.Browser: {"", "Chrome", "Firefox", "Instagram"}, click.OS: {"", "Android", "macOS"},
	click.Language: {"", "de", "ne"},
	click.Source:   {"", "", "newsletter"}, click.Medium: {"", "mail", "Post & Brief"}, click.Campaign: {"", "früh"},
	click.Term: {"", "a b"}, click.Content: {"", "top", "bottom"},
}

// textsOf returns the values to draw from for a dimension.
func textsOf(d click.Dimension) []string {
	if values := texts[d]; values != nil {
		return values
	}
	return []string{"", "a", "b"}
}

// World records all clicks that tests write, apart from the database, so that each query has an
// expected result.
type World struct {
	clickstore.Store
	DB     *db.DB
	Stats  *stats.Store
	Ledger *clickstore.Ledger
	// FirstInTime says that a visit is the first click of a visitor in time, not in the order of
	// writing, and that clicks which are written later than clickstore.VisitorsKept after their day
	// are compared with those of their batch alone.
	FirstInTime bool

	clock   atomic.Int64 // nanoseconds since 1970
	Members []workspace.Membership
	Links   []click.Click // of each link what does not change: its id, and its workspace

	Position int64
	Log      string
	Clicks   []click.Click // with IsVisit as it must be
	seen     map[visitorOf]bool
}

// visitorOf is who must be counted once.
type visitorOf struct {
	linkID  string
	day     string
	visitor int64
}

// NewWorld is a World of clicks in the SQL database.
func NewWorld(t *testing.T, d *db.DB) *World {
	t.Helper()
	return NewWorldOf(t, d, func(now func() time.Time) clickstore.Store { return &clicksql.Store{DB: d, Now: now} })
}

// EachWorld runs a test in parallel with others, on both databases.
func EachWorld(t *testing.T, test func(t *testing.T, w *World)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		test(t, NewWorld(t, d))
	})
}

// NewWorldOf has two workspaces with some links each, and some links without an owner. The database
// has their totals.
func NewWorldOf(t *testing.T, d *db.DB, open func(now func() time.Time) clickstore.Store) *World {
	t.Helper()
	w := &World{Log: id.New(id.Log), DB: d, seen: map[visitorOf]bool{}}
	w.Set(Noon)
	w.Store = open(w.Now)
	w.Ledger = &clickstore.Ledger{DB: d}
	w.Stats = &stats.Store{Clicks: w.Store, Ledger: w.Ledger, Now: w.Now}
	a := workspacetest.Actor(t, d)
	w.Members = []workspace.Membership{workspacetest.Of(t, d, a, "ada"), workspacetest.Of(t, d, a, "bob")}
	for i, n := range []int{3, 2, 1} {
		owner := id.PublicWorkspace
		if i < len(w.Members) {
			owner = w.Members[i].ID()
		}
		for range n {
			w.Links = append(w.Links, click.Click{WorkspaceID: owner, LinkID: id.New(id.Link)})
		}
	}
	return w
}

// Now is the time of the world.
func (w *World) Now() time.Time { return time.Unix(0, w.clock.Load()).UTC() }

// ClicksSince is the instant since which single clicks are stored.
func (w *World) ClicksSince() time.Time {
	return w.Store.(interface{ ClicksSince() time.Time }).ClicksSince()
}

func (w *World) Set(t time.Time) { w.clock.Store(t.UnixNano()) }

// Draw returns a click of one of the links in a span of time. Half of the clicks are near midnight.
// Its visitor is a returning one, an unidentified one, or a bot.
func (w *World) Draw(random *rand.Rand, from, to time.Time) click.Click {
	c := w.Links[random.IntN(len(w.Links))]
	c.ClickedAt = from.Add(time.Duration(random.Int64N(int64(to.Sub(from))))).Truncate(time.Microsecond)
	if edge := c.ClickedAt.Truncate(click.Day).
		Add(time.Duration(random.IntN(5)-2) * click.BucketLength); random.IntN(2) == 0 && !edge.Before(from) &&
		edge.Before(to) {
		c.ClickedAt = edge.Add(-time.Duration(random.IntN(2)) * time.Microsecond)
	}
	if c.ClickedAt.Before(from) {
		c.ClickedAt = from
	}
	c.LatencyMs = math.Round(math.Exp(random.NormFloat64()*2)*1e6) / 1e6 // nanoseconds are measured
	c.Status = [...]int{302, 302, 302, 301, 307, 308}[random.IntN(6)]
	c.Bot = random.IntN(5) == 0
	if random.IntN(4) > 0 { // a bot has none in the field: then it must not count either
		c.Visitor = Person(&c, random.IntN(3))
	}
	for _, d := range click.VisitDimensions {
		if values := textsOf(d.Name); !c.Bot {
			*d.Text(&c) = values[random.IntN(len(values))]
		}
	}
	return c
}

// DrawAll draws n clicks.
func (w *World) DrawAll(random *rand.Rand, n int, from, to time.Time) (clicks []click.Click) {
	for range n {
		clicks = append(clicks, w.Draw(random, from, to))
	}
	return clicks
}

// Person is how a link knows one of its visitors.
func Person(c *click.Click, n int) int64 {
	return new(visitor.Key).Visitor(c.LinkID, fmt.Sprint(n), "")
}

// Write gives the database a batch, and remembers it.
func (w *World) Write(t *testing.T, batch ...click.Click) {
	t.Helper()
	w.Position += int64(len(batch))
	if err := w.Store.Write(t.Context(), w.Batch(batch...)); err != nil {
		t.Fatal(err)
	}
	w.Remember(batch)
}

// Batch returns a batch that ends at the position.
func (w *World) Batch(clicks ...click.Click) clickstore.Batch {
	return clickstore.Batch{Log: w.Log, To: w.Position, Clicks: clicks}
}

// Remember marks visits: the first click of a visitor in the order of writing.
func (w *World) Remember(batch []click.Click) {
	if w.FirstInTime {
		w.rememberInTime(batch)
		return
	}
	for _, c := range batch {
		who := whoOf(&c)
		c.IsVisit = c.Visitor != 0 && !c.Bot && !w.seen[who]
		if c.IsVisit {
			w.seen[who] = true
		}
		w.Clicks = append(w.Clicks, c)
	}
}

func whoOf(c *click.Click) visitorOf {
	return visitorOf{c.LinkID, c.ClickedAt.Format(time.DateOnly), c.Visitor}
}

// rememberInTime marks visits: the first click of a visitor in time.
func (w *World) rememberInTime(batch []click.Click) {
	open, late := w.Now().Add(-clickstore.VisitorsKept).Truncate(click.Day), map[visitorOf]bool{}
	for _, c := range batch {
		if who := whoOf(&c); c.ClickedAt.Before(open) && c.Visitor != 0 {
			c.IsVisit, c.Visitor = !c.Bot && !late[who], 0
			late[who] = late[who] || c.IsVisit
		}
		w.Clicks = append(w.Clicks, c)
	}
	first := map[visitorOf]*click.Click{}
	for i := range w.Clicks {
		c := &w.Clicks[i]
		if c.Visitor == 0 || c.Bot {
			continue
		}
		c.IsVisit = false
		if one := first[whoOf(c)]; one == nil || c.ClickedAt.Before(one.ClickedAt) {
			first[whoOf(c)] = c
		}
	}
	for _, c := range first {
		c.IsVisit = true
	}
}

// WriteAll writes clicks in an order and in batches of chance.
func (w *World) WriteAll(t *testing.T, random *rand.Rand, clicks []click.Click) {
	t.Helper()
	random.Shuffle(len(clicks), func(i, j int) { clicks[i], clicks[j] = clicks[j], clicks[i] })
	for len(clicks) > 0 {
		n := min(len(clicks), 1+random.IntN(300))
		w.Write(t, clicks[:n]...)
		clicks = clicks[n:]
	}
}

// Verify wants all sums to be those of the clicks.
func (w *World) VerifyRollups(t *testing.T) {
	t.Helper()
	if _, err := w.Verify(t.Context(), func(d clickstore.Difference) { t.Errorf("differs: %+v", d) }); err != nil {
		t.Error(err)
	}
}

// SealDays sums up the days that are over, and the busy ones so far.
func (w *World) SealDays(t *testing.T) {
	t.Helper()
	if err := w.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// CheckTotals compares how often each link was followed, ever.
func (w *World) CheckTotals(t *testing.T) {
	t.Helper()
	want, linkIDs := map[string]int64{}, []string{w.Members[0].ID(), w.Members[1].ID()}
	for _, l := range w.Links {
		linkIDs = append(linkIDs, l.LinkID)
	}
	for _, c := range w.Clicks {
		want[c.LinkID]++
		if c.WorkspaceID != id.PublicWorkspace {
			want[c.WorkspaceID]++
		}
	}
	got, err := clickstore.LinkCounts(db.AsSystem(t.Context()), w.DB, linkIDs...)
	if diff := gocmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("totals (-want +got):\n%s%v", diff, err)
	}
	for _, m := range w.Members {
		var own int64
		totals, err := w.Ledger.Totals(must.Value(m.Enter(t.Context(), workspace.ReadLinks))(t), m.ID(), linkIDs[2:]...)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range totals {
			own += one.Clicks
		}
		if own != want[m.ID()] {
			t.Errorf("%s: %d clicks of all links, want %d", m.Slug(), own, want[m.ID()])
		}
	}
}

// All is a query of all clicks of a workspace.
func (w *World) All(m workspace.Membership, from, to time.Time) Question {
	return Question{Member: m, R: clickstore.Range{From: from, To: to}}
}
