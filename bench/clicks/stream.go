package main

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/visitor"
)

const (
	// workspaces is how many own the links: link k is the k%workspaces-th's.
	workspaces = 20
	// skew is the exponent of Zipf's law, by which links are followed.
	skew = 1.1
	day  = 24 * time.Hour
)

// event is what is remembered of a click, to count it again: the places of its values in the
// world's lists.
type event struct {
	quarter                                      uint32 // of an hour, since 1970
	link                                         uint16
	agent, country, language, referrer, campaign uint8
	mark                                         uint8
}

// The marks.
const (
	isVisit   = 1 << iota // the first click of its visitor on the link and day
	isPrivate             // the visitor asked not to be profiled
)

// stream makes clicks in the order of time.
type stream struct {
	*world
	begin, end time.Time
	total      int
	links      []string // their ids
	seed       uint64

	random       *rand.Rand
	ranks, sites *rand.Zipf
	until        []int // how many clicks there are by the end of each hour
	hour, made   int

	day  int64 // since 1970
	key  visitor.Key
	seen map[int64]bool // visitors of the day
}

func newStream(o options, total int, end time.Time) *stream {
	random := rand.New(rand.NewPCG(o.seed, 0))
	s := &stream{
		world: newWorld(random), begin: hitquota.MonthOf(end).Start.AddDate(0, -o.months, 0), end: end, total: total,
		seed: o.seed, random: random,
		ranks: rand.NewZipf(random, skew, 1, uint64(o.links-1)), sites: rand.NewZipf(random, 1.3, 1, uint64(len(sites)-1)),
	}
	for k := range o.links { // which links are the popular ones has nothing to do with when they were made
		s.links = append(s.links, id.Join(id.Link, int64(random.Uint64()>>1), int64(k)))
	}
	s.until = rhythm(s.begin, s.end, total)
	return s
}

// How much is going on by the hour (UTC), and by the day of the week from Sunday on.
var (
	hours    = [24]float64{3, 2, 2, 2, 2, 3, 4, 6, 8, 9, 10, 10, 10, 11, 11, 11, 11, 10, 10, 9, 8, 7, 5, 4}
	weekdays = [7]float64{6, 10, 11, 11, 11, 10, 6}
)

// rhythm divides clicks among the hours: how many there are by the end of each. The last hour is
// over when time is.
func rhythm(begin, end time.Time, clicks int) []int {
	var sums []float64
	sum := 0.0
	for at := begin; at.Before(end); at = at.Add(time.Hour) {
		part := min(1, end.Sub(at).Hours())
		sum += hours[at.Hour()] * weekdays[at.Weekday()] * part
		sums = append(sums, sum)
	}
	until := make([]int, len(sums))
	for i, s := range sums {
		until[i] = int(math.Round(s / sum * float64(clicks)))
	}
	return until
}

// next makes the next click, and says what it is made of. It returns false after the last one.
func (s *stream) next(c *click.Click) (event, bool) {
	if s.made == s.total {
		return event{}, false
	}
	at := s.at()
	s.made++
	if d := dayOf(at); d != s.day {
		s.turn(d)
	}
	who, link := s.anyone(s.random), int(s.ranks.Uint64())
	e := event{quarter: uint32(at.Unix() / 900), link: uint16(link), agent: who.agent, country: who.country,
		language: who.language}
	if s.random.IntN(10) < 6 { // others come directly
		e.referrer = uint8(1 + s.sites.Uint64())
	}
	if s.random.IntN(20) == 0 {
		e.campaign = uint8(1 + s.random.IntN(len(campaigns)))
	}
	if who.private {
		e.mark |= isPrivate
	}
	*c = click.Click{
		LinkID: s.links[link], ClickedAt: at, LatencyMs: 0.08 * math.Exp(0.6*s.random.NormFloat64()), Status: statusOf(link),
		Visit: s.visit(e),
	}
	if !who.private {
		c.Visitor = s.key.Visitor(c.LinkID, who.address, agents[who.agent].text)
		if !c.Bot && !s.seen[c.Visitor] {
			s.seen[c.Visitor], c.IsVisit = true, true
			e.mark |= isVisit
		}
	}
	return e, true
}

// at is when the next click is: those of an hour are spread over it.
func (s *stream) at() time.Time {
	for s.until[s.hour] <= s.made {
		s.hour++
	}
	first := 0
	if s.hour > 0 {
		first = s.until[s.hour-1]
	}
	start := s.begin.Add(time.Duration(s.hour) * time.Hour)
	length := min(time.Hour, s.end.Sub(start))
	part := (float64(s.made-first) + s.random.Float64()) / float64(s.until[s.hour]-first)
	return start.Add(time.Duration(part * float64(length))).Truncate(time.Microsecond)
}

// dayOf is the day (UTC) of an instant, since 1970.
func dayOf(t time.Time) int64 { return t.Unix() / int64(day/time.Second) }

// turn begins a day: it has a key of its own, and nobody has come yet.
func (s *stream) turn(day int64) {
	s.day, s.seen = day, make(map[int64]bool, len(s.seen))
	seed := binary.LittleEndian.AppendUint64(nil, s.seed)
	s.key = sha256.Sum256(binary.LittleEndian.AppendUint64(seed, uint64(day)))
}

// visit is what a click keeps of who asked.
func (s *stream) visit(e event) visitor.Visit {
	v := s.agents[e.agent]
	if e.mark&isPrivate != 0 {
		return visitor.Visit{Bot: v.Bot}
	}
	c := &s.campaigns[e.campaign]
	v.Referrer, v.Country, v.Language = s.referrers[e.referrer].Referrer, s.countryCodes[e.country],
		s.languageCodes[e.language]
	v.Source, v.Medium, v.Campaign, v.Term, v.Content = c.Source, c.Medium, c.Campaign, c.Term, c.Content
	return v
}

// statusOf is what a link redirects with: few do otherwise than most.
func statusOf(link int) int {
	if link%20 == 7 {
		return 301
	}
	return 302
}

// value is a click's of a dimension.
func (s *stream) value(e event, d click.Dimension) string {
	switch d {
	case click.Status:
		return strconv.Itoa(statusOf(int(e.link)))
	case click.ByLink:
		return s.links[e.link]
	}
	if e.mark&isPrivate != 0 {
		return ""
	}
	switch d {
	case click.Referrer:
		return s.referrers[e.referrer].Referrer
	case click.Country:
		return s.countryCodes[e.country]
	case click.Language:
		return s.languageCodes[e.language]
	case click.Device:
		return s.agents[e.agent].Device
	case click.Browser:
		return s.agents[e.agent].Browser
	case click.OS:
		return s.agents[e.agent].OS
	case click.Source:
		return s.campaigns[e.campaign].Source
	case click.Medium:
		return s.campaigns[e.campaign].Medium
	case click.Campaign:
		return s.campaigns[e.campaign].Campaign
	}
	panic("a dimension that nothing is remembered of: " + d)
}
