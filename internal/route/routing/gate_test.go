package routing

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/optional"
)

// gated returns the program of an active link with a gate, and with a maximum of clicks if there is
// one.
func gated(g *Gate, bots BotPolicy, maxClicks int64) *Program {
	p := NewProgram("lnk_1", &Settings{
		RedirectStatus: 302, MaxClicks: optional.Of(maxClicks), Routing: &Routing{Gate: g, Bots: bots},
		PasswordHash: new("hash"),
	}, "https://example.com/own")
	return &p
}

// TestDecide_HoldsBack has the steps 7 and 8 of the decision.
func TestDecide_HoldsBack(t *testing.T) {
	t.Parallel()
	confirm, password := &Gate{Confirm: true}, &Gate{PasswordID: "p"}
	bot, crawler := Visit{Bot: true}, Visit{Bot: true, PreviewCrawler: true}
	for name, c := range map[string]struct {
		program *Program
		request Request
		page    Page
		status  int
		needs   Need
	}{
		"a gate":        {gated(confirm, "", 0), Request{}, PageGate, 200, NeedNone},
		"a passed gate": {gated(confirm, "", 0), Request{Gate: GatePassed}, Redirect, 302, NeedNone},
		"after a form": {gated(confirm, "", 0), Request{Gate: GatePassed, Post: true, Writes: true}, Redirect, 303,
			NeedNone},
		"a wrong password":  {gated(password, "", 0), Request{Gate: GateWrong}, PageWrongPassword, 403, NeedNone},
		"too many":          {gated(password, "", 0), Request{Gate: GateThrottled}, PageManyAttempts, 429, NeedNone},
		"busy":              {gated(password, "", 0), Request{Gate: GateBusy}, PageBusy, 503, NeedNone},
		"an unknown limit":  {gated(password, "", 1), Request{}, PageGate, 200, NeedExhausted},
		"an available link": {gated(password, "", 1), Request{IsAvailable: true}, PageGate, 200, NeedNone},
		"an exhausted link": {gated(password, "", 1), Request{Exhausted: true}, PageExhausted, 410, NeedNone},
		"a used-up quota": {
			gated(password, "", 0), Request{Gate: GatePassed, OverQuota: true}, PageOverQuota, 429, NeedNone,
		},
		"a hidden quota": {gated(password, "", 0), Request{OverQuota: true}, PageGate, 200, NeedNone},
		"a preview":      {gated(nil, "", 1), Request{Visit: crawler, IsAvailable: true}, PageConfirm, 200, NeedNone},
		"a confirmed preview": {
			gated(nil, "", 1), Request{Visit: crawler, Confirmed: true, Post: true, Writes: true}, Redirect, 303,
			NeedNone,
		},
		"an unlimited preview": {gated(confirm, "", 0), Request{Visit: crawler, Gate: GatePassed}, Redirect, 302,
			NeedNone},
		"a prefetch": {gated(nil, "", 1), Request{Prefetch: true, Exhausted: true}, PagePrefetch, 403,
			NeedNone},
		"an unlimited prefetch": {gated(confirm, "", 0), Request{Prefetch: true, Gate: GatePassed}, Redirect, 302,
			NeedNone},
		"confirmed bots": {gated(nil, ConfirmBots, 0), Request{Visit: bot}, PageConfirm, 200, NeedNone},
		"a confirming bot": {
			gated(nil, ConfirmBots, 0), Request{Visit: bot, Confirmed: true, Post: true, Writes: true}, Redirect, 303,
			NeedNone,
		},
		"a user":       {gated(nil, ConfirmBots, 0), Request{}, Redirect, 302, NeedNone},
		"blocked bots": {gated(nil, BlockBots, 0), Request{Visit: bot}, PageBlocked, 403, NeedNone},
		"a confirming blocked": {
			gated(nil, BlockBots, 1), Request{Visit: bot, Confirmed: true, Post: true, Writes: true}, PageBlocked, 403,
			NeedNone,
		},
		"a form without a page": {gated(nil, BlockBots, 0), Request{Post: true, Writes: true}, PageMethod, 405,
			NeedNone},
		"a HEAD": {gated(confirm, "", 0), Request{Head: true}, PageGate, 200, NeedNone},
	} {
		c.request.Now = time.Now()
		got := Decide(c.program, &c.request)
		if got.Page != c.page || got.Status != c.status || got.Needs != c.needs ||
			(got.Location != "") != (c.page == Redirect) {
			t.Errorf("%s: %+v, want page %d with status %d", name, got, c.page, c.status)
		}
		reason := map[Page]Reason{PageGate: GateNotPassed, PageConfirm: BotHeld, PageBlocked: BotHeld}[c.page]
		if reason != "" && got.Reason != reason {
			t.Errorf("%s: %+v, want reason %s", name, got, reason)
		}
	}
	for status, keeps := range map[int]bool{301: false, 302: false, 307: true, 308: true} {
		p := &Program{Lifecycle: NewLifecycle(nil, nil), RedirectStatus: status}
		for request, want := range map[*Request]int{
			{Writes: true}: status, {Writes: true, Post: true}: status, {Writes: true, Post: true, SentForm: true}: 303,
		} {
			if !keeps {
				want = 405
			}
			if got := Decide(p, request); got.Status != want {
				t.Errorf("%d: %+v is answered %d, want %d", status, request, got.Status, want)
			}
		}
	}
	head := Decide(gated(confirm, "", 0), &Request{Head: true, Gate: GatePassed})
	if head.Status != 302 || head.Location != "" {
		t.Errorf("HEAD is answered %+v", head)
	}
	for name, p := range map[string]*Program{
		"unknown": {Unknown: true}, "hidden": {Lifecycle: NewLifecycle(new(time.Unix(1e10, 0)), nil)},
		"hidden, with a limit": {Lifecycle: NewLifecycle(new(time.Unix(1e10, 0)), nil), MaxClicks: 1},
	} {
		if got := Decide(p, &Request{Post: true, Writes: true}); got.Page != PageNotFound {
			t.Errorf("a form for a link that is %s: %+v", name, got)
		}
	}
	if plain := Decide(&Program{Lifecycle: NewLifecycle(nil, nil)},
		&Request{Post: true, Writes: true}); plain.Status != 405 {
		t.Errorf("POST to a plain link is answered %+v", plain)
	}
}

