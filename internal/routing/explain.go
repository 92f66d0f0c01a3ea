package routing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/linkforge/linkforge/internal/flat"
)

// Reason is why a link answers as it does. Its text is the name in the GraphQL schema.
type Reason string

// The reasons.
const (
	OwnURL           Reason = "URL"
	ByRule           Reason = "RULE"
	Pending          Reason = "PENDING"
	LinkExpired      Reason = "EXPIRED"
	LinkExhausted    Reason = "EXHAUSTED"
	QuotaUsedUp      Reason = "OVER_QUOTA"
	GateNotPassed    Reason = "GATE"
	BotHeld          Reason = "BOT"
	PathRefused      Reason = "PATH"
	LinkDeleted      Reason = "DELETED"
	LinkDisabled     Reason = "DISABLED"
	WorkspaceDeleted Reason = "WORKSPACE_DELETED"
	ShowsCard        Reason = "CARD"
)

// StepKind is a step of the decision. Its text is the name in the GraphQL schema.
type StepKind string

// The steps, in their order.
const (
	StepAddress    StepKind = "ADDRESS"
	StepWorkspace  StepKind = "WORKSPACE"
	StepModeration StepKind = "MODERATION"
	StepDeletion   StepKind = "DELETION"
	StepPending    StepKind = "PENDING"
	StepEnded      StepKind = "ENDED"
	StepAutomation StepKind = "AUTOMATION"
	StepGate       StepKind = "GATE"
	StepLimits     StepKind = "LIMITS"
	StepRule       StepKind = "RULE"
	StepTarget     StepKind = "TARGET"
	StepLocation   StepKind = "LOCATION"
)

// beforeRules are the steps before the rules, each with the sentence for one that passes.
var beforeRules = [...]struct {
	step   StepKind
	passed string
}{
	{StepAddress, "The path after the code is accepted."},
	{StepWorkspace, "The workspace is not deleted."},
	{StepModeration, "The operator has not disabled the link."},
	{StepDeletion, "The link is not deleted."},
	{StepPending, "The link has started."},
	{StepEnded, "The link has not expired."},
	{StepAutomation, "The visit is not held back as automated."},
	{StepGate, "The gate is passed."},
	{StepLimits, "Neither maxClicks nor the monthly hit quota is used up."},
}

// applied are the sentences for the step that decides.
var applied = map[Reason]string{
	PathRefused:      "The path after the code is not forwarded, or is refused.",
	WorkspaceDeleted: "The workspace is deleted.",
	LinkDisabled:     "The operator has disabled the link.",
	LinkDeleted:      "The link is deleted.",
	Pending:          "The link starts later.",
	LinkExpired:      "The link has expired.",
	LinkExhausted:    "The link has reached its maxClicks.",
	QuotaUsedUp:      "The monthly hit quota is used up.",
	ShowsCard:        "A preview crawler is shown the card.",
	GateNotPassed:    "The gate is not passed.",
	BotHeld:          "The visit is held back as automated.",
}

// Outcome is the outcome of a step. Its text is the name in the GraphQL schema.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "PASSED"
	Applied Outcome = "APPLIED"
	Skipped Outcome = "SKIPPED"
)

// Step is one step of a decision.
type Step struct {
	Step    StepKind
	Outcome Outcome
	// RuleIndex is the position of the rule, ConditionIndex that of the condition that decided it, in
	// when and then unless; nil for steps that are not about one.
	RuleIndex, ConditionIndex *int
	// Detail is one sentence.
	Detail string
}

// Explanation is the answer of a link to a visit, and the reason.
type Explanation struct {
	Status   int
	Location *string
	Reason   Reason
	// Consumes means that the answer consumes a click, a hit and, with MaxClicks, a grant.
	Consumes bool
	// RuleIndex and TargetIndex are the positions of the rule that decided and of its target.
	RuleIndex, TargetIndex *int
	// Candidates are the positions of all targets that the draw may choose.
	Candidates []int
	Visit      Visit
	Steps      []Step

	// locations are those of the candidates.
	locations []string
}

