package routing

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

func TestDecide_FollowsTheTable(t *testing.T) {
	t.Parallel()
	before, after := noon.Add(-time.Second), noon.Add(time.Second)
	link := func(change func(*Program)) *Program {
		p := &Program{Lifecycle: NewLifecycle(&before, &after), Location: "https://example.com/", RedirectStatus: 302}
		change(p)
		return p
	}
	plain := link(func(*Program) {})
	limited := link(func(p *Program) { p.MaxClicks = 1 })
	for name, c := range map[string]struct {
		program *Program
		request Request
		want    Decision
	}{
		"redirect":     {plain, Request{}, Decision{Status: 302, Location: "https://example.com/"}},
		"head":         {plain, Request{Head: true}, Decision{Status: 302, Location: "https://example.com/"}},
		"limited":      {limited, Request{}, Decision{Status: 302, Location: "https://example.com/"}},
		"limited head": {limited, Request{Head: true}, Decision{Status: 302}},
		"throttled":    {plain, Request{Throttled: time.Second}, Decision{Page: PageThrottled, Status: 429}},
		"throttled, unknown": {&Program{Unknown: true}, Request{Throttled: time.Second},
			Decision{Page: PageThrottled, Status: 429}},
		"unknown": {&Program{Unknown: true}, Request{}, Decision{Page: PageNotFound, Status: 404}},
		"deleted workspace": {&Program{Unknown: true, WorkspaceDeleted: true}, Request{},
			Decision{Page: PageNotFound, Status: 404}},
		"workspace, link": {link(func(p *Program) { p.WorkspaceDeleted = true }), Request{},
			Decision{Page: PageWorkspaceDeleted, Status: 410}},
		"disabled": {
			link(func(p *Program) { p.Disabled, p.Deleted = true, true }), Request{},
			Decision{Page: PageDisabled, Status: 410},
		},
		"deleted": {link(func(p *Program) { p.Deleted = true }), Request{}, Decision{Page: PageNotFound, Status: 404}},
		"ended": {link(func(p *Program) { p.End = noon.UnixMicro() }), Request{},
			Decision{Page: PageExpired, Status: 410}},
		"scheduled": {link(func(p *Program) { p.Start = after.UnixMicro() }), Request{},
			Decision{Page: PageNotFound, Status: 404}},
		"exhausted":  {limited, Request{Exhausted: true}, Decision{Page: PageExhausted, Status: 410}},
		"over quota": {plain, Request{OverQuota: true}, Decision{Page: PageOverQuota, Status: 429}},
		"both": {limited, Request{Exhausted: true, OverQuota: true},
			Decision{Page: PageExhausted, Status: 410}},
		"failed": {&Program{Unknown: true}, Request{Failed: true},
			Decision{Page: PageUnavailable, Status: 503}},
		"failed, limits": {limited, Request{Exhausted: true, Failed: true},
			Decision{Page: PageUnavailable, Status: 503}},
	} {
		c.request.Now = noon
		got := Decide(c.program, &c.request)
		got.Reason = "" // see TestDecide_ShowsTheCard and package explain
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
