package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/rollup"
	"github.com/linkforge/linkforge/internal/stats"
)

// zones are those that days are checked in: with offsets of all kinds, and clocks that change by
// half an hour, at midnight, or not at all.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns",
	"Pacific/Chatham", "Asia/Kolkata",
	"America/Santiago", "Asia/Beirut", "Pacific/Kiritimati", "Africa/Casablanca",
}

// filterable are the dimensions that are filtered by; clicks are divided by them and by links.
var filterable = []click.Dimension{
	click.Referrer, click.Country, click.Device, click.Browser, click.OS, click.Language, click.Source, click.Medium,
	click.Campaign, click.Status,
}

// check is a range that is held against what was sent.
type check struct {
	link     int // or less than zero
	of       subject
	space    int
	span     stats.Range
	zone     string
	interval stats.Interval
	filter   stats.Filter
	by       click.Dimension
}

// draw draws a check. What it asks for is mostly there: links and values are those of a click.
func (b *bench) draw(random *rand.Rand) check {
	e := b.events[random.IntN(len(b.events))]
	c := check{link: -1, space: int(e.link) % workspaces, zone: zones[random.IntN(len(zones))],
		filter: stats.Filter{Values: map[click.Dimension]string{}}}
	c.of = subject{member: b.members[c.space]}
	if random.IntN(2) == 0 {
		c.link, c.of = int(e.link), b.link(int(e.link))
	}
	all := b.end.Sub(b.stream.begin)
	// as many short ones as long ones
	length := time.Duration(float64(all) * math.Pow(float64(time.Hour)/float64(all), random.Float64()))
	from := b.stream.begin.Add(time.Duration(random.Float64() * float64(all-length)))
	c.span = stats.Range{From: from, To: from.Add(length)}
	c.interval = []stats.Interval{stats.Day, stats.Week, stats.Month}[random.IntN(3)]
	if length < 30*day && random.IntN(2) == 0 {
		c.interval = stats.Hour
	}
	for range random.IntN(4) / 2 * (1 + random.IntN(2)) { // none in half of them, else one or two
		d := filterable[random.IntN(len(filterable))]
		c.filter.Values[d] = b.stream.value(e, d)
	}
	if n := random.IntN(4); n < 2 {
		c.filter.Bots = new(n == 0)
	}
	c.by = append(filterable, click.ByLink)[random.IntN(len(filterable)+1)]
	return c
}

// String tells a check to whoever has to find out why it went wrong.
func (c check) String() string {
	bots := "all"
	if c.filter.Bots != nil {
		bots = fmt.Sprint(*c.filter.Bots)
	}
	return fmt.Sprintf("workspace %d, link %d, %s to %s by %s in %s, bots %s, filter %v, divided by %s",
		c.space, c.link, c.span.From.Format(time.RFC3339), c.span.To.Format(time.RFC3339), c.interval, c.zone, bots,
		c.filter.Values, c.by)
}

