package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// facts are all that a decision about a visit depends on. Of these, a click stores neither query nor
// address, and of the languages only the first, without its region.
type facts struct {
	country, device, os, browser, referrer string
	isBot, isPrivate                       bool
	languages                              []string
	query, address                         string
	at                                     time.Time
}

// The queries and addresses that the model knows satisfy the conditions below in all combinations.
var (
	modelQueries   = []string{"", "a=1", "a=2", "b=1", "a=1&b=1", "a=2&b=1"}
	modelAddresses = []string{"192.0.2.1", "192.0.2.150", "192.0.2.200", "198.51.100.1", "2001:db8::1", "2001:db9::1"}
	modelLanguages = []string{"de", "de-AT", "pt", "pt-BR", "fr-CA", "fr"}
)

// condition is a condition with its meaning. Language is the visitor's that decides.
type condition struct {
	input *routing.Condition
	holds func(f *facts, language string) bool
}

// isWithin reports whether a tag of a rule names a language.
func isWithin(language, tag string) bool {
	return tag == language || tag != "" && strings.HasPrefix(language, tag+"-")
}

func anyCondition(random *rand.Rand) condition {
	pick := func(values ...string) []string {
		random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		return values[:1+random.IntN(2)]
	}
	among := func(values []string, of func(f *facts) string) func(*facts, string) bool {
		return func(f *facts, _ string) bool { return slices.Contains(values, of(f)) }
	}
	switch random.IntN(11) {
	case 0:
		values := pick("DE", "NP", "")
		return condition{&routing.Condition{Country: values}, among(values, func(f *facts) string { return f.country })}
	case 1:
		values := pick("mobile", "desktop", "")
		return condition{&routing.Condition{Device: values}, among(values, func(f *facts) string { return f.device })}
	case 2:
		values := pick("iOS", "Windows", "")
		return condition{&routing.Condition{OS: values}, among(values, func(f *facts) string { return f.os })}
	case 3:
		values := pick("Safari", "Chrome")
		return condition{&routing.Condition{Browser: values}, among(values, func(f *facts) string { return f.browser })}
	case 4:
		values := pick("news.example", ".example.org", "")
		return condition{&routing.Condition{Referrer: values}, func(f *facts, _ string) bool {
			return slices.ContainsFunc(values, func(value string) bool {
				return f.referrer == value || value != "" && strings.HasSuffix("."+f.referrer, value)
			})
		}}
	case 5:
		isBot := random.IntN(2) == 0
		return condition{&routing.Condition{Bot: &isBot}, func(f *facts, _ string) bool { return f.isBot == isBot }}
	case 6:
		values := pick("de", "de-AT", "pt-BR", "fr", "")
		return condition{&routing.Condition{Language: values}, func(_ *facts, language string) bool {
			return slices.ContainsFunc(values, func(tag string) bool { return isWithin(language, tag) })
		}}
	case 7:
		piece := []string{"a", "b", "a=1"}[random.IntN(3)]
		name, value, hasValue := strings.Cut(piece, "=")
		q := &routing.QueryCondition{Name: name}
		if hasValue {
			q.Value = &value
		}
		return condition{&routing.Condition{Query: q}, func(f *facts, _ string) bool {
			return strings.Contains("&"+f.query+"&", "&"+piece+map[bool]string{true: "&", false: "="}[hasValue])
		}}
	case 8:
		networks := pick("192.0.2.0/24", "192.0.2.0/25", "192.0.2.200", "2001:db8::/32")
		return condition{&routing.Condition{Network: networks}, func(f *facts, _ string) bool {
			return slices.ContainsFunc(networks, func(network string) bool {
				prefix, err := netip.ParsePrefix(network)
				return network == f.address || err == nil && prefix.Contains(netip.MustParseAddr(f.address))
			})
		}}
	case 9:
		from := clicktest.Noon.Add(-time.Duration(random.IntN(20_000)) * time.Minute)
		to := from.Add(time.Duration(1+random.IntN(10_000)) * time.Minute)
		during := &routing.Condition{During: &routing.Period{From: &from, To: &to}}
		return condition{during, func(f *facts, _ string) bool { return !f.at.Before(from) && f.at.Before(to) }}
	}
	return anySchedule(random)
}

