package stats

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// maxSimulated is how many clicks a simulation decides again, the newest ones.
	maxSimulated = 1_000_000
	// maxPhases bounds the statement that counts clicks by phases.
	maxPhases = 5000
)

// Simulation is what another routing would have done with the clicks of a link.
type Simulation struct {
	// Visits are the clicks that were decided again. Moved of them go elsewhere; with shares, it is
	// the expected number. Of Unknown of them, the stored attributes do not suffice.
	Visits, Moved, Unknown int64
	// UnknownBecause has the reasons, and what the simulation ignores.
	UnknownBecause []string
	// Since is the oldest click that was read; nil if the range has no older one.
	Since *time.Time
	// Flows are all other clicks, the most frequent first.
	Flows []Flow
}

// Flow is a number of clicks from one end to another, or the same.
type Flow struct {
	From, To End
	Visits   int64
}

// End is a target, or the link's own URL. Empty texts are unknown or absent: the IDs of a target that
// exists in a draft only, and the URL of one that exists no more.
type End struct{ RuleID, RuleName, TargetID, URL string }

// simulator decides clicks again.
type simulator struct {
	url            string // of the link
	present, other *routing.Routing
	replay         *routing.Replay
	flows          map[[2]End]int64
	draws          map[draw]int64
	missing        map[routing.Missing]bool
	Simulation
}

// draw is a number of clicks from an end that a rule of the other routing divides.
type draw struct {
	from End
	rule int
}

// Simulate decides the clicks of a link with a URL and a routing again, with another routing. Flows
// begin at the rule and the target that the click recorded. It returns InvalidInput for a range with deleted clicks, or
// with too many changes of schedules.
func (s *Stats) Simulate(ctx context.Context, url string, present, other *routing.Routing) (*Simulation, error) {
	sim := &simulator{
		url: url, present: routing.OrDefaults(present), other: routing.OrDefaults(other),
		replay: routing.NewReplay(other, present),
		flows:  map[[2]End]int64{}, draws: map[draw]int64{}, missing: map[routing.Missing]bool{},
	}
	phases, ok := sim.replay.Phases(s.From, s.To, maxPhases)
	if !ok {
		return nil, errs.New(errs.InvalidInput,
			"The conditions on time change more than %d times: use a shorter range.", maxPhases).At("range")
	}
	ctx, err := s.Member.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	if err := s.store.Clicks.CheckKept(ctx, s.Query); err != nil {
		return nil, err
	}
	oldest := s.To
	by := clickstore.Grouping{Newest: maxSimulated, By: sim.attributes(), Phases: phases}
	err = s.store.Clicks.Groups(ctx, s.Query, by, func(g *clickstore.Group) {
		oldest = clickstore.Earlier(oldest, g.ClickedAt)
		sim.add(g)
	})
	if err != nil {
		return nil, err
	}
	if sim.Visits == maxSimulated {
		total, err := s.Total(ctx)
		if err != nil {
			return nil, err
		}
		if total.Clicks > sim.Visits {
			sim.Since = &oldest
		}
	}
	sim.finish()
	return &sim.Simulation, nil
}

// attributes are what that clicks are grouped by: their end, what conditions compare, and
// the device, which every click has of a visitor who is no bot, and has not opted out of profiling.
func (sim *simulator) attributes() []clickstore.Attribute {
	by := []clickstore.Attribute{{Dimension: click.Rule}, {Dimension: click.Target}, {Dimension: click.Device}}
	for _, d := range click.VisitDimensions {
		if values, ok := sim.replay.Values(d.FilterName()); ok && d.Name != click.Device {
			by = append(by, clickstore.Attribute{Dimension: d.Name, Named: values})
		}
	}
	return by
}

// add decides the clicks of a group again.
func (sim *simulator) add(g *clickstore.Group) {
	sim.Visits += g.Clicks
	if !g.Bot && g.Device == "" {
		sim.addUnknown(g, routing.MissingVisitor)
		return
	}
	visit := routing.Visit{
		Country: g.Country, Device: g.Device, OS: g.OS, Browser: g.Browser, Referrer: g.Referrer, Bot: g.Bot,
	}
	if g.Language != "" {
		visit.Languages = []string{g.Language}
	}
	c := sim.replay.Choose(&visit, g.ClickedAt)
	if len(c.Missing) > 0 {
		sim.addUnknown(g, c.Missing...)
		return
	}
	from := sim.from(g.RuleID, g.TargetID)
	switch kept := sim.kept(&c, g); {
	case c.Rule < 0:
		sim.flows[[2]End{from, {URL: sim.url}}] += g.Clicks
	case kept >= 0:
		sim.flows[[2]End{from, sim.to(c.Rule, kept)}] += g.Clicks
	default:
		sim.note(c.Ignored)
		sim.draws[draw{from, c.Rule}] += g.Clicks
	}
}

