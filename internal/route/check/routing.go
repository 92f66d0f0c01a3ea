package check

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/routing"
)

func (c *checker) routing(r *routing.Routing) {
	names := map[string]bool{}
	each(c, "rules", r.Rules, 0, maxRules, func(i int) {
		c.unique(names, r.Rules[i].Name)
		c.rule(r.Rules[i])
	})
	c.in("query", func() { c.forwarding(&r.Query) })
	if r.UTM != nil {
		c.in("utm", func() { c.utm(r.UTM) })
	}
	if r.PendingURL != nil {
		c.in("pendingUrl", func() { *r.PendingURL = c.fallback(*r.PendingURL) })
	}
	if r.EndedURL != nil {
		c.in("endedUrl", func() { *r.EndedURL = c.fallback(*r.EndedURL) })
	}
	if r.Card != nil {
		c.in("card", func() { c.card(r.Card) })
	}
	if r.Gate != nil {
		c.in("gate", func() { c.gate(r.Gate) })
	}
	c.in("bots", func() { c.bots(&r.Bots) })
	each(c, "qrSources", r.QRSources, 0, maxSources, func(i int) { c.source(r.QRSources[i], r.QRSources[:i]) })
	each(c, "tests", r.Tests, 0, maxTests, func(i int) { c.test(r.Tests[i]) })
}

func (c *checker) gate(g *routing.Gate) {
	if g.Notice == nil {
		return
	}
	c.in("notice", func() {
		lines, err := validate.Lines("notice", *g.Notice, 1, maxNotice)
		if err != nil {
			c.fail(errs.From(err))
		}
		g.Notice = &lines
	})
}

// bots replaces the default by an empty text, as routings are stored.
func (c *checker) bots(p *routing.BotPolicy) {
	switch *p {
	case routing.RedirectBots:
		*p = ""
	case "", routing.ConfirmBots, routing.BlockBots:
	default:
		c.refuse("bots must be REDIRECT, CONFIRM or BLOCK.")
	}
}

func (c *checker) size(r *routing.Routing) {
	text, err := json.Marshal(r)
	if err != nil {
		c.refuse("The routing must be plain text.")
		return
	}
	if n := len(text); n > MaxStored {
		c.refuse("The routing must have at most %d KiB as JSON; it has %d.", MaxStored>>10, (n+1023)>>10)
	}
	if n := len(routing.Compile(r)); n > maxCompiled {
		c.refuse("The routing must have at most %d KiB when compiled; it has %d. Use fewer or shorter URLs and values.",
			maxCompiled>>10, (n+1023)>>10)
	}
}

// unique refuses a name that an earlier sibling has.
func (c *checker) unique(names map[string]bool, name *string) {
	if name == nil {
		return
	}
	c.text("name", name, maxName)
	if names[*name] {
		c.in("name", func() { c.refuse("The name is used twice in this list. Names must be unique.") })
	}
	names[*name] = true
}

// source validates the name of a QR code. It is part of the code's URL, so it needs no encoding.
func (c *checker) source(name string, before []string) {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-"
	switch {
	case len(name) < 1 || len(name) > routing.MaxSource || strings.Trim(name, allowed) != "":
		c.refuse("The name of a QR code must have from 1 to %d of the characters a-z, 0-9 and -.", routing.MaxSource)
	case slices.Contains(before, name):
		c.refuse("The name is used twice in this list. Names must be unique.")
	}
}

func (c *checker) rule(r *routing.Rule) {
	if r.Enabled == nil {
		r.Enabled = new(true)
	}
	switch r.Stickiness {
	case "":
		r.Stickiness = routing.NotSticky
	case routing.NotSticky, routing.ByVisitor, routing.ByCookie:
	default:
		c.in("stickiness", func() { c.refuse("stickiness must be NONE, VISITOR or COOKIE.") })
	}
	each(c, "when", r.When, 0, maxConditions, func(i int) { c.condition(r.When[i]) })
	each(c, "unless", r.Unless, 0, maxConditions, func(i int) { c.condition(r.Unless[i]) })
	names, sum := map[string]bool{}, 0
	each(c, "targets", r.Targets, 1, maxTargets, func(i int) {
		c.unique(names, r.Targets[i].Name)
		c.target(r.Targets[i])
		sum |= *r.Targets[i].Share
	})
	if sum == 0 && len(r.Targets) > 0 && len(r.Targets) <= maxTargets {
		c.in("targets", func() { c.refuse("At least one target must have a share above 0.") })
	}
}

