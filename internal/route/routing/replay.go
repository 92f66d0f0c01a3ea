package routing

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Replay decides about recorded visits. A click does not store all facts of a decision, so that a
// rule holds, fails, or may do either. A Replay is for one goroutine.
type Replay struct {
	// held is why visits of the clicks may not reach the rules, heldBots the same of bots.
	held, heldBots []Missing
	rules          []replayedRule
	// schedules are the distinct conditions on time, without isUnless.
	schedules []ruleCondition
	// languages are the forms in conditions on languages. The addresses are in all networks of
	// conditions, and outside of them.
	languages []string
	addresses []netip.Addr
}

// replayedRule is an enabled rule.
type replayedRule struct {
	*Rule
	index      int
	conditions []ruleCondition
}

// Missing is something that clicks do not store and decisions depend on, or that a Replay ignores. Its
// text is a sentence for users.
type Missing string

// What may be missing, in the order of reports.
const (
	MissingVisitor  Missing = "Visitors who opt out of profiling: their clicks store nothing about them."
	MissingPath     Missing = "The path after the code, which would no longer be forwarded: clicks do not store it."
	MissingGate     Missing = "Whether visitors pass the gate, which would be another one."
	MissingBot      Missing = "Bots: whether they are held back, or shown the card."
	MissingQuery    Missing = "Conditions on query: clicks do not store the parameters of the short URL."
	MissingNetwork  Missing = "Conditions on network: clicks do not store addresses."
	MissingLanguage Missing = "Conditions on language: clicks store the first language only, without its region."
	IgnoredCap      Missing = "maxClicks of targets is ignored."
	IgnoredCookie   Missing = "Stickiness is ignored: targets are drawn as for new visitors."
)

// AllMissing lists what may be missing, in the order of reports.
var AllMissing = []Missing{
	MissingVisitor, MissingPath, MissingGate, MissingBot, MissingQuery, MissingNetwork, MissingLanguage, IgnoredCap,
	IgnoredCookie,
}

// NewReplay returns the replay of a checked routing, on clicks of a link with the present one. That a
// visitor has passed what both have in common needs no proof: the click shows it.
func NewReplay(r, present *Routing) *Replay {
	r, present = OrDefaults(r), OrDefaults(present)
	p := &Replay{addresses: []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}}
	if present.ForwardPath && !r.ForwardPath {
		p.held = append(p.held, MissingPath)
	}
	if r.Gate != nil && (present.Gate == nil || !r.Gate.equal(present.Gate)) {
		p.held = append(p.held, MissingGate)
	}
	if r.Bots == BlockBots || r.Bots == ConfirmBots && present.Bots != ConfirmBots ||
		r.Card != nil && present.Card == nil {
		p.heldBots = []Missing{MissingBot}
	}
	for i, rule := range r.Rules {
		if rule.isEnabled() {
			p.add(i, rule)
		}
	}
	return p
}

func (p *Replay) add(index int, rule *Rule) {
	one := replayedRule{Rule: rule, index: index}
	for i, c := range rule.conditions() {
		k := ruleCondition{c.kind(), i >= len(rule.When), FlatReader(appendCondition(nil, c))}
		one.conditions = append(one.conditions, k)
		switch k.kind {
		case onDuring, onWeekly:
			if k.isUnless = false; !slices.Contains(p.schedules, k) {
				p.schedules = append(p.schedules, k)
			}
		case onNetwork:
			for _, network := range c.Network {
				p.addresses = append(p.addresses, edges(network)...)
			}
		case onLanguage:
			for values := k.values; len(values) > 0; {
				if form := values.Text(); form != "" {
					p.languages = append(p.languages, form)
				}
			}
		}
	}
	p.rules = append(p.rules, one)
}

// edges returns the first address of a network, and the first one behind it.
func edges(network string) []netip.Addr {
	prefix, err := ParseNetwork(network)
	if err != nil { // package check refuses it
		return nil
	}
	last := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(last)*8; bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	return slices.DeleteFunc([]netip.Addr{prefix.Addr(), end.Next()}, func(a netip.Addr) bool { return !a.IsValid() })
}

