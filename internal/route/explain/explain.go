// Package explain reports how a link decides about a visit, in sentences: for explainRedirect, and
// for the tests that members store with a routing. Package routing decides; it returns the reason
// and a trace of the rules.
//
// Package link calls Decision with the request that a sample describes.
package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/linkforge/linkforge/internal/route/routing"
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

// beforeRules are the steps before the rules, each with the sentence for a step that passes, and
// the sentences for the reasons of its decisions.
var beforeRules = [...]struct {
	step    StepKind
	passed  string
	decides map[routing.Reason]string
}{
	{StepAddress, "The path after the code is accepted.", map[routing.Reason]string{
		routing.PathRefused: "The path after the code is not forwarded, or is refused.",
	}},
	{StepWorkspace, "The workspace is not deleted.", map[routing.Reason]string{
		routing.WorkspaceDeleted: "The workspace is deleted.",
	}},
	{StepModeration, "The operator has not disabled the link.", map[routing.Reason]string{
		routing.LinkDisabled: "The operator has disabled the link.",
	}},
	{StepDeletion, "The link is not deleted.", map[routing.Reason]string{routing.LinkDeleted: "The link is deleted."}},
	{StepPending, "The link has started.", map[routing.Reason]string{routing.Pending: "The link starts later."}},
	{StepEnded, "The link has not expired.", map[routing.Reason]string{routing.LinkExpired: "The link has expired."}},
	{StepAutomation, "The visit is not held back as automated.", map[routing.Reason]string{
		routing.ShowsCard: "A preview crawler is shown the card.",
		routing.BotHeld:   "The visit is held back as automated.",
	}},
	{StepGate, "The gate is passed.", map[routing.Reason]string{routing.GateNotPassed: "The gate is not passed."}},
	{StepLimits, "Neither maxClicks nor the monthly hit quota is used up.", map[routing.Reason]string{
		routing.LinkExhausted: "The link has reached its maxClicks.",
		routing.QuotaUsedUp:   "The monthly hit quota is used up.",
	}},
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
	// RuleIndex is the position of the rule, ConditionIndex that of the condition that decided it,
	// in when and then unless; nil for steps that are not about one.
	RuleIndex, ConditionIndex *int
	// Detail is one sentence.
	Detail string
}

// Explanation is the answer of a link to a visit, and the reason.
type Explanation struct {
	Status   int
	Location *string
	Reason   routing.Reason
	// Consumes means that the answer consumes a click, a hit and, with MaxClicks, a grant.
	Consumes bool
	// RuleIndex and TargetIndex are the positions of the rule that decided and of its target.
	RuleIndex, TargetIndex *int
	// Candidates are the positions of all targets that the draw may choose.
	Candidates []int
	Visit      routing.Visit
	Steps      []Step

	// locations are those of the candidates.
	locations []string
}

// Decision explains the answer to a request, with each step up to the one that decides. It needs no
// fact: of a draw without a seed, the candidate with the largest share is returned.
func Decision(p *routing.Program, r *routing.Request) *Explanation {
	request := *r
	request.AssumeGrants = true
	if len(r.Visit.Languages) > 0 {
		request.Visit.Language = r.Visit.Languages[0]
	}
	d, t := routing.DecideTraced(p, &request)
	if t.Language != "" {
		request.Visit.Language = t.Language
	}
	e := &Explanation{
		Status: d.Status, Reason: d.Reason, Visit: request.Visit, Consumes: d.Page == routing.Redirect,
		locations: t.Locations,
	}
	if d.Location != "" {
		e.Location = &d.Location
	}
	if len(e.locations) == 0 && e.Location != nil {
		e.locations = []string{*e.Location}
	}
	switch isDecided := e.addBeforeRules(p, &request, &d); {
	case isDecided:
	case p.Compiled == "":
		e.add(StepLocation, Applied, "It is the link's own URL.")
	default:
		e.addRules(t, &request)
		e.addLocation(t, d.Source)
	}
	return e
}

func (e *Explanation) add(step StepKind, outcome Outcome, detail string) {
	e.Steps = append(e.Steps, Step{Step: step, Outcome: outcome, Detail: detail})
}

