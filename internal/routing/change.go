package routing

import (
	"encoding/json"
	"fmt"

	"github.com/linkforge/linkforge/internal/optional"
)

// Change is a change of a routing. Fields without Set stay; nil resets a field to its default. Lists are
// replaced as a whole.
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

// Apply returns the routing after the change, checked and with ids; nil for a plain link. The arguments
// stay as they are. A nil change makes the link plain. It returns InvalidInput or InvalidURL with the
// position of the value.
func (c *Change) Apply(from *Routing) (*Routing, error) {
	if c == nil {
		return nil, nil
	}
	if err := c.checkPassword(); err != nil {
		return nil, err
	}
	after, err := c.set(from).clone()
	if err != nil {
		return nil, err
	}
	if err := after.Check(); err != nil {
		return nil, err
	}
	if err := after.Identify(from); err != nil {
		return nil, err
	}
	if err := after.CheckSize(); err != nil {
		return nil, err
	}
	if after.IsPlain() {
		return nil, nil
	}
	return after, nil
}

// set returns a copy of a routing with the fields of the change.
func (c *Change) set(from *Routing) *Routing {
	after := &Routing{}
	if from != nil {
		*after = *from
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

// Merge is Apply for a change that Complete has returned: rules and targets keep their ids, and nothing is
// checked, so that it cannot fail. Revalidate checks the result.
func (c *Change) Merge(from *Routing) *Routing {
	if c == nil {
		return nil
	}
	after := c.set(from)
	if after.IsPlain() {
		return nil
	}
	return after
}

// Complete returns the change with the checked values and the ids of the routing that Apply has returned;
// nil stays nil.
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

// Revalidate checks a routing that Merge has returned. It returns InvalidInput or InvalidURL with the
// position of the value.
func (r *Routing) Revalidate() error {
	if r == nil {
		return nil
	}
	checked, err := r.clone()
	if err != nil {
		return err
	}
	if err := checked.Check(); err != nil {
		return err
	}
	return checked.CheckSize()
}

// clone returns a deep copy, because Check and Identify change the value.
func (r *Routing) clone() (*Routing, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("copying a routing: %w", err)
	}
	copied := &Routing{}
	if err := json.Unmarshal(text, copied); err != nil {
		return nil, fmt.Errorf("copying a routing: %w", err)
	}
	return copied, nil
}
