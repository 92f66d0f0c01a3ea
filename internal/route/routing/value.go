package routing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/platform/optional"
)

// Routing is how a link answers visitors, beyond its URL, times and status. It is stored as JSON; a
// link with all defaults stores none.
type Routing struct {
	// Rules are tried in their order.
	Rules []*Rule `json:"rules,omitempty"`
	// Query is how parameters of the short URL reach the destination.
	Query Forwarding `json:"query,omitzero"`
	// ForwardPath appends the path after the code to the destination's.
	ForwardPath bool `json:"forwardPath,omitempty"`
	// UTM are added to the destination; nil means none.
	UTM *UTM `json:"utm,omitempty"`
	// PendingURL receives visitors before the start, EndedURL once the link is expired or
	// exhausted; nil means no URL.
	PendingURL *string `json:"pendingUrl,omitempty"`
	EndedURL   *string `json:"endedUrl,omitempty"`
	// Card is what preview crawlers are shown; nil means that they are answered like other bots.
	Card *Card `json:"card,omitempty"`
	// Gate is a page that visitors must pass; nil means none.
	Gate *Gate `json:"gate,omitempty"`
	// Bots is how bots are answered; stored routings have an empty one for RedirectBots.
	Bots BotPolicy `json:"bots,omitempty"`
	// QRSources are the names of QR codes whose scans are counted separately.
	QRSources []string `json:"qrSources,omitempty"`
	// Tests run before each change of the URL or the routing.
	Tests []*Test `json:"tests,omitempty"`
}

// Rule chooses a destination for visits that satisfy its conditions.
type Rule struct {
	// ID stays while the list of rules is edited: statistics are counted under it.
	ID string `json:"ruleId,omitempty"`
	// Name is unique in the link.
	Name *string `json:"name,omitempty"`
	// Enabled is nil in input for true. A disabled rule keeps its position, ID and statistics.
	Enabled *bool `json:"enabled,omitempty"`
	// When must all hold, Unless must all fail.
	When   []*Condition `json:"when,omitempty"`
	Unless []*Condition `json:"unless,omitempty"`
	// Targets are from 1 to 10.
	Targets []*Target `json:"targets"`
	// Stickiness is empty in input for NotSticky.
	Stickiness Stickiness `json:"stickiness,omitempty"`
}

// Target is a destination of a rule.
type Target struct {
	// ID stays while the target is edited.
	ID string `json:"targetId,omitempty"`
	// Name is unique in the rule.
	Name *string `json:"name,omitempty"`
	// URL is the destination; nil means the link's own.
	URL *string `json:"url,omitempty"`
	// Share is its part of the sum of all shares of the rule; zero pauses it. Nil in input means 1.
	Share *int `json:"share,omitempty"`
	// MaxClicks is how many redirects it ever answers; nil means any number.
	MaxClicks *int64 `json:"maxClicks,omitempty"`
}

// Condition is a condition on a visit: the one field that is not nil. A list holds when one of its
// values matches; an empty string matches an unknown value.
type Condition struct {
	// Country are ISO 3166-1 alpha-2, in upper case.
	Country []string `json:"country,omitzero"`
	Device  []string `json:"device,omitzero"`
	// OS and Browser are names as clicks store them, in upper or lower case.
	OS      []string `json:"os,omitzero"`
	Browser []string `json:"browser,omitzero"`
	// Language are BCP 47 tags, compared with the language that decides, see decidingLanguage.
	Language []string `json:"language,omitzero"`
	// Referrer are hosts; with a leading dot also all hosts below.
	Referrer []string        `json:"referrer,omitzero"`
	Query    *QueryCondition `json:"query,omitzero"`
	During   *Period         `json:"during,omitzero"`
	Weekly   *WeeklySchedule `json:"weekly,omitzero"`
	// Network are addresses and networks in CIDR notation.
	Network []string `json:"network,omitzero"`
	Bot     *bool    `json:"bot,omitzero"`
}

// QueryCondition is a parameter of the short URL, decoded. A nil value means any.
type QueryCondition struct {
	Name  string  `json:"name"`
	Value *string `json:"value,omitempty"`
}

// Period is a span of time, open at an end that is nil. To is the first instant after it.
type Period struct {
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
}

// WeeklySchedule are times of the week on the clock of an IANA time zone. From and To are HH:MM; if
// To is earlier, the window ends on the next day.
type WeeklySchedule struct {
	Timezone string    `json:"timezone"`
	Days     []Weekday `json:"days"`
	From     string    `json:"from"`
	To       string    `json:"to"`
}

// Weekday is the name of a day: MONDAY.
type Weekday string

// UTM are campaign parameters. Nil values are not added.
type UTM struct {
	Source   *string `json:"source,omitempty"`
	Medium   *string `json:"medium,omitempty"`
	Campaign *string `json:"campaign,omitempty"`
	Term     *string `json:"term,omitempty"`
	Content  *string `json:"content,omitempty"`
	// TemplateID is set in input only: the template whose values are copied.
	TemplateID *string `json:"templateId,omitempty"`
}