func TestCompiled_GateHasAVersion(t *testing.T) {
	t.Parallel()
	version := func(g *Gate) uint64 {
		compiled, ok := gated(g, "", 0).Compiled.Gate()
		if !ok || compiled.NeedsPassword != g.HasPassword() || compiled.Notice != optional.Value(g.Notice) ||
			compiled.PasswordHash != "hash" {
			t.Errorf("%+v is compiled to %+v", g, compiled)
		}
		return compiled.Version
	}
	seen := map[uint64]bool{}
	for _, g := range []*Gate{
		{Confirm: true}, {PasswordID: "a"}, {PasswordID: "b"}, {PasswordID: "a", Notice: new("n")}, {Notice: new("n")},
		{Notice: new("a")}, {PasswordID: "a", Confirm: true},
	} {
		if v := version(g); seen[v] || v != version(g) {
			t.Errorf("%+v has version %d of another gate, or another one each time", g, v)
		} else {
			seen[v] = true
		}
	}
	if _, ok := Compiled("").Gate(); ok {
		t.Error("a plain link has a gate")
	}
	both := Compile(&Routing{Gate: &Gate{Confirm: true}, Card: &Card{Title: "A title"},
		PendingURL: new("https://p.example/"),
		EndedURL:   new("https://e.example/")})
	pending, ended := both.fallbackURLs()
	if card := both.Card(); card.Title != "A title" || pending != "https://p.example/" ||
		ended != "https://e.example/" {
		t.Errorf("%+v, %s, %s", card, pending, ended)
	}
}