// anySchedule is read with a clock that is a text.
func anySchedule(random *rand.Rand) condition {
	zone := []string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "America/New_York"}[random.IntN(4)]
	location := routing.LoadZone(zone)
	clock := func() string { return fmt.Sprintf("%02d:%02d", random.IntN(24), random.IntN(60)) }
	w := &routing.WeeklySchedule{Timezone: zone, From: clock(), To: clock()}
	for day := range 7 {
		if random.IntN(2) == 0 || day == 6 && len(w.Days) == 0 {
			w.Days = append(w.Days, routing.Weekdays[day])
		}
	}
	return condition{&routing.Condition{Weekly: w}, func(f *facts, _ string) bool {
		local := f.at.In(location)
		now, today := local.Format("15:04"), routing.Weekdays[local.Weekday()]
		yesterday := routing.Weekdays[(local.Weekday()+6)%7]
		if w.From < w.To {
			return w.From <= now && now < w.To && slices.Contains(w.Days, today)
		}
		return w.From <= now && slices.Contains(w.Days, today) || now < w.To && slices.Contains(w.Days, yesterday)
	}}
}

// modelRouting is a routing with the meaning of its conditions.
type modelRouting struct {
	*routing.Routing
	when, unless [][]condition
}

func (m *modelRouting) add(random *rand.Rand, rule *routing.Rule) {
	var when, unless []condition
	for range random.IntN(3) {
		when = append(when, anyCondition(random))
		rule.When = append(rule.When, when[len(when)-1].input)
	}
	for range random.IntN(2) {
		unless = append(unless, anyCondition(random))
		rule.Unless = append(rule.Unless, unless[len(unless)-1].input)
	}
	m.Rules, m.when, m.unless = append(m.Rules, rule), append(m.when, when), append(m.unless, unless)
}

// anyRule has an ID and a name that others of the letter do not have.
func anyRule(random *rand.Rand, letter string, n int) *routing.Rule {
	r := &routing.Rule{ID: fmt.Sprint("rul_", letter, n), Name: new(fmt.Sprint(letter, n)),
		Stickiness: []routing.Stickiness{routing.NotSticky, routing.ByVisitor, routing.ByCookie}[random.IntN(3)]}
	for i := range max(1, random.IntN(5)-1) {
		t := &routing.Target{ID: fmt.Sprint("tgt_", letter, n, i), Share: new(random.IntN(4)),
			URL: new(fmt.Sprintf("https://example.com/%s%d/%d", letter, n, i))}
		if random.IntN(6) == 0 {
			t.MaxClicks = new(int64(5))
		}
		r.Targets = append(r.Targets, t)
	}
	*r.Targets[0].Share++
	return r
}

// anyPair returns a routing, and another one that has some of its rules, perhaps with other conditions
// or shares, and rules of its own.
func anyPair(random *rand.Rand) (present, other *modelRouting) {
	one := func() *modelRouting {
		return &modelRouting{Routing: &routing.Routing{
			ForwardPath: random.IntN(8) == 0,
			Bots:        []routing.BotPolicy{"", "", "", routing.BlockBots, routing.ConfirmBots}[random.IntN(5)],
		}}
	}
	present, other = one(), one()
	notice := "A notice."
	if random.IntN(6) == 0 {
		present.Gate = &routing.Gate{Notice: &notice}
	}
	switch random.IntN(8) {
	case 0:
		other.Gate = &routing.Gate{Notice: new(notice)}
	case 1:
		other.Card = &routing.Card{Title: "A card"}
	}
	for i := range 4 {
		rule := anyRule(random, "p", i)
		present.add(random, rule)
		switch random.IntN(4) {
		case 0:
			other.add(random, anyRule(random, "o", i))
		case 1: // with other conditions, and perhaps in another order
			kept := &routing.Rule{ID: rule.ID, Name: rule.Name, Targets: rule.Targets, Stickiness: rule.Stickiness}
			other.add(random, kept)
		case 2:
			changed := anyRule(random, "p", i)
			changed.Enabled = new(random.IntN(4) > 0)
			other.add(random, changed)
		}
	}
	return present, other
}