// Explain returns the answer to a request, with each step up to the one that decides. It needs no fact:
// visits whose kind is not set are neither first nor returning, and of a draw without a seed the
// candidate with the largest share is returned.
func Explain(p *Program, r *Request) *Explanation {
	request := *r
	request.AssumeGrants = true
	if request.VisitKind == "" {
		request.VisitKind = NoKind
	}
	if len(r.Visit.Languages) > 0 {
		request.Visit.Language = r.Visit.Languages[0]
	}
	t := &trace{program: p, request: &request}
	d := decide(p, &request, t)
	e := &t.Explanation
	e.Status, e.Reason, e.Visit, e.Consumes = d.Status, d.Reason, request.Visit, d.Page == Redirect
	if d.Location != "" {
		e.Location = &d.Location
	}
	if len(e.locations) == 0 && e.Location != nil {
		e.locations = []string{*e.Location}
	}
	return e
}

// trace collects the steps of a decision. The methods of a nil trace do nothing.
type trace struct {
	Explanation
	program *Program
	request *Request

	next  int // the first rule that has no step yet
	rule  int
	urls  []string // of the candidates
	isRun bool     // the steps before the rules have been added
}

func (t *trace) add(s Step) { t.Steps = append(t.Steps, s) }

// passTo adds the steps before one.
func (t *trace) passTo(step StepKind) {
	for _, s := range beforeRules {
		if s.step == step {
			return
		}
		if detail := t.skipped(s.step); detail != "" {
			t.add(Step{Step: s.step, Outcome: Skipped, Detail: detail})
			continue
		}
		t.add(Step{Step: s.step, Outcome: Passed, Detail: s.passed})
	}
}

// skipped returns why a step before the one that decides does not apply to the link; empty if it does.
func (t *trace) skipped(step StepKind) string {
	switch {
	case step == StepAutomation && !t.program.holdsBots():
		return "The link answers bots like other visitors."
	case step == StepGate && !t.program.Compiled.has(hasGate):
		return "The link has no gate."
	case step == StepGate && t.request.Gate != GatePassed:
		return "An ended link shows no gate."
	}
	return ""
}

// addDeciding adds the step that decides.
func (t *trace) addDeciding(step StepKind, d Decision) Decision {
	if t != nil {
		t.passTo(step)
		detail := applied[d.Reason]
		if d.Location != "" {
			detail += " Visitors are redirected to a fallback URL."
		}
		t.add(Step{Step: step, Outcome: Applied, Detail: detail})
	}
	return d
}

// addOwnURL adds the steps of a link without routing.
func (t *trace) addOwnURL() {
	if t != nil {
		t.passTo("")
		t.add(Step{Step: StepLocation, Outcome: Applied, Detail: "It is the link's own URL."})
	}
}

// setLanguage sets the language that decides.
func (t *trace) setLanguage(tag string) {
	if t != nil {
		t.request.Visit.Language = tag
	}
}

// startRule begins a rule, and skips the disabled ones before it.
func (t *trace) startRule(index int) {
	if t == nil {
		return
	}
	if !t.isRun {
		t.isRun = true
		t.passTo("")
	}
	for ; t.next < index; t.next++ {
		t.add(Step{Step: StepRule, Outcome: Skipped, RuleIndex: new(t.next), Detail: "The rule is disabled."})
	}
	t.next, t.rule = index+1, index
}

// addFailedCondition adds a rule that does not hold because of a condition.
func (t *trace) addFailedCondition(kind, position byte, isUnless bool, r *Request) {
	if t == nil {
		return
	}
	verb := "does not hold"
	if isUnless {
		verb = "holds, and must not"
	}
	t.add(Step{
		Step: StepRule, Outcome: Skipped, RuleIndex: new(t.rule), ConditionIndex: new(int(position)),
		Detail: fmt.Sprintf("The condition on %s %s: %s.", conditionNames[kind], verb, r.reading(kind)),
	})
}

// addMatchedRule adds a rule that holds.
func (t *trace) addMatchedRule() {
	if t != nil {
		t.add(Step{Step: StepRule, Outcome: Applied, RuleIndex: new(t.rule), Detail: "The rule holds."})
	}
}

