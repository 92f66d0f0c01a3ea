package check

import (
	"strings"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Difference is a field that the creation of a link gives, and an existing link has otherwise.
type Difference struct {
	// Path is that of the field in the input.
	Path []string
	// Restricts means that the given value restricts which visitors get a destination, which one,
	// or when.
	Restricts bool
}

// Differences returns the fields that the change sets and an existing routing has otherwise.
// Created is the routing that the change gives a new link.
func Differences(c *routing.Change, created, existing *routing.Routing) (all []Difference) {
	if c == nil {
		return nil
	}
	new, old := routing.OrDefaults(created), routing.OrDefaults(existing)
	gate, before := optional.Value(new.Gate), optional.Value(old.Gate)
	set := optional.Value(c.Gate.To)
	isReset := c.Gate.Set && c.Gate.To == nil
	type fields = routing.Routing
	for _, f := range []struct {
		path             string
		isSet, restricts bool
		new, old         fields
	}{
		{"gate.password", isReset || set.Password.Set, gate.HasPassword(),
			fields{Gate: &routing.Gate{PasswordID: gate.PasswordID}},
			fields{Gate: &routing.Gate{PasswordID: before.PasswordID}}},
		{"gate.notice", isReset || set.Notice.Set, gate.Notice != nil,
			fields{Gate: &routing.Gate{Notice: gate.Notice}}, fields{Gate: &routing.Gate{Notice: before.Notice}}},
		{"gate.confirm", isReset || set.Confirm.Set, gate.Confirm,
			fields{Gate: &routing.Gate{Confirm: gate.Confirm}}, fields{Gate: &routing.Gate{Confirm: before.Confirm}}},
		{"rules", c.Rules.Set, len(new.Rules) > 0, fields{Rules: rulesWithoutIDs(new.Rules)},
			fields{Rules: rulesWithoutIDs(old.Rules)}},
		{"bots", c.Bots.Set, new.Bots != routing.RedirectBots, fields{Bots: new.Bots}, fields{Bots: old.Bots}},
		{"query", c.Query.Set, false, fields{Query: new.Query}, fields{Query: old.Query}},
		{"forwardPath", c.ForwardPath.Set, false, fields{ForwardPath: new.ForwardPath},
			fields{ForwardPath: old.ForwardPath}},
		{"utm", c.UTM.Set, false, fields{UTM: new.UTM}, fields{UTM: old.UTM}},
		{"pendingUrl", c.PendingURL.Set, false, fields{PendingURL: new.PendingURL}, fields{PendingURL: old.PendingURL}},
		{"endedUrl", c.EndedURL.Set, false, fields{EndedURL: new.EndedURL}, fields{EndedURL: old.EndedURL}},
		{"card", c.Card.Set, false, fields{Card: new.Card}, fields{Card: old.Card}},
		{"qrSources", c.QRSources.Set, false, fields{QRSources: new.QRSources}, fields{QRSources: old.QRSources}},
		{"tests", c.Tests.Set, false, fields{Tests: new.Tests}, fields{Tests: old.Tests}},
	} {
		if f.isSet && !f.new.Equal(&f.old) {
			all = append(all, Difference{Path: strings.Split("routing."+f.path, "."), Restricts: f.restricts})
		}
	}
	return all
}

func rulesWithoutIDs(rules []*routing.Rule) (bare []*routing.Rule) {
	for _, r := range rules {
		bare = append(bare, ruleWithoutIDs(r))
	}
	return bare
}

// Restrictions returns the parts of a routing that restrict which visitors get a destination, or
// which one; nil if there are none.
func Restrictions(r *routing.Routing) *routing.Routing {
	if r == nil || r.Gate == nil && len(r.Rules) == 0 && r.Bots == "" {
		return nil
	}
	return &routing.Routing{Gate: r.Gate, Rules: rulesWithoutIDs(r.Rules), Bots: r.Bots}
}