// Values returns the values in conditions of a name in the GraphQL schema, in lower case: clicks with
// other values are alike. They are nil if each value matters. It returns false for a name that no
// condition has.
func (p *Replay) Values(name string) (values []string, isCompared bool) {
	for _, r := range p.rules {
		for _, k := range r.conditions {
			if conditionNames[k.kind] != name {
				continue
			}
			if isCompared = true; k.kind == onLanguage {
				return nil, true
			}
			for list := k.values; len(list) > 0; {
				values = append(values, strings.ToLower(list.Text()))
			}
		}
	}
	return values, isCompared
}

// Choice is the result of the rules for a recorded visit.
type Choice struct {
	// Missing is not empty if such visits end differently, depending on it. Then nothing else is set.
	Missing []Missing
	// Rule is the position of the rule; -1 means the link's own URL.
	Rule int
	// Targets are the positions of the targets that the draw may choose; of several, by their shares.
	Targets []int
	// Ignored is what could lead to another target.
	Ignored []Missing
}

// Choose decides about a visit of a click at an instant. Of the visitor's languages, Visit has the
// first one, as the click stores it.
func (p *Replay) Choose(v *Visit, at time.Time) Choice {
	held := p.held
	if v.Bot {
		held = slices.Concat(held, p.heldBots)
	}
	if len(held) > 0 {
		return Choice{Missing: held}
	}
	for i := range p.rules {
		switch holds, missing := p.try(&p.rules[i], v, at); {
		case len(missing) > 0: // a later rule would lead to another target
			return Choice{Missing: missing}
		case holds:
			return p.rules[i].choose(v.Bot)
		}
	}
	return Choice{Rule: -1}
}

// try reports whether a rule holds for a visit, or what that depends on.
func (p *Replay) try(rule *replayedRule, v *Visit, at time.Time) (holds bool, missing []Missing) {
	r, open := Request{Now: at, Visit: *v}, map[byte][]ruleCondition{}
	for _, k := range rule.conditions {
		switch k.kind {
		case onQuery, onNetwork, onLanguage:
			open[k.kind] = append(open[k.kind], k)
		default:
			if matches(k.kind, k.values, &r, "") == k.isUnless {
				return false, nil
			}
		}
	}
	for kind, conditions := range open {
		some, all := false, true
		for _, w := range p.worlds(kind, conditions, v) {
			holds := !slices.ContainsFunc(conditions, func(k ruleCondition) bool {
				return matches(k.kind, k.values, &w.Request, w.language) == k.isUnless
			})
			some, all = some || holds, all && holds
		}
		if !some {
			return false, nil
		}
		if !all {
			missing = append(missing, missingOf[kind])
		}
	}
	return len(missing) == 0, missing
}

var missingOf = map[byte]Missing{onQuery: MissingQuery, onNetwork: MissingNetwork, onLanguage: MissingLanguage}

// world has a fact that a click may not store: a query, an address, or the form of the language that
// decides.
type world struct {
	Request
	language string
}

// worlds returns one world for each combination in which the conditions of a kind, those of one rule,
// may hold or fail.
func (p *Replay) worlds(kind byte, conditions []ruleCondition, v *Visit) (all []world) {
	switch kind {
	case onQuery: // the fewest parameters that satisfy when, those that satisfy unless, and none
		when, unless := Request{Query: queryOf(conditions, false)}, Request{Query: queryOf(conditions, true)}
		return []world{{Request: when}, {Request: unless}, {}}
	case onNetwork:
		for _, address := range p.addresses {
			all = append(all, world{Request: Request{Visit: Visit{Address: address}}})
		}
		return all
	}
	for _, form := range p.forms(v) {
		all = append(all, world{language: form})
	}
	return all
}

// queryOf returns a query that satisfies each condition of when, or of unless.
func queryOf(conditions []ruleCondition, isUnless bool) string {
	var pieces []string
	for _, k := range conditions {
		if k.isUnless == isUnless {
			name, hasValue, value := k.values.Text(), k.values.Byte() == 1, k.values.Text()
			if !hasValue {
				value = "\x00" // which no condition names
			}
			pieces = append(pieces, url.QueryEscape(name)+"="+url.QueryEscape(value))
		}
	}
	return strings.Join(pieces, "&")
}