func (sim *simulator) addUnknown(g *clickstore.Group, missing ...routing.Missing) {
	sim.Unknown += g.Clicks
	sim.note(missing)
}

func (sim *simulator) note(missing []routing.Missing) {
	for _, m := range missing {
		sim.missing[m] = true
	}
}

// kept returns the position of the target that the clicks of a group certainly get: the only one, or
// that of the click if the other routing draws like the present one. Otherwise it returns -1.
func (sim *simulator) kept(c *routing.Choice, g *clickstore.Group) int {
	if c.Rule < 0 {
		return -1
	}
	if len(c.Targets) == 1 {
		sim.note(c.Ignored)
		return c.Targets[0]
	}
	rule := sim.other.Rules[c.Rule]
	present := findRule(sim.present, rule.ID)
	if rule.ID != g.RuleID || present == nil || !rule.DrawsLike(present) {
		return -1
	}
	i := slices.IndexFunc(rule.Targets, func(t *routing.Target) bool { return t.ID == g.TargetID })
	if !slices.Contains(c.Targets, i) {
		return -1
	}
	return i
}

func findRule(r *routing.Routing, ruleID string) *routing.Rule {
	i := slices.IndexFunc(r.Rules, func(rule *routing.Rule) bool { return rule.ID == ruleID })
	if i < 0 {
		return nil
	}
	return r.Rules[i]
}

func findTarget(r *routing.Rule, targetID string) *routing.Target {
	if r == nil {
		return nil
	}
	i := slices.IndexFunc(r.Targets, func(t *routing.Target) bool { return t.ID == targetID })
	if i < 0 {
		return nil
	}
	return r.Targets[i]
}

// from returns the end that clicks recorded, with the present name and URL.
func (sim *simulator) from(ruleID, targetID string) End {
	if ruleID == "" {
		return End{URL: sim.url}
	}
	e, rule := End{RuleID: ruleID, TargetID: targetID}, findRule(sim.present, ruleID)
	if rule != nil {
		e.RuleName = optional.Value(rule.Name)
	}
	if target := findTarget(rule, targetID); target != nil {
		e.URL = optional.Or(target.URL, sim.url)
	}
	return e
}

// to returns a target of the other routing, with the IDs that it has in the present one.
func (sim *simulator) to(rule, target int) End {
	r := sim.other.Rules[rule]
	t := r.Targets[target]
	e := End{RuleName: optional.Value(r.Name), URL: optional.Or(t.URL, sim.url)}
	present := findRule(sim.present, r.ID)
	if present != nil {
		e.RuleID = r.ID
	}
	if findTarget(present, t.ID) != nil {
		e.TargetID = t.ID
	}
	return e
}

// finish divides the draws, and sums the flows up.
func (sim *simulator) finish() {
	for d, n := range sim.draws {
		for i, part := range divide(n, sim.other.Rules[d.rule].Targets) {
			if part > 0 {
				sim.flows[[2]End{d.from, sim.to(d.rule, i)}] += part
			}
		}
	}
	for ends, n := range sim.flows {
		sim.Flows = append(sim.Flows, Flow{ends[0], ends[1], n})
		if ends[0].URL != ends[1].URL {
			sim.Moved += n
		}
	}
	slices.SortFunc(sim.Flows, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.Visits, a.Visits), a.From.compare(b.From), a.To.compare(b.To))
	})
	sim.UnknownBecause = []string{}
	for _, m := range routing.AllMissing {
		if sim.missing[m] {
			sim.UnknownBecause = append(sim.UnknownBecause, string(m))
		}
	}
}

func (e End) compare(other End) int {
	return cmp.Or(strings.Compare(e.RuleID, other.RuleID), strings.Compare(e.RuleName, other.RuleName),
		strings.Compare(e.TargetID, other.TargetID), strings.Compare(e.URL, other.URL))
}

// divide divides clicks by the shares of targets. The parts are rounded so that they add up: those
// with the largest remainders are rounded up.
func divide(n int64, targets []*routing.Target) []int64 {
	parts, rests, order := make([]int64, len(targets)), make([]int64, len(targets)), make([]int, len(targets))
	sum, left := int64(0), n
	for _, t := range targets {
		sum += int64(t.EffectiveShare())
	}
	for i, t := range targets {
		product := n * int64(t.EffectiveShare())
		parts[i], rests[i], order[i] = product/sum, product%sum, i
		left -= parts[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rests[b], rests[a]) })
	for _, i := range order[:left] {
		parts[i]++
	}
	return parts
}