// utmNames are the parameters of UTM, in the order of values.
var utmNames = [...]string{"utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"}

// values returns pointers to the fields, in the order of utmNames.
func (u *UTM) values() [len(utmNames)]**string {
	return [...]**string{&u.Source, &u.Medium, &u.Campaign, &u.Term, &u.Content}
}

// Fill sets the values that are nil to those of another set.
func (u *UTM) Fill(from *UTM) {
	theirs := from.values()
	for i, value := range u.values() {
		if *value == nil {
			*value = *theirs[i]
		}
	}
}

// Test is a visit and its expected answer: a status, a location, or both.
type Test struct {
	Name     *string `json:"name,omitempty"`
	Visit    *Sample `json:"visit"`
	Status   *int    `json:"status,omitempty"`
	Location *string `json:"location,omitempty"`
}

// Sample is a visit to try. Nil fields are not known.
type Sample struct {
	At             *time.Time `json:"at,omitempty"`
	Country        *string    `json:"country,omitempty"`
	UserAgent      *string    `json:"userAgent,omitempty"`
	AcceptLanguage *string    `json:"acceptLanguage,omitempty"`
	Referrer       *string    `json:"referrer,omitempty"`
	// Query has no question mark, Path a leading slash.
	Query *string `json:"query,omitempty"`
	Path  *string `json:"path,omitempty"`
	// Address is an IPv4 or IPv6 address.
	Address *string `json:"address,omitempty"`
	// TargetID is the target that a cookie remembers.
	TargetID *string `json:"targetId,omitempty"`
	// Private means that the visitor sends DNT or Sec-GPC.
	Private bool `json:"private,omitempty"`
	// GatePassed is nil for true.
	GatePassed *bool `json:"gatePassed,omitempty"`
}

// PassesGate reports whether the gate is passed.
func (s *Sample) PassesGate() bool { return s.GatePassed == nil || *s.GatePassed }

// OrDefaults returns a copy of a routing with a value in every field; nil means all defaults.
func OrDefaults(r *Routing) *Routing {
	filled := &Routing{}
	if r != nil {
		*filled = *r
	}
	if filled.Query.Mode == "" {
		filled.Query.Mode = Off
	}
	if filled.Bots == "" {
		filled.Bots = RedirectBots
	}
	return filled
}

// IsPlain reports whether a link with this routing answers like one without.
func (r *Routing) IsPlain() bool {
	return r == nil || len(r.Rules) == 0 && r.Query.Mode.isOff() && !r.ForwardPath && r.UTM == nil &&
		r.PendingURL == nil && r.EndedURL == nil && r.Card == nil && r.Gate == nil && r.Bots.isDefault() &&
		len(r.QRSources) == 0 && len(r.Tests) == 0
}

// Equal reports whether two routings are the same value.
func (r *Routing) Equal(other *Routing) bool {
	if r == other || r == nil || other == nil {
		return r == other
	}
	a, errA := json.Marshal(r)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// MaxClicks returns the maxima of targets, by the ids of the targets.
func (r *Routing) MaxClicks() map[string]*int64 {
	maxima := map[string]*int64{}
	if r == nil {
		return maxima
	}
	for _, rule := range r.Rules {
		for _, target := range rule.Targets {
			if target.MaxClicks != nil {
				maxima[target.ID] = target.MaxClicks
			}
		}
	}
	return maxima
}

func (m Mode) isOff() bool { return m != Add && m != Replace }

func (p BotPolicy) isDefault() bool { return p == "" || p == RedirectBots }

// conditions returns the conditions of When, and then those of Unless.
func (r *Rule) conditions() []*Condition { return slices.Concat(r.When, r.Unless) }

// isEnabled reports whether the rule is evaluated. One with a condition of an unknown kind is not:
// without the condition, it would hold for more visits.
func (r *Rule) isEnabled() bool {
	isUnknown := func(k *Condition) bool { return k.kind() == onUnknown }
	return optional.Or(r.Enabled, true) && !slices.ContainsFunc(r.conditions(), isUnknown)
}

// EffectiveShare returns the share of the target, which is 1 unless it has another.
func (t *Target) EffectiveShare() int { return optional.Or(t.Share, 1) }

// Label describes a rule or a target to users: by its name, the position of the rule, or the URL of
// the target, which may be that of the link. It is empty for an ID that the routing does not
// contain.
func (r *Routing) Label(elementID, linkURL string) string {
	for i, rule := range r.Rules {
		if rule.ID == elementID {
			return optional.Or(rule.Name, fmt.Sprintf("Rule %d", i+1))
		}
		for _, t := range rule.Targets {
			if t.ID == elementID {
				return optional.Or(t.Name, optional.Or(t.URL, linkURL))
			}
		}
	}
	return ""
}
