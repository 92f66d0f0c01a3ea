package routing

// Trace is how the rules of a routing were tried, for package explain. The methods of a nil trace
// do nothing.
type Trace struct {
	// Language is the tag that decides, see decidingLanguage.
	Language string
	// Rules are the enabled rules that were tried, in their order; RuleCount is the number of all
	// rules.
	Rules     []TriedRule
	RuleCount int
	// HasUTM, HasQuery and HasPath mean that the location has these in addition to the destination.
	HasUTM, HasQuery, HasPath bool
	// Locations are those of the candidates of the rule that holds.
	Locations []string

	destinations []string // of the candidates
}

// TriedRule is an enabled rule that was tried.
type TriedRule struct {
	// Index is the position of the rule.
	Index int
	// Failed is the name of the condition that does not hold; empty for a rule that holds.
	// FailedIndex is its position in when and then unless; IsUnless means the latter.
	Failed      string
	FailedIndex int
	IsUnless    bool
	// Target is the position of the chosen target, -1 for none. IsCertain means that each such
	// visit gets it.
	Target    int
	IsCertain bool
	// Candidates are the positions of all targets that the draw may choose.
	Candidates []int
}

// DecideTraced is Decide, and reports how the rules were tried.
func DecideTraced(p *Program, r *Request) (Decision, *Trace) {
	t := &Trace{}
	return decide(p, r, t), t
}

// start begins a rule.
func (t *Trace) start(index int) {
	if t != nil {
		t.Rules = append(t.Rules, TriedRule{Index: index, Target: -1})
	}
}

// fail records the condition that does not hold.
func (t *Trace) fail(k *ruleCondition, position int) {
	if t != nil {
		rule := &t.Rules[len(t.Rules)-1]
		rule.Failed, rule.FailedIndex, rule.IsUnless = conditionNames[k.kind], position, k.isUnless
	}
}

// choose records the choice among the available targets of the rule.
func (t *Trace) choose(position int, isCertain bool, targets FlatReader, p *Program, r *Request) {
	if t == nil {
		return
	}
	rule := &t.Rules[len(t.Rules)-1]
	rule.Target, rule.IsCertain = position, isCertain
	for i := range int(targets.Byte()) {
		candidate := readTarget(&targets)
		if isCertain && i == position || !isCertain && candidate.isAvailable(r) {
			rule.Candidates = append(rule.Candidates, i)
			t.destinations = append(t.destinations, candidate.destination(p))
		}
	}
}

// locate records how the location is formed.
func (t *Trace) locate(f *forwarding, query, path string) {
	if t == nil {
		return
	}
	t.HasUTM, t.HasQuery, t.HasPath = len(f.added) > 0, !f.Mode.isOff() && query != "", path != ""
	for _, url := range t.destinations {
		t.Locations = append(t.Locations, f.form(url, query, path))
	}
}
