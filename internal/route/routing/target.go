package routing

import (
	"slices"
)

// cookiePrefix begins the names of the cookies that remember targets. The id of the rule follows.
const cookiePrefix = "lf_t_"

// CookieName returns the name of the cookie that remembers a target of the rule.
func CookieName(ruleID string) string { return cookiePrefix + ruleID }

// route chooses a target by the rules, and forms the location.
func (p *Program) route(r *Request, t *Trace) Decision {
	var buffer forwardingBuffer
	f, sources, count, rules := p.Compiled.open(&buffer)
	c := choice{url: p.Location, reason: OwnURL}
	var language visitLanguage
	if p.Compiled.ComparesLanguages() {
		language = decidingLanguage(r.Visit.Languages, rules)
	}
	if t != nil {
		t.Language, t.RuleCount = language.tag, int(count)
	}
	for len(rules) > 0 {
		if chosen, ok := p.try(FlatReader(rules.Text()), r, language.form, t); ok {
			c = chosen
			break
		}
	}
	source, query := splitSource(sources, r.Query)
	path := r.Path
	if !p.ForwardsPath() { // it is a slash
		path = ""
	}
	d := Decision{
		Status: p.redirectStatus(r), Rule: c.rule, Target: c.target, Source: source, SetsCookie: c.setsCookie,
		Needs: c.needs, Reason: c.reason,
	}
	t.locate(&f, query, path)
	if c.needs == NeedNone && !p.hidesDestination(r) {
		d.Location = f.form(c.url, query, path)
	}
	return d
}

// form adds the values of UTM, the query and the path to a destination.
func (f *forwarding) form(destination, query, path string) string {
	if len(f.added) == 0 && path == "" && (f.Mode.isOff() || query == "") {
		return destination
	}
	return f.Location(destination, f.added, query, path)
}

// choice is a target of a rule, and a fact that the choice depends on.
type choice struct {
	rule, target, url string
	setsCookie        bool
	needs             Need
	reason            Reason
}

// try returns the target of a compiled rule; ok is false if the rule does not hold or has no
// available target.
func (p *Program) try(rule FlatReader, r *Request, language string, t *Trace) (c choice, ok bool) {
	index, stickiness, id := readRule(&rule)
	c.rule, c.reason = id, ByRule
	t.start(index)
	for i := range rule.Byte() {
		if k := readCondition(&rule); matches(k.kind, k.values, r, language) == k.isUnless {
			t.fail(&k, int(i))
			return c, false
		}
	}
	return p.choose(c, stickiness, rule, r, t)
}

// readRule reads a rule up to the number of its conditions, which follow.
func readRule(r *FlatReader) (index int, stickiness byte, id string) {
	index, stickiness = int(r.Byte()), r.Byte()
	return index, stickiness, r.Text()
}

// ruleCondition is a condition of a compiled rule.
type ruleCondition struct {
	kind     byte
	isUnless bool
	values   FlatReader
}

func readCondition(r *FlatReader) (k ruleCondition) {
	k.kind, k.isUnless = r.Byte(), r.Byte() == 1
	k.values = FlatReader(r.Text())
	return k
}

// target is a destination of a compiled rule.
type target struct {
	id, url   string
	hash      uint64
	share     int
	maxClicks int64
}

func readTarget(r *FlatReader) (t target) {
	t.id, t.hash = r.Text(), r.Number(8)
	t.share, t.maxClicks = int(r.Number(2)), int64(r.Number(8))
	t.url = r.Text()
	return t
}

// destination returns the URL, which may be the link's own.
func (t *target) destination(p *Program) string {
	if t.url == "" {
		return p.Location
	}
	return t.url
}

// isAvailable reports whether visitors may get the target.
func (t *target) isAvailable(r *Request) bool {
	return t.share > 0 && (t.maxClicks == 0 || !slices.Contains(r.ExhaustedTargets, t.id))
}

// choose chooses one of the available targets of a rule, which follow in targets.
func (p *Program) choose(c choice, stickiness byte, targets FlatReader, r *Request, t *Trace) (choice, bool) {
	chosen, position, isCertain := p.draw(c.rule, stickiness, targets, r)
	if position < 0 {
		return c, false
	}
	t.choose(position, isCertain, targets, p, r)
	c.target, c.url = chosen.id, chosen.destination(p)
	if chosen.maxClicks != 0 && c.target != r.Granted && !r.Head && !r.AssumeGrants {
		c.needs = NeedGrant
	}
	c.setsCookie = stickiness == drawByCookie && !r.Head && !r.Visit.Bot && !r.Visit.Private
	return c, true
}