// forms returns the shortest form of each language that may decide, see decidingLanguage. The
// recorded one decides if a condition names it without a region; otherwise it, or any that a
// condition names, may decide.
func (p *Replay) forms(v *Visit) []string {
	if len(v.Languages) == 0 {
		return []string{""}
	}
	first, _, _ := strings.Cut(languageForm(v.Languages[0], true), "-")
	isNamed := slices.Contains(p.languages, first)
	forms := []string{first}
	for _, form := range p.languages {
		if !isNamed || strings.HasPrefix(form, first+"-") {
			forms = append(forms, form)
		}
	}
	return forms
}

// choose returns the targets that a visit may get. Bots get the largest share.
func (r *replayedRule) choose(isBot bool) Choice {
	c := Choice{Rule: r.index}
	largest := -1
	for i, t := range r.Targets {
		if t.EffectiveShare() == 0 {
			continue
		}
		c.Targets = append(c.Targets, i)
		if largest < 0 || t.EffectiveShare() > r.Targets[largest].EffectiveShare() {
			largest = i
		}
	}
	if isBot {
		c.Targets = []int{largest}
	}
	if slices.ContainsFunc(c.Targets, func(i int) bool { return r.Targets[i].MaxClicks != nil }) {
		c.Ignored = append(c.Ignored, IgnoredCap)
	}
	if len(c.Targets) > 1 && r.Stickiness != NotSticky {
		c.Ignored = append(c.Ignored, IgnoredCookie)
	}
	return c
}

// DrawsLike reports whether two rules draw from the same targets by the same shares, so that a
// visitor who got a target of one gets it of the other.
func (r *Rule) DrawsLike(other *Rule) bool {
	return r.Stickiness == other.Stickiness && slices.EqualFunc(r.Targets, other.Targets, func(a, b *Target) bool {
		return a.ID == b.ID && a.EffectiveShare() == b.EffectiveShare()
	})
}

// Phase is a span of time without a change of a condition on time. It ends where the next one begins.
// In phases with the same number, the same conditions hold.
type Phase struct {
	From   time.Time
	Number int
}

// Phases divides a range. It returns false if there are more than some changes.
func (p *Replay) Phases(from, to time.Time, most int) (phases []Phase, ok bool) {
	cuts := []time.Time{from}
	for _, k := range p.schedules {
		if cuts = append(cuts, k.changes(from, to)...); len(cuts) > most {
			return nil, false
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	numbers := map[string]int{}
	for _, cut := range cuts {
		holding := make([]byte, len(p.schedules))
		for i, k := range p.schedules {
			holding[i] = boolByte(k.holdsAt(cut))
		}
		n, known := numbers[string(holding)]
		if !known {
			n = len(numbers)
			numbers[string(holding)] = n
		}
		if last := len(phases) - 1; last < 0 || phases[last].Number != n {
			phases = append(phases, Phase{cut, n})
		}
	}
	return phases, true
}

// holdsAt reports whether a condition on time holds.
func (k *ruleCondition) holdsAt(at time.Time) bool {
	return matches(k.kind, k.values, &Request{Now: at}, "")
}

// changes returns the instants in a range at which a condition on time begins or ceases to hold.
func (k *ruleCondition) changes(from, to time.Time) (all []time.Time) {
	if k.kind == onDuring {
		for values := k.values; len(values) > 0; {
			if at := time.UnixMicro(int64(values.Number(8))).UTC(); at.After(from) && at.Before(to) {
				all = append(all, at)
			}
		}
		return all
	}
	w := readWeekly(k.values)
	if w.zone == nil {
		return nil
	}
	holds := w.holds(from)
	for at := w.next(from); at.Before(to); at = w.next(at) {
		if w.holds(at) != holds {
			holds = !holds
			all = append(all, at)
		}
	}
	return all
}

// next returns a later instant, before which the result of holds is the same. It is a bound of the
// window, a midnight, or a change of the clock.
func (w *weekly) next(at time.Time) time.Time {
	local := at.In(w.zone)
	minute := local.Hour()*60 + local.Minute()
	wait := MinutesOfDay - minute
	for _, bound := range []int{w.from, w.to} {
		if bound > minute {
			wait = min(wait, bound-minute)
		}
	}
	next := at.Truncate(time.Minute).Add(time.Duration(wait) * time.Minute)
	if _, end := local.ZoneBounds(); !end.IsZero() && end.Before(next) {
		next = end
	}
	return next.UTC()
}