// reconcile holds what the room says of random ranges against what was sent.
func (b *bench) reconcile(ctx context.Context, when string) error {
	random, agreed, whole := rand.New(rand.NewPCG(b.seed, 2)), 0, int64(0)
	for range b.checks {
		c := b.draw(random)
		clicks, difference, err := b.hold(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		whole += clicks
		if difference == "" {
			agreed++
			continue
		}
		b.wrongly("%s: %s%s", c, difference, when)
	}
	b.reportChecks(agreed, whole, when)
	return nil
}

// hold asks for the total, a series and a breakdown, and says what differs.
func (b *bench) hold(ctx context.Context, c check) (clicks int64, difference string, err error) {
	found, err := b.store.Stats(ctx, c.of.member, c.of.Subject, &c.span, c.zone, c.filter)
	if err != nil {
		return 0, "", err
	}
	total, err := found.Total(ctx)
	if err != nil {
		return 0, "", err
	}
	points, err := found.Series(ctx, c.interval)
	if err != nil {
		return 0, "", err
	}
	slices, err := found.Breakdown(ctx, c.by, 1000)
	if err != nil {
		return 0, "", err
	}
	sent := b.recount(c, found.Range, points)
	return sent.all.Clicks, sent.differs(total, points, slices), nil
}

// sent is what was sent of what a check asks for, in all, by the point of its series, and by value.
type sent struct {
	all    rollup.Count
	points []rollup.Count
	values map[string]rollup.Count
}

// recount counts what was sent. The points begin when the room says they do.
func (b *bench) recount(c check, span stats.Range, points []stats.Point) sent {
	is := sent{points: make([]rollup.Count, len(points)), values: map[string]rollup.Count{}}
	from, to := uint32(span.From.Unix()/900), uint32(span.To.Unix()/900)
	first := sort.Search(len(b.events), func(i int) bool { return b.events[i].quarter >= from })
	at := 0
	for _, e := range b.events[first:] {
		if e.quarter >= to {
			break
		}
		for at+1 < len(points) && int64(e.quarter)*900 >= points[at+1].Start.Unix() {
			at++
		}
		one, ok := b.counts(c, e)
		if !ok {
			continue
		}
		value := b.stream.value(e, c.by)
		is.all, is.points[at], is.values[value] = plus(is.all, one), plus(is.points[at], one), plus(is.values[value], one)
	}
	return is
}

// counts says whether a check asks for a click, and as what it is counted.
func (b *bench) counts(c check, e event) (rollup.Count, bool) {
	if c.link >= 0 && int(e.link) != c.link || int(e.link)%workspaces != c.space {
		return rollup.Count{}, false
	}
	bot := b.stream.agents[e.agent].Bot
	if c.filter.Bots != nil && *c.filter.Bots != bot {
		return rollup.Count{}, false
	}
	for d, value := range c.filter.Values {
		if b.stream.value(e, d) != value {
			return rollup.Count{}, false
		}
	}
	one := rollup.Count{Clicks: 1}
	if bot {
		one.Bots = 1
	}
	if e.mark&isVisit != 0 {
		one.Visits = 1
	}
	return one, true
}

func plus(a, b rollup.Count) rollup.Count {
	return rollup.Count{Clicks: a.Clicks + b.Clicks, Visits: a.Visits + b.Visits, Bots: a.Bots + b.Bots}
}

// differs says where the answers are not what was sent, or nothing.
func (s sent) differs(total rollup.Count, points []stats.Point, parts []stats.Slice) string {
	if total != s.all {
		return fmt.Sprintf("the total is %+v, want %+v", total, s.all)
	}
	for i, p := range points {
		if p.Count != s.points[i] {
			return fmt.Sprintf("the point at %s is %+v, want %+v", p.Start, p.Count, s.points[i])
		}
	}
	sum := rollup.Count{}
	others := slices.ContainsFunc(parts, func(p stats.Slice) bool { return p.IsOther })
	for _, p := range parts {
		if sum = plus(sum, p.Count); !others && p.Count != s.values[p.Value] {
			return fmt.Sprintf("of %q there are %+v, want %+v", p.Value, p.Count, s.values[p.Value])
		}
	}
	if sum != s.all {
		return fmt.Sprintf("the slices add up to %+v, want %+v", sum, s.all)
	}
	return ""
}

// mend verifies all sums, takes away those of the hottest link's days and of a whole workspace's
// quarters, rebuilds, and checks again.
func (b *bench) mend(ctx context.Context) error {
	began, found := time.Now(), 0
	subjects, err := b.store.Verify(ctx, func(d stats.Difference) {
		found++
		b.wrongly("verified: %+v", d)
	})
	if err != nil {
		return err
	}
	b.reportMended("Verified %d subjects in %.1f s: %d months differ.", subjects, time.Since(began).Seconds(), found)
	system := db.AsSystem(ctx)
	if _, err := b.db.ExecContext(system, "DELETE FROM click_days WHERE subject_id = ?", b.stream.links[0]); err != nil {
		return err
	}
	if _, err := b.db.ExecContext(system, "DELETE FROM click_buckets WHERE workspace_id = ?",
		b.members[workspaces-1].ID()); err != nil {
		return err
	}
	began = time.Now()
	if subjects, err = b.store.Rebuild(ctx); err != nil {
		return err
	}
	b.reportMended("Rebuilt the sums of %d subjects in %.1f s, after those of a workspace were taken away.", subjects,
		time.Since(began).Seconds())
	return b.reconcile(ctx, " after the rebuild")
}
