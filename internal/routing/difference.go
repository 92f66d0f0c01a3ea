package routing

import (
	"strings"

	"github.com/linkforge/linkforge/internal/optional"
)

// Difference is a field that the creation of a link gives, and an existing link has otherwise.
type Difference struct {
	// Path is that of the field in the input.
	Path []string
	// Restricts means that the given value restricts which visitors get a destination, which one, or when.
	Restricts bool
}

// Differences returns the fields that the change sets and an existing routing has otherwise. Created is the routing
// that the change gives a new link.
func (c *Change) Differences(created, existing *Routing) (all []Difference) {
	if c == nil {
		return nil
	}
	new, old := OrDefaults(created), OrDefaults(existing)
	gate, before := optional.Value(new.Gate), optional.Value(old.Gate)
	set := optional.Value(c.Gate.To)
	isReset := c.Gate.Set && c.Gate.To == nil
	for _, f := range []struct {
		path             string
		isSet, restricts bool
		new, old         Routing
	}{
		{"gate.password", isReset || set.Password.Set, gate.HasPassword(),
			Routing{Gate: &Gate{PasswordID: gate.PasswordID}}, Routing{Gate: &Gate{PasswordID: before.PasswordID}}},
		{"gate.notice", isReset || set.Notice.Set, gate.Notice != nil,
			Routing{Gate: &Gate{Notice: gate.Notice}}, Routing{Gate: &Gate{Notice: before.Notice}}},
		{"gate.confirm", isReset || set.Confirm.Set, gate.Confirm,
			Routing{Gate: &Gate{Confirm: gate.Confirm}}, Routing{Gate: &Gate{Confirm: before.Confirm}}},
		{"rules", c.Rules.Set, len(new.Rules) > 0, Routing{Rules: withoutIDs(new.Rules)}, Routing{Rules: withoutIDs(old.Rules)}},
		{"bots", c.Bots.Set, !new.Bots.isDefault(), Routing{Bots: new.Bots}, Routing{Bots: old.Bots}},
		{"query", c.Query.Set, false, Routing{Query: new.Query}, Routing{Query: old.Query}},
		{"forwardPath", c.ForwardPath.Set, false, Routing{ForwardPath: new.ForwardPath}, Routing{ForwardPath: old.ForwardPath}},
		{"utm", c.UTM.Set, false, Routing{UTM: new.UTM}, Routing{UTM: old.UTM}},
		{"pendingUrl", c.PendingURL.Set, false, Routing{PendingURL: new.PendingURL}, Routing{PendingURL: old.PendingURL}},
		{"endedUrl", c.EndedURL.Set, false, Routing{EndedURL: new.EndedURL}, Routing{EndedURL: old.EndedURL}},
		{"card", c.Card.Set, false, Routing{Card: new.Card}, Routing{Card: old.Card}},
		{"qrSources", c.QRSources.Set, false, Routing{QRSources: new.QRSources}, Routing{QRSources: old.QRSources}},
		{"tests", c.Tests.Set, false, Routing{Tests: new.Tests}, Routing{Tests: old.Tests}},
	} {
		if f.isSet && !f.new.Equal(&f.old) {
			all = append(all, Difference{Path: strings.Split("routing."+f.path, "."), Restricts: f.restricts})
		}
	}
	return all
}

func withoutIDs(rules []*Rule) (bare []*Rule) {
	for _, r := range rules {
		bare = append(bare, r.withoutIDs())
	}
	return bare
}
