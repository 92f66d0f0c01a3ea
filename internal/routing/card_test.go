package routing

import (
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/optional"
)

// carded is a routing with a card and everything that is compiled around it.
func carded() *Routing {
	return &Routing{
		PendingURL: new("https://example.com/pending"), EndedURL: new("https://example.com/ended"),
		Query: Forwarding{Mode: Add, Only: []string{"a"}}, UTM: &UTM{Source: new("mail")},
		Rules: []*Rule{{ID: "rul_1", Targets: []*Target{{ID: "tgt_1", URL: new("https://example.com/target")}}}},
		Card: &Card{
			Title: "A title", Description: new("A description"), ImageURL: new("https://example.com/ä.png"),
			ImageAlt: new("A picture"),
		},
	}
}

func TestCompile_KeepsTheCardApart(t *testing.T) {
	t.Parallel()
	c := Compile(carded())
	want := CardTexts{"A title", "A description", "https://example.com/%C3%A4.png", "A picture"}
	if got := c.Card(); !c.HasCard() || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	p := &Program{Lifecycle: NewLifecycle(nil, nil), RedirectStatus: 302, Compiled: c, Location: "https://example.com/"}
	got := Decide(p, &Request{Now: noon, Query: "a=1&b=2"})
	if want := "https://example.com/target?utm_source=mail&a=1"; got.Location != want {
		t.Errorf("the location is %q, want %q", got.Location, want)
	}
	without := carded()
	without.Card = nil
	if Compile(without).HasCard() || Compiled("").HasCard() {
		t.Error("a routing without a card has one")
	}
	only := Compile(&Routing{Card: &Card{Title: "t"}})
	if got := only.Card(); got != (CardTexts{Title: "t"}) {
		t.Errorf("%+v", got)
	}
}

// TestDecide_ShowsTheCard: only an active link with clicks left shows it.
func TestDecide_ShowsTheCard(t *testing.T) {
	t.Parallel()
	link := func(change func(*Program)) *Program {
		p := &Program{
			Lifecycle: NewLifecycle(nil, nil), RedirectStatus: 302, Location: "https://example.com/",
			Compiled: Compile(&Routing{Card: &Card{Title: "A title"}, EndedURL: new("https://example.com/ended")}),
		}
		change(p)
		return p
	}
	crawler := Visit{Bot: true, PreviewCrawler: true}
	for name, c := range map[string]struct {
		program *Program
		request Request
		want    Reason
		status  int
	}{
		"crawler":       {link(func(*Program) {}), Request{Visit: crawler}, ShowsCard, 200},
		"HEAD":          {link(func(*Program) {}), Request{Visit: crawler, Head: true}, ShowsCard, 200},
		"other bot":     {link(func(*Program) {}), Request{Visit: Visit{Bot: true}}, OwnURL, 302},
		"visitor":       {link(func(*Program) {}), Request{}, OwnURL, 302},
		"without quota": {link(func(*Program) {}), Request{Visit: crawler, OverQuota: true}, ShowsCard, 200},
		"exhausted": {link(func(p *Program) { p.MaxClicks = 1 }), Request{Visit: crawler, Exhausted: true},
			LinkExhausted, 302},
		"ended":    {link(func(p *Program) { p.End = noon.UnixMicro() }), Request{Visit: crawler}, LinkExpired, 302},
		"pending":  {link(func(p *Program) { p.Start = noon.UnixMicro() + 1 }), Request{Visit: crawler}, Pending, 404},
		"deleted":  {link(func(p *Program) { p.Deleted = true }), Request{Visit: crawler}, LinkDeleted, 404},
		"disabled": {link(func(p *Program) { p.Disabled = true }), Request{Visit: crawler}, LinkDisabled, 410},
		"path":     {link(func(*Program) {}), Request{Visit: crawler, Path: "/a"}, PathRefused, 404},
		"workspace": {link(func(p *Program) { p.WorkspaceDeleted = true }), Request{Visit: crawler},
			WorkspaceDeleted, 410},
		"without card": {link(func(p *Program) { p.Compiled = "" }), Request{Visit: crawler}, OwnURL, 302},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.request.Now = noon
			got := Decide(c.program, &c.request)
			if got.Reason != c.want || got.Status != c.status || got.Page == PageCard && got.Location != "" {
				t.Errorf("%+v, want %s and %d", got, c.want, c.status)
			}
			e := Explain(c.program, &c.request)
			if e.Reason != c.want || e.Status != c.status || e.Consumes != (got.Page == Redirect) {
				t.Errorf("explained as %+v", e)
			}
		})
	}
}