// decide returns the position of the rule that decides about a visit; -1 for the link's own URL.
func (m *modelRouting) decide(f *facts) int {
	language := ""
	if len(f.languages) > 0 {
		language = f.languages[max(slices.IndexFunc(f.languages, m.names), 0)]
	}
	for i, rule := range m.Rules {
		fails := func(c condition) bool { return !c.holds(f, language) }
		holds := func(c condition) bool { return c.holds(f, language) }
		if optional.Or(rule.Enabled, true) && !slices.ContainsFunc(m.when[i], fails) &&
			!slices.ContainsFunc(m.unless[i], holds) {
			return i
		}
	}
	return -1
}

// names reports whether a condition of an enabled rule names a language.
func (m *modelRouting) names(language string) bool {
	return slices.ContainsFunc(m.Rules, func(r *routing.Rule) bool {
		isNaming := func(c *routing.Condition) bool {
			return slices.ContainsFunc(c.Language, func(tag string) bool { return isWithin(language, tag) })
		}
		return optional.Or(r.Enabled, true) && slices.ContainsFunc(slices.Concat(r.When, r.Unless), isNaming)
	})
}

// decideStored returns the rule that decides about each visit with the stored facts of another, or
// false if they do not agree.
func (m *modelRouting) decideStored(f *facts) (rule int, isKnown bool) {
	headers := [][]string{nil}
	if len(f.languages) > 0 {
		headers = nil
		primary := f.languages[0][:2]
		for _, first := range append([]string{primary + "-XX"}, modelLanguages...) {
			if !strings.HasPrefix(first, primary) {
				continue
			}
			headers = append(headers, []string{first})
			for _, second := range modelLanguages {
				headers = append(headers, []string{first, second})
			}
		}
	}
	rule = -2
	for _, languages := range headers {
		for _, query := range modelQueries {
			for _, address := range modelAddresses {
				world := *f
				world.languages, world.query, world.address = languages, query, address
				got := m.decide(&world)
				if rule != -2 && got != rule {
					return 0, false
				}
				rule = got
			}
		}
	}
	return rule, true
}

// holdsBack reports whether another routing may answer a visitor of the present one with a page.
func (m *modelRouting) holdsBack(f *facts, present *modelRouting) bool {
	holdsBots := m.Bots == routing.BlockBots || m.Bots == routing.ConfirmBots && present.Bots != routing.ConfirmBots ||
		m.Card != nil && present.Card == nil
	return present.ForwardPath && !m.ForwardPath || m.Gate != nil && present.Gate == nil || f.isBot && holdsBots
}

// anyFacts chooses a visit at random.
func anyFacts(random *rand.Rand) *facts {
	one := func(values ...string) string { return values[random.IntN(len(values))] }
	agent := []facts{
		{device: "mobile", os: "iOS", browser: "Safari"}, {device: "desktop", os: "Windows", browser: "Chrome"},
		{device: "other"}, {isBot: true},
	}[random.IntN(4)]
	f := &agent
	f.country = one("DE", "NP", "AT", "")
	f.referrer = one("", "news.example", "example.org", "a.example.org", "myexample.org")
	for range random.IntN(3) {
		f.languages = append(f.languages, one(modelLanguages...))
	}
	f.query, f.address = one(modelQueries...), one(modelAddresses...)
	f.isPrivate = !f.isBot && random.IntN(10) == 0
	f.at = clicktest.Noon.Add(-time.Duration(random.Int64N(int64(20 * click.Day)))).Truncate(time.Microsecond)
	return f
}