// addBeforeRules adds the steps before the rules. It reports whether one of them decides.
func (e *Explanation) addBeforeRules(p *routing.Program, r *routing.Request, d *routing.Decision) bool {
	for _, s := range beforeRules {
		if detail, ok := s.decides[d.Reason]; ok {
			if d.Location != "" {
				detail += " Visitors are redirected to a fallback URL."
			}
			e.add(s.step, Applied, detail)
			return true
		}
		if detail := skipped(s.step, p, r); detail != "" {
			e.add(s.step, Skipped, detail)
		} else {
			e.add(s.step, Passed, s.passed)
		}
	}
	return false
}

// skipped returns why a step before the one that decides does not apply to the link; empty if it
// does.
func skipped(step StepKind, p *routing.Program, r *routing.Request) string {
	_, hasGate := p.Compiled.Gate()
	switch {
	case step == StepAutomation && !p.HoldsBots():
		return "The link answers bots like other visitors."
	case step == StepGate && !hasGate:
		return "The link has no gate."
	case step == StepGate && r.Gate != routing.GatePassed:
		return "An ended link shows no gate."
	}
	return ""
}

// addRules adds the rules up to the one that decides, with the choice of its target.
func (e *Explanation) addRules(t *routing.Trace, r *routing.Request) {
	add := func(step StepKind, outcome Outcome, rule int, format string, args ...any) {
		e.Steps = append(e.Steps,
			Step{Step: step, Outcome: outcome, RuleIndex: &rule, Detail: fmt.Sprintf(format, args...)})
	}
	next := 0
	addDisabled := func(end int) {
		for ; next < end; next++ {
			add(StepRule, Skipped, next, "The rule is disabled.")
		}
		next = end + 1
	}
	for _, rule := range t.Rules {
		addDisabled(rule.Index)
		if rule.Failed != "" {
			verb := "does not hold"
			if rule.IsUnless {
				verb = "holds, and must not"
			}
			add(StepRule, Skipped, rule.Index, "The condition on %s %s: %s.", rule.Failed, verb,
				reading(rule.Failed, r))
			e.Steps[len(e.Steps)-1].ConditionIndex = new(rule.FailedIndex)
			continue
		}
		add(StepRule, Applied, rule.Index, "The rule holds.")
		switch {
		case rule.Target < 0:
			add(StepTarget, Skipped, rule.Index,
				"All targets are paused or have reached their maxClicks: the next rule is tried.")
			continue
		case rule.IsCertain:
			add(StepTarget, Applied, rule.Index, "The target is certain for this visit.")
		default:
			add(StepTarget, Applied, rule.Index, "The target is drawn by share from %d.", len(rule.Candidates))
		}
		e.RuleIndex, e.TargetIndex, e.Candidates = new(rule.Index), new(rule.Target), rule.Candidates
		return
	}
	addDisabled(t.RuleCount)
}

// addLocation adds how the location is formed.
func (e *Explanation) addLocation(t *routing.Trace, source string) {
	var parts []string
	if t.HasUTM {
		parts = append(parts, "UTM values")
	}
	if t.HasQuery {
		parts = append(parts, "the forwarded query")
	}
	if t.HasPath {
		parts = append(parts, "the path")
	}
	detail := "It is the destination as given."
	if len(parts) > 0 {
		detail = "It is the destination with " + strings.Join(parts, ", ") + "."
	}
	if source != "" {
		detail += " The visit is a scan of the QR code " + source + "."
	}
	e.add(StepLocation, Applied, detail)
}

// reading describes the value that a condition compares.
func reading(condition string, r *routing.Request) string {
	v := &r.Visit
	switch condition {
	case "bot":
		return "bot is " + strconv.FormatBool(v.Bot)
	case "country":
		return known("the country", v.Country)
	case "device":
		return known("the device", v.Device)
	case "os":
		return known("the operating system", v.OS)
	case "browser":
		return known("the browser", v.Browser)
	case "language":
		return known("the language that decides", v.Language)
	case "referrer":
		return known("the referrer", v.Referrer)
	case "during", "weekly":
		return "the time is " + r.Now.UTC().Format("2006-01-02T15:04:05Z")
	case "query":
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

// Check compares an explanation with the expectation of a test. It returns the actual response of
// the link, or an empty text if the test passes. A draw passes if one of its candidates has the
// location.
func (e *Explanation) Check(t *routing.Test) string {
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