// addNoTarget adds that a rule has no target for the visit.
func (t *trace) addNoTarget() {
	if t != nil {
		t.add(Step{
			Step: StepTarget, Outcome: Skipped, RuleIndex: new(t.rule),
			Detail: "All targets are paused or have reached their maxClicks: the next rule is tried.",
		})
	}
}

// addTarget adds the choice among the available targets.
func (t *trace) addTarget(position int, isCertain bool, targets flat.Reader, p *Program, r *Request) {
	if t == nil {
		return
	}
	detail := "The target is certain for this visit."
	t.RuleIndex, t.TargetIndex = new(t.rule), new(position)
	for i := range int(targets.Byte()) {
		candidate := readTarget(&targets)
		if isCertain && i == position || !isCertain && candidate.isAvailable(r) {
			t.Candidates = append(t.Candidates, i)
			t.urls = append(t.urls, candidate.destination(p))
		}
	}
	if !isCertain {
		detail = fmt.Sprintf("The target is drawn by share from %d.", len(t.Candidates))
	}
	t.add(Step{Step: StepTarget, Outcome: Applied, RuleIndex: new(t.rule), Detail: detail})
}

// addLocation adds how the location is formed.
func (t *trace) addLocation(f *forwarding, count byte, source, query, path string) {
	if t == nil {
		return
	}
	if t.RuleIndex == nil {
		t.startRule(int(count))
	}
	var parts []string
	if len(f.added) > 0 {
		parts = append(parts, "UTM values")
	}
	if !f.Mode.isOff() && query != "" {
		parts = append(parts, "the forwarded query")
	}
	if path != "" {
		parts = append(parts, "the path")
	}
	detail := "It is the destination as given."
	if len(parts) > 0 {
		detail = "It is the destination with " + strings.Join(parts, ", ") + "."
	}
	if source != "" {
		detail += " The visit is a scan of the QR code " + source + "."
	}
	t.add(Step{Step: StepLocation, Outcome: Applied, Detail: detail})
	for _, url := range t.urls {
		t.locations = append(t.locations, f.form(url, query, path))
	}
}

// reading describes what a kind of condition sees of the request.
func (r *Request) reading(kind byte) string {
	v := &r.Visit
	switch kind {
	case onBot:
		return "bot is " + strconv.FormatBool(v.Bot)
	case onCountry:
		return known("the country", v.Country)
	case onDevice:
		return known("the device", v.Device)
	case onOS:
		return known("the operating system", v.OS)
	case onBrowser:
		return known("the browser", v.Browser)
	case onLanguage:
		return known("the language that decides", v.Language)
	case onReferrer:
		return known("the referrer", v.Referrer)
	case onDuring, onWeekly:
		return "the time is " + r.Now.UTC().Format("2006-01-02T15:04:05Z")
	case onVisit:
		if r.VisitKind == NoKind || r.Visit.Bot || r.Visit.Private {
			return "it is not known whether the visit is the first of the day"
		}
		return "the visit is " + string(r.VisitKind)
	case onQuery:
		return "the query is " + strconv.Quote(r.Query)
	}
	if !v.Address.IsValid() {
		return "the address is not known"
	}
	return "the address is " + v.Address.String()
}

func known(what, value string) string {
	if value == "" {
		return what + " is not known"
	}
	return what + " is " + strconv.Quote(value)
}

// Check compares an explanation with what a test expects. It returns what the link answers instead, or
// an empty text if the test passes. A draw passes if one of its candidates has the location.
func (e *Explanation) Check(t *Test) string {
	got := "no Location"
	if e.Location != nil {
		got = "Location " + *e.Location
	}
	isExpected := t.Status == nil || *t.Status == e.Status
	if t.Location != nil {
		isExpected = isExpected && slices.Contains(e.locations, *t.Location)
	}
	if isExpected {
		return ""
	}
	return fmt.Sprintf("status %d and %s, because of %s", e.Status, got, e.Reason)
}