// click returns what a click stores of a visit, with a rule and a target that were recorded.
func (f *facts) click(random *rand.Rand, member, link string) *click.Click {
	c := &click.Click{WorkspaceID: member, LinkID: link, ClickedAt: f.at, LatencyMs: 1, Status: 302}
	c.Bot = f.isBot
	if f.isPrivate {
		return c
	}
	c.Visit = visitor.Visit{
		Country: f.country, Device: f.device, OS: f.os, Browser: f.browser, Referrer: f.referrer, Bot: f.isBot,
	}
	if len(f.languages) > 0 {
		c.Language = f.languages[0][:2]
	}
	if n := random.IntN(6); n < 5 { // a fifth rule has been removed
		c.RuleID, c.TargetID = fmt.Sprint("rul_p", n), fmt.Sprint("tgt_p", n, random.IntN(3))
	}
	return c
}

const ownURL = "https://example.com/own"

// modelFlows are flows by the names of their ends, as expected: certain ones, and those with draws.
type modelFlows struct {
	unknown int64
	flows   map[[2]string]float64
}

// simulate decides each click again by itself.
func (m *modelRouting) simulate(visits []*facts, clicks []*click.Click, present *modelRouting) modelFlows {
	got := modelFlows{flows: map[[2]string]float64{}}
	for i, f := range visits {
		rule, isKnown := m.decideStored(f)
		if f.isPrivate || m.holdsBack(f, present) || !isKnown {
			got.unknown++
			continue
		}
		from := nameOfEnd(present.Routing, clicks[i].RuleID, clicks[i].TargetID)
		if rule < 0 {
			got.flows[[2]string{from, ownURL}]++
			continue
		}
		for target, part := range m.parts(rule, f.isBot, clicks[i], present) {
			got.flows[[2]string{from, *m.Rules[rule].Name + " " + target}] += part
		}
	}
	return got
}

// parts returns the probabilities of the targets of a rule, by URL.
func (m *modelRouting) parts(rule int, isBot bool, c *click.Click, present *modelRouting) map[string]float64 {
	r, sum, largest := m.Rules[rule], 0, m.Rules[rule].Targets[0]
	for _, t := range r.Targets {
		if sum += *t.Share; *t.Share > *largest.Share {
			largest = t
		}
	}
	parts := map[string]float64{}
	for _, t := range r.Targets {
		parts[*t.URL] = float64(*t.Share) / float64(sum)
		before := slices.IndexFunc(present.Rules, func(p *routing.Rule) bool { return p.ID == r.ID })
		if !isBot && t.ID == c.TargetID && r.ID == c.RuleID && *t.Share > 0 && before >= 0 &&
			cmp.Equal(present.Rules[before].Targets, r.Targets) && present.Rules[before].Stickiness == r.Stickiness {
			return map[string]float64{*t.URL: 1}
		}
	}
	if isBot {
		return map[string]float64{*largest.URL: 1}
	}
	return parts
}

// nameOfEnd describes a recorded end.
func nameOfEnd(r *routing.Routing, ruleID, targetID string) string {
	if ruleID == "" {
		return ownURL
	}
	for _, rule := range r.Rules {
		for _, t := range rule.Targets {
			if t.ID == targetID {
				return *rule.Name + " " + *t.URL
			}
		}
	}
	return "removed " + targetID
}

func nameOf(e stats.End) string {
	switch {
	case e.URL == "":
		return "removed " + e.TargetID
	case e.RuleName == "":
		return e.URL
	}
	return e.RuleName + " " + e.URL
}

