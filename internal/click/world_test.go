package click

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/visitor"
	"github.com/linkforge/linkforge/internal/workspace"
	"github.com/linkforge/linkforge/internal/workspace/workspacetest"
)

// sized is a size that the suite keeps small, and the environment makes larger.
func sized(variable string, small int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return small
}

// texts are what the dimensions of a click may be; some are not known.
var texts = map[Dimension][]string{
	Referrer: {"", "example.com", "news.example", "t.example"}, Country: {"", "DE", "NP", "CA"}, Device: {"", visitor.Desktop, visitor.Mobile},
	Browser: {"", "Chrome", "Firefox", "Instagram"}, OS: {"", "Android", "macOS"}, Language: {"", "de", "ne"},
	Source: {"", "", "newsletter"}, Medium: {"", "mail", "Post & Brief"}, Campaign: {"", "früh"}, Term: {"", "a b"}, Content: {"", "top", "bottom"},
}

// world is what has been written, beside the database that was told of it: every question is answered twice.
type world struct {
	*Store
	writer  writer
	clock   atomic.Int64 // nanoseconds since 1970
	members []workspace.Membership
	links   []Click // of each link what does not change: its id, and its workspace

	position int64
	log      string
	clicks   []Click // with IsVisit as it must be
	seen     map[visitorOf]bool
}

// visitorOf is who must be counted once.
type visitorOf struct {
	linkID  string
	day     string
	visitor int64
}

// newWorld has two workspaces, some links in each, and some of nobody's.
func newWorld(t *testing.T, d *db.DB) *world {
	t.Helper()
	w := &world{log: id.New(id.Log), seen: map[visitorOf]bool{}}
	w.set(noon)
	w.Store = &Store{DB: d, Now: func() time.Time { return time.Unix(0, w.clock.Load()).UTC() }}
	w.writer.db, w.writer.now = d, w.Now
	a := workspacetest.Actor(t, d)
	w.members = []workspace.Membership{workspacetest.Of(t, d, a, "ada"), workspacetest.Of(t, d, a, "bob")}
	for i, n := range []int{3, 2, 1} {
		owner := workspace.PublicID
		if i < len(w.members) {
			owner = w.members[i].ID()
		}
		for range n {
			w.links = append(w.links, Click{WorkspaceID: owner, LinkID: id.New(id.Link)})
		}
	}
	return w
}

func (w *world) set(t time.Time) { w.clock.Store(t.UnixNano()) }

// fields are where a click keeps its dimensions.
func fields(c *Click) map[Dimension]*string {
	return map[Dimension]*string{
		Referrer: &c.Referrer, Country: &c.Country, Device: &c.Device, Browser: &c.Browser, OS: &c.OS, Language: &c.Language,
		Source: &c.Source, Medium: &c.Medium, Campaign: &c.Campaign, Term: &c.Term, Content: &c.Content,
	}
}

// valueOf is a click's value of a dimension.
func valueOf(c *Click, d Dimension) string {
	switch d {
	case Status:
		return strconv.Itoa(c.Status)
	case ByLink:
		return c.LinkID
	}
	return *fields(c)[d]
}

// draw makes a click of one of the links in a span of time, half of them near midnights: of somebody who may come back, of
// somebody who is not told from others, or of a bot.
func (w *world) draw(random *rand.Rand, from, to time.Time) Click {
	c := w.links[random.IntN(len(w.links))]
	c.ClickedAt = from.Add(time.Duration(random.Int64N(int64(to.Sub(from))))).Truncate(time.Microsecond)
	if edge := c.ClickedAt.Truncate(day).Add(time.Duration(random.IntN(5)-2) * BucketLength); random.IntN(2) == 0 && !edge.Before(from) && edge.Before(to) {
		c.ClickedAt = edge.Add(-time.Duration(random.IntN(2)) * time.Microsecond)
	}
	c.ClickedAt = later(c.ClickedAt, from)
	c.LatencyMs = math.Exp(random.NormFloat64() * 2)
	c.Status = [...]int{302, 302, 302, 301, 307, 308}[random.IntN(6)]
	c.Bot = random.IntN(5) == 0
	if random.IntN(4) > 0 { // a bot has none in the field: then it must not count either
		c.Visitor = person(&c, random.IntN(3))
	}
	for d, field := range fields(&c) {
		if values := texts[d]; !c.Bot {
			*field = values[random.IntN(len(values))]
		}
	}
	return c
}

// person is how a link knows one of its visitors.
func person(c *Click, n int) int64 {
	return new(visitor.Key).Visitor(c.LinkID, fmt.Sprint(n), "")
}

// write gives the database a batch, and remembers it.
func (w *world) write(t *testing.T, batch ...Click) {
	t.Helper()
	w.position += int64(len(batch))
	if err := w.writer.write(t.Context(), w.log, w.position, batch); err != nil {
		t.Fatal(err)
	}
	w.remember(batch)
}

// remember finds who is counted: whoever is the first to come, in the order of writing.
func (w *world) remember(batch []Click) {
	for _, c := range batch {
		who := visitorOf{c.LinkID, c.ClickedAt.Format(time.DateOnly), c.Visitor}
		c.IsVisit = c.Visitor != 0 && !c.Bot && !w.seen[who]
		if c.IsVisit {
			w.seen[who] = true
		}
		w.clicks = append(w.clicks, c)
	}
}

// writeAll writes clicks in an order and in batches of chance.
func (w *world) writeAll(t *testing.T, random *rand.Rand, clicks []Click) {
	t.Helper()
	random.Shuffle(len(clicks), func(i, j int) { clicks[i], clicks[j] = clicks[j], clicks[i] })
	for len(clicks) > 0 {
		n := min(len(clicks), 1+random.IntN(300))
		w.write(t, clicks[:n]...)
		clicks = clicks[n:]
	}
}

// verify wants all sums to be those of the clicks.
func (w *world) verify(t *testing.T) {
	t.Helper()
	if _, err := w.Verify(t.Context(), func(d Difference) { t.Errorf("differs: %+v", d) }); err != nil {
		t.Error(err)
	}
}

// seal sums up the days that are over, and keeps those by column that are busy.
func (w *world) seal(t *testing.T) {
	t.Helper()
	if err := cmp.Or(w.Seal(t.Context()), w.Detail(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// checkTotals compares how often each link was followed, ever.
func (w *world) checkTotals(t *testing.T) {
	t.Helper()
	want, linkIDs := map[string]int64{}, []string{w.members[0].ID(), w.members[1].ID()}
	for _, l := range w.links {
		linkIDs = append(linkIDs, l.LinkID)
	}
	for _, c := range w.clicks {
		want[c.LinkID]++
		if c.WorkspaceID != workspace.PublicID {
			want[c.WorkspaceID]++
		}
	}
	got, err := w.Counts(db.AsSystem(t.Context()), w.DB, linkIDs...)
	if diff := gocmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("totals (-want +got):\n%s%v", diff, err)
	}
	for _, m := range w.members {
		var own int64
		totals, err := w.Totals(t.Context(), m, linkIDs[2:]...)
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

// all asks for everything of a workspace.
func (w *world) all(m workspace.Membership, from, to time.Time) question {
	return question{member: m, r: Range{from, to}}
}