func TestExplain_NamesTheAutomationStep(t *testing.T) {
	t.Parallel()
	p := &Program{Lifecycle: NewLifecycle(nil, nil), RedirectStatus: 302, Compiled: Compile(carded())}
	for isCrawler, want := range map[bool]Outcome{true: Applied, false: Passed} {
		e := Explain(p, &Request{Now: noon, Visit: Visit{PreviewCrawler: isCrawler}})
		at := slices.IndexFunc(e.Steps, func(s Step) bool { return s.Step == StepAutomation })
		if at != 6 || e.Steps[at].Outcome != want || isCrawler != (at == len(e.Steps)-1) {
			t.Errorf("a crawler %t: %+v", isCrawler, e.Steps)
		}
	}
}

func TestCheck_Card(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		card  Card
		field string
	}{
		"no title":         {Card{Title: "  "}, "card.title"},
		"long title":       {Card{Title: strings.Repeat("ä", 201)}, "card.title"},
		"two lines":        {Card{Title: "a\nb"}, "card.title"},
		"no description":   {Card{Title: "t", Description: new("")}, "card.description"},
		"long description": {Card{Title: "t", Description: new(strings.Repeat("d", 501))}, "card.description"},
		"long alt":         {Card{Title: "t", ImageAlt: new(strings.Repeat("d", 201))}, "card.imageAlt"},
		"http image":       {Card{Title: "t", ImageURL: new("http://example.com/a.png")}, "card.imageUrl"},
		"data image":       {Card{Title: "t", ImageURL: new("data:image/png;base64,AA")}, "card.imageUrl"},
		"script":           {Card{Title: "t", ImageURL: new("javascript:alert(1)")}, "card.imageUrl"},
		"user":             {Card{Title: "t", ImageURL: new("https://a:b@example.com/a.png")}, "card.imageUrl"},
		"no host":          {Card{Title: "t", ImageURL: new("https:///a.png")}, "card.imageUrl"},
		"fits": {Card{
			Title: strings.Repeat("ä", 200), Description: new(strings.Repeat("ä", 500)),
			ImageURL: new("HTTPS://example.com/a.png"), ImageAlt: new(strings.Repeat("ä", 200)),
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := Change{Card: optional.Set(&c.card)}
			got, err := change.Apply(nil)
			switch {
			case c.field == "" && (err != nil || got.Card == nil):
				t.Errorf("%+v, %v", got, err)
			case c.field != "" && (err == nil || strings.Join(errs.From(err).Field, ".") != c.field):
				t.Errorf("%+v, %v, want an error at %s", got, err, c.field)
			}
		})
	}
}

// TestChange_ReplacesTheCard: an absent card stays, null removes it.
func TestChange_ReplacesTheCard(t *testing.T) {
	t.Parallel()
	from := &Routing{Card: &Card{Title: "old", Description: new("kept by no change")}}
	for name, c := range map[string]struct {
		change Change
		want   string
	}{
		"absent":   {Change{ForwardPath: optional.Set(new(true))}, "old"},
		"replaced": {Change{Card: optional.Set(&Card{Title: " new "})}, "new"},
		"removed":  {Change{Card: optional.Set[*Card](nil)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := must.Value(c.change.Apply(from))(t)
			if c.want == "" {
				if after != nil {
					t.Errorf("the link is not plain: %+v", after)
				}
				return
			}
			if after.Card.Title != c.want || c.want == "new" && after.Card.Description != nil {
				t.Errorf("%+v", after.Card)
			}
			if completed := c.change.Complete(after); completed.Card.Set && completed.Card.To.Title != c.want {
				t.Errorf("completed to %+v", completed.Card.To)
			}
		})
	}
}

func TestRouting_URLsIncludeTheImage(t *testing.T) {
	t.Parallel()
	urls := carded().URLs()
	last := urls[len(urls)-1]
	if !last.IsImage || last.URL != "https://example.com/ä.png" || strings.Join(last.Field, ".") != "card.imageUrl" {
		t.Errorf("%+v", urls)
	}
	if urls := (&Routing{Card: &Card{Title: "t"}}).URLs(); len(urls) != 0 {
		t.Errorf("%+v", urls)
	}
}