// TestSimulate_AgreesWithAModel compares simulations of random pairs of routings with a model that
// decides each click by itself, and tries all visits that the click may be of.
func TestSimulate_AgreesWithAModel(t *testing.T) {
	t.Parallel()
	const pairs, visits = 200, 150
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, random := clicktest.Setup(t, d), rand.New(rand.NewPCG(7, 3))
		var all []*facts
		var clicks []*click.Click
		for range visits {
			f := anyFacts(random)
			all, clicks = append(all, f), append(clicks, f.click(random, b.Member.ID(), "lnk_1"))
			b.Record(clicks[len(clicks)-1])
		}
		b.FlushClicks(t)
		unknown, moved := int64(0), int64(0)
		for pair := range pairs {
			present, other := anyPair(random)
			s := must.Value(b.Stats.Stats(t.Context(), b.Member, clickstore.Subject{LinkID: "lnk_1"}, nil, "",
				clickstore.Filter{}))(t)
			got := must.Value(s.Simulate(t.Context(), ownURL, present.Routing, other.Routing))(t)
			compareFlows(t, pair, got, other.simulate(all, clicks, present))
			unknown, moved = unknown+got.Unknown, moved+got.Moved
			if got.Visits != visits || got.Since != nil {
				t.Errorf("pair %d: %d visits since %v, want %d", pair, got.Visits, got.Since, visits)
			}
		}
		t.Logf("of %d visits %d are unknown and %d moved", pairs*visits, unknown, moved)
	})
}

// compareFlows reports differences of a simulation from the model. The part of a draw is rounded.
func compareFlows(t *testing.T, pair int, got *stats.Simulation, want modelFlows) {
	t.Helper()
	flows, sum, moved := map[[2]string]float64{}, got.Unknown, int64(0)
	for _, f := range got.Flows {
		flows[[2]string{nameOf(f.From), nameOf(f.To)}] += float64(f.Visits)
		sum += f.Visits
		if f.From.URL != f.To.URL {
			moved += f.Visits
		}
	}
	if got.Unknown != want.unknown || sum != got.Visits || moved != got.Moved {
		t.Errorf("pair %d: %d of %d visits are unknown, want %d; %d in all, and %d moved, want %d", pair, got.Unknown,
			got.Visits, want.unknown, sum, got.Moved, moved)
	}
	if got.Unknown > 0 && len(got.UnknownBecause) == 0 {
		t.Errorf("pair %d: no reason why visits are unknown", pair)
	}
	for ends := range want.flows {
		flows[ends] += 0
	}
	for ends, n := range flows {
		most := 1.0
		if math.Abs(want.flows[ends]-math.Round(want.flows[ends])) < 1e-6 { // there is nothing to round
			most = 1e-6
		}
		if math.Abs(n-want.flows[ends]) >= most {
			t.Errorf("pair %d: %v has %g visits, want %g", pair, ends, n, want.flows[ends])
		}
	}
}

// TestSimulate_RefusesWhatItCannotRead: a range with deleted clicks, and one in which schedules change
// too often.
func TestSimulate_RefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	b := clicktest.Setup(t, dbtest.MigratedSQLite(t))
	random := rand.New(rand.NewPCG(1, 1))
	other := &routing.Routing{}
	for i := range 3 {
		rule := anyRule(random, "o", i)
		rule.When = []*routing.Condition{{Weekly: &routing.WeeklySchedule{Timezone: "UTC", Days: routing.Weekdays[:],
			From: "01:00", To: fmt.Sprintf("02:0%d", i)}}}
		other.Rules = append(other.Rules, rule)
	}
	simulate := func(days int) error {
		r := &clickstore.Range{From: clicktest.Noon.AddDate(0, 0, -days), To: clicktest.Noon}
		s := must.Value(b.Stats.Stats(t.Context(), b.Member, clickstore.Subject{LinkID: "lnk_1"}, r, "",
			clickstore.Filter{}))(t)
		_, err := s.Simulate(t.Context(), ownURL, nil, other)
		return err
	}
	if err := simulate(300); err != nil {
		t.Error(err)
	}
	if err := simulate(3000); !errs.Is(err, errs.InvalidInput) || errs.From(err).Field[0] != "range" {
		t.Errorf("too many changes: %v", err)
	}
}
