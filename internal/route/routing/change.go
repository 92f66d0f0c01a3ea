package routing

import "github.com/linkforge/linkforge/internal/platform/optional"

// Change is a change of a routing. Fields without Set stay; nil resets a field to its default.
// Lists are replaced as a whole.
type Change struct {
	Rules                optional.Edit[[]*Rule]
	Query                optional.Edit[*Forwarding]
	ForwardPath          optional.Edit[*bool]
	UTM                  optional.Edit[*UTM]
	PendingURL, EndedURL optional.Edit[*string]
	Card                 optional.Edit[*Card]
	Gate                 optional.Edit[*GateChange] `json:",omitzero"`
	Bots                 optional.Edit[*BotPolicy]  `json:",omitzero"`
	QRSources            optional.Edit[[]string]
	Tests                optional.Edit[[]*Test]
}

// With returns a copy of a routing with the fields of a change, which is not checked. A nil routing
// has all defaults.
func (r *Routing) With(c *Change) *Routing {
	after := &Routing{}
	if r != nil {
		*after = *r
	}
	c.Rules.Apply(&after.Rules)
	c.PendingURL.Apply(&after.PendingURL)
	c.EndedURL.Apply(&after.EndedURL)
	c.UTM.Apply(&after.UTM)
	c.Card.Apply(&after.Card)
	c.QRSources.Apply(&after.QRSources)
	c.Tests.Apply(&after.Tests)
	if c.Gate.Set {
		after.Gate = c.Gate.To.apply(after.Gate)
	}
	if c.Bots.Set {
		after.Bots = optional.Value(c.Bots.To)
	}
	if c.Query.Set {
		after.Query = optional.Value(c.Query.To)
	}
	if c.ForwardPath.Set {
		after.ForwardPath = optional.Value(c.ForwardPath.To)
	}
	return after
}

// Merge returns a routing after a change that Complete has returned; nil for a plain link. Rules
// and targets keep their ids, and nothing is checked, so that it cannot fail.
func (c *Change) Merge(from *Routing) *Routing {
	if c == nil {
		return nil
	}
	after := from.With(c)
	if after.IsPlain() {
		return nil
	}
	return after
}

// Complete returns the change with the checked values and the ids of the routing that check.Apply
// has returned; nil stays nil.
func (c *Change) Complete(after *Routing) *Change {
	if c == nil {
		return nil
	}
	if after == nil {
		after = &Routing{}
	}
	completed := *c
	if c.Rules.Set {
		completed.Rules.To = after.Rules
	}
	if c.Query.Set {
		completed.Query.To = &after.Query
	}
	if c.UTM.Set {
		completed.UTM.To = after.UTM
	}
	if c.PendingURL.Set {
		completed.PendingURL.To = after.PendingURL
	}
	if c.EndedURL.Set {
		completed.EndedURL.To = after.EndedURL
	}
	if c.Card.Set {
		completed.Card.To = after.Card
	}
	if c.Tests.Set {
		completed.Tests.To = after.Tests
	}
	if c.Bots.Set {
		completed.Bots.To = &after.Bots
	}
	if c.Gate.To != nil && c.Gate.To.Notice.To != nil && after.Gate != nil {
		gate := *c.Gate.To
		gate.Notice.To, completed.Gate.To = after.Gate.Notice, &gate
	}
	return &completed
}
