package routing

import (
	"strings"
	"testing"
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
		"ended": {link(func(p *Program) { p.End = noon.UnixMicro() }), Request{Visit: crawler},
			LinkExpired, 302},
		"disabled":     {link(func(p *Program) { p.Disabled = true }), Request{Visit: crawler}, LinkDisabled, 410},
		"path":         {link(func(*Program) {}), Request{Visit: crawler, Path: "/a"}, PathRefused, 404},
		"without card": {link(func(p *Program) { p.Compiled = "" }), Request{Visit: crawler}, OwnURL, 302},
	} {
		c.request.Now = noon
		got := Decide(c.program, &c.request)
		if got.Reason != c.want || got.Status != c.status || got.Page == PageCard && got.Location != "" {
			t.Errorf("%s: %+v, want %s and %d", name, got, c.want, c.status)
		}
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