func (c *checker) target(t *routing.Target) {
	if t.Share == nil {
		t.Share = new(1)
	}
	if *t.Share < 0 || *t.Share > maxShare {
		c.in("share", func() { c.refuse("share must be from 0 to %d.", maxShare) })
	}
	if t.MaxClicks != nil && *t.MaxClicks < 1 {
		c.in("maxClicks", func() { c.refuse("maxClicks must be at least 1.") })
	}
	if t.URL != nil {
		c.in("url", func() { *t.URL = c.url(*t.URL) })
	}
}

// url validates a destination and returns it as it is stored.
func (c *checker) url(url string) string {
	_, err := urlnorm.Canonical(url)
	if refused, ok := errors.AsType[*urlnorm.Error](err); ok {
		c.fail(errs.New(errs.InvalidURL, "%s", refused.Reason).Because(err))
	}
	return urlnorm.Trim(url)
}

// fallback is url for a URL with placeholders. Braces have no other use in it.
func (c *checker) fallback(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	before, fragment, _ := strings.Cut(rest[end:], "#")
	left := strings.NewReplacer("{code}", "", "{host}", "").Replace(before)
	if strings.ContainsAny(scheme+rest[:end]+left+fragment, "{}") {
		c.fail(
			errs.New(errs.InvalidURL, "Braces are for the placeholders {code} and {host}, in the path and the query. "+
				"Percent-encode others as %%7B and %%7D."))
		return url
	}
	c.url(longest.Replace(url))
	return urlnorm.Trim(url)
}

// longest replaces placeholders by the longest values that they can have.
var longest = strings.NewReplacer("{code}", strings.Repeat("c", 3*64), "{host}", strings.Repeat("h", 253))

func (c *checker) forwarding(f *routing.Forwarding) {
	switch f.Mode {
	case "":
		f.Mode = routing.Off
	case routing.Off, routing.Add, routing.Replace:
	default:
		c.in("mode", func() { c.refuse("mode must be OFF, ADD or REPLACE.") })
	}
	if len(f.Only) > 0 && len(f.Except) > 0 {
		c.in("except", func() { c.refuse("Give only or except, not both.") })
	}
	c.parameters("only", f.Only)
	c.parameters("except", f.Except)
}

func (c *checker) parameters(field string, names []string) {
	each(c, field, names, 0, routing.MaxNames, func(i int) {
		names[i] = validate.Normal(names[i])
		if n := len([]rune(names[i])); n < 1 || n > maxName {
			c.refuse("A name must have from 1 to %d characters; it has %d.", maxName, n)
		}
		c.noNull(names[i])
	})
}

func (c *checker) utm(u *routing.UTM) {
	if u.TemplateID != nil {
		c.in("templateId", func() { c.fail(errs.New(errs.NotFound, "There is no such template in the workspace.")) })
	}
	hasValue := false
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"source", u.Source}, {"medium", u.Medium}, {"campaign", u.Campaign}, {"term", u.Term}, {"content", u.Content},
	} {
		c.text(f.name, f.value, maxUTMValue)
		hasValue = hasValue || f.value != nil
	}
	if !hasValue && u.TemplateID == nil {
		c.refuse("Give at least one value, or null for none.")
	}
}

// The limits of a card, in characters.
const (
	maxCardTitle       = 200
	maxCardDescription = 500
	maxImageAlt        = 200
)

func (c *checker) card(card *routing.Card) {
	c.text("title", &card.Title, maxCardTitle)
	c.text("description", card.Description, maxCardDescription)
	c.text("imageAlt", card.ImageAlt, maxImageAlt)
	if card.ImageURL != nil {
		c.in("imageUrl", func() { *card.ImageURL = c.imageURL(*card.ImageURL) })
	}
}

// imageURL validates a URL that pages load without a click of the visitor.
func (c *checker) imageURL(url string) string {
	const https = "https://"
	url = urlnorm.Trim(url)
	if len(url) < len(https) || !strings.EqualFold(url[:len(https)], https) {
		c.fail(errs.New(errs.InvalidURL, "The URL of an image must start with https://."))
		return url
	}
	return c.url(url)
}
