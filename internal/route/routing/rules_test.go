package routing

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// program returns the program of an active link to https://example.com/own with a routing, which
// gets ids.
func program(r *Routing) *Program {
	for i, rule := range r.Rules {
		rule.ID = cmp.Or(rule.ID, fmt.Sprintf("rul_%d", i))
		for j, target := range rule.Targets {
			target.ID = cmp.Or(target.ID, fmt.Sprintf("tgt_%d_%d", i, j))
		}
	}
	p := NewProgram("lnk_1", &Settings{RedirectStatus: 302, Routing: r}, "https://example.com/own")
	return &p
}

// toTarget is a rule with one target.
func toTarget(url string, when ...*Condition) *Rule {
	return &Rule{When: when, Targets: []*Target{{URL: &url}}}
}

func TestDecide_ConditionsHold(t *testing.T) {
	t.Parallel()
	office := &WeeklySchedule{Timezone: "Europe/Berlin", Days: []Weekday{"MONDAY"}, From: "09:00", To: "17:00"}
	later := noon.Add(time.Hour)
	visit := Visit{
		Country: "AT", Device: "mobile", OS: "iOS", Browser: "Safari", Languages: []string{"de-AT"},
		Referrer: "news.example.org",
		Address:  netip.MustParseAddr("192.0.2.7"),
	}
	for name, c := range map[string]struct {
		condition Condition
		change    func(*Request)
		want      bool
	}{
		"country":              {Condition{Country: []string{"DE", "AT"}}, nil, true},
		"other country":        {Condition{Country: []string{"DE"}}, nil, false},
		"unknown country":      {Condition{Country: []string{""}}, func(r *Request) { r.Visit.Country = "" }, true},
		"known country":        {Condition{Country: []string{""}}, nil, false},
		"device":               {Condition{Device: []string{"mobile"}}, nil, true},
		"os without case":      {Condition{OS: []string{"ios"}}, nil, true},
		"browser":              {Condition{Browser: []string{"SAFARI"}}, nil, true},
		"other browser":        {Condition{Browser: []string{"Safar"}}, nil, false},
		"language":             {Condition{Language: []string{"de"}}, nil, true},
		"language with region": {Condition{Language: []string{"de-at"}}, nil, true},
		"other region":         {Condition{Language: []string{"de-A"}}, nil, false},
		"unknown language":     {Condition{Language: []string{""}}, nil, false},
		"referrer":             {Condition{Referrer: []string{"news.example.org"}}, nil, true},
		"referrer above":       {Condition{Referrer: []string{"example.org"}}, nil, false},
		"hosts below":          {Condition{Referrer: []string{".example.org"}}, nil, true},
		"host of hosts below":  {Condition{Referrer: []string{".news.example.org"}}, nil, true},
		"hosts below www":      {Condition{Referrer: []string{".www.example.org"}}, nil, false},
		"no host below":        {Condition{Referrer: []string{".ws.example.org"}}, nil, false},
		"query": {Condition{Query: &QueryCondition{Name: "a b"}},
			func(r *Request) { r.Query = "x&a+b" }, true},
		"query value": {Condition{Query: &QueryCondition{Name: "a", Value: new("ü&")}},
			func(r *Request) { r.Query = "a=%C3%BC%26" }, true},
		"query value in other bytes": {Condition{Query: &QueryCondition{Name: "a", Value: new("Caf\u00e9")}},
			func(r *Request) { r.Query = "a=Cafe%CC%81&a=Caf%C3%A9" }, true},
		"decomposed query": {Condition{Query: &QueryCondition{Name: "caf\u00e9", Value: new("\u00fc")}},
			func(r *Request) { r.Query = "x&cafe%CC%81=u\u0308" }, true},
		"query value without its mark": {Condition{Query: &QueryCondition{Name: "a", Value: new("Caf\u00e9")}},
			func(r *Request) { r.Query = "a=Cafe&a=Caf" }, false},
		"other query value": {Condition{Query: &QueryCondition{Name: "a", Value: new("b")}},
			func(r *Request) { r.Query = "a=bc&A=b" }, false},
		"query without value": {Condition{Query: &QueryCondition{Name: "a", Value: new("")}},
			func(r *Request) { r.Query = "a" }, true},
		"during": {Condition{During: &Period{From: &noon, To: &later}}, nil, true},
		"after the period": {Condition{During: &Period{From: &noon, To: &later}},
			func(r *Request) { r.Now = later }, false},
		"before the period": {Condition{During: &Period{From: &noon}},
			func(r *Request) { r.Now = noon.Add(-1000) }, false},
		"weekly":         {Condition{Weekly: office}, nil, true},
		"not weekly":     {Condition{Weekly: office}, func(r *Request) { r.Now = noon.AddDate(0, 0, 1) }, false},
		"address":        {Condition{Network: []string{"192.0.2.7"}}, nil, true},
		"mapped address": {Condition{Network: []string{"::ffff:192.0.2.0/121"}}, nil, true},
		"network":        {Condition{Network: []string{"2001:db8::/32", "192.0.2.0/29"}}, nil, true},
		"other network":  {Condition{Network: []string{"192.0.2.8/29"}}, nil, false},
		"IPv6 address": {Condition{Network: []string{"2001:db8::1"}},
			func(r *Request) { r.Visit.Address = netip.MustParseAddr("2001:db8::1") }, true},
		"other IPv6 address": {Condition{Network: []string{"2001:db8::1"}},
			func(r *Request) { r.Visit.Address = netip.MustParseAddr("2001:db8::2") }, false},
		"IPv4 in IPv6": {Condition{Network: []string{"::/0", "::/64"}}, nil, false},
		"IPv4":         {Condition{Network: []string{"::/0", "0.0.0.0/0"}}, nil, true},
		"mapped visitor": {Condition{Network: []string{"192.0.2.7"}},
			func(r *Request) { r.Visit.Address = netip.MustParseAddr("::ffff:192.0.2.7") }, true},
		"unknown address": {Condition{Network: []string{"0.0.0.0/0", "::/0"}},
			func(r *Request) { r.Visit.Address = netip.Addr{} }, false},
		"bot":    {Condition{Bot: new(true)}, func(r *Request) { r.Visit.Bot = true }, true},
		"no bot": {Condition{Bot: new(true)}, nil, false},
		"country that is a pair": {Condition{Country: []string{"GB"}}, func(r *Request) { r.Visit.Country = "gb" },
			true},
	} {
		r := Request{Now: noon, Visit: visit}
		if c.change != nil {
			c.change(&r)
		}
		holds, fails := toTarget("https://example.com/rule", &c.condition), toTarget("https://example.com/rule")
		fails.Unless = []*Condition{&c.condition}
		for unless, rule := range map[bool]*Rule{false: holds, true: fails} {
			d := Decide(program(&Routing{Rules: []*Rule{rule}}), &r)
			if got := d.Location == "https://example.com/rule"; got != (c.want != unless) || d.Needs != NeedNone {
				t.Errorf("%s: unless %t: %+v", name, unless, d)
			}
		}
	}
}

func TestDecide_TriesRulesInOrder(t *testing.T) {
	t.Parallel()
	disabled, capped := toTarget("https://example.com/disabled"), toTarget("https://example.com/capped")
	disabled.Enabled = new(false)
	capped.Targets[0].MaxClicks = new(int64(5))
	german := toTarget("https://example.com/de", &Condition{Country: []string{"DE"}})
	r := &Routing{Rules: []*Rule{disabled, german, capped, {Targets: []*Target{{}}}}}
	p := program(r)
	request := Request{Now: noon}
	d := Decide(p, &request)
	if d.Needs != NeedGrant || d.Target != capped.Targets[0].ID || d.Location != "" {
		t.Fatalf("%+v, want a grant", d)
	}
	granted := request
	granted.Granted = d.Target
	if d := Decide(p, &granted); d.Location != "https://example.com/capped" || d.Rule != capped.ID {
		t.Errorf("granted: %+v", d)
	}
	request.ExhaustedTargets = []string{d.Target}
	if d := Decide(p, &request); d.Location != "https://example.com/own" || d.Rule != r.Rules[3].ID {
		t.Errorf("refused: %+v", d)
	}
	if d := Decide(p, &Request{Now: noon, Head: true}); d.Location != "" || d.Needs != NeedNone || d.Target == "" {
		t.Errorf("HEAD learns the location of a capped link: %+v", d)
	}
}

// TestDecide_SkipsUnknownConditions decodes rules as they are stored.
func TestDecide_SkipsUnknownConditions(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"when", "unless"} {
		r := &Routing{}
		text := `{"rules": [{"targets": [{"url": "https://example.com/rule"}], "` + list + `": [{"moon": "FULL"}]}]}`
		must.NoError(t, json.Unmarshal([]byte(text), r))
		if d := Decide(program(r), &Request{Now: noon}); d.Location != "https://example.com/own" {
			t.Errorf("%s: %+v", list, d)
		}
	}
}

func TestDecide_KeepsTargets(t *testing.T) {
	t.Parallel()
	a, b := "https://example.com/a", "https://example.com/b"
	rule := &Rule{Targets: []*Target{{URL: &a, Share: new(1)}, {URL: &b, Share: new(3)}, {Share: new(0)}}}
	program(&Routing{Rules: []*Rule{rule}})
	at := func(stickiness Stickiness, change func(*Request)) Decision {
		copied := *rule
		copied.Stickiness = stickiness
		r := Request{Now: noon, DrawSeed: 1, DrawKey: []byte("key"),
			Visit: Visit{Address: netip.MustParseAddr("192.0.2.1")}}
		change(&r)
		return Decide(program(&Routing{Rules: []*Rule{&copied}}), &r)
	}
	for seed := range uint64(64) {
		if d := at(ByVisitor, func(r *Request) { r.DrawSeed = seed + 1 }); d.Location != at(ByVisitor,
			func(*Request) {}).Location {
			t.Fatalf("seed %d changes the target of a visitor", seed)
		}
		bot := at(NotSticky, func(r *Request) { r.DrawSeed, r.Visit.Bot = seed+1, true })
		if bot.Location != b {
			t.Fatalf("a bot draws %s", bot.Location)
		}
	}
	cookie := func(target int) func(*Request) {
		return func(r *Request) {
			r.Cookies = []string{"x=y; lf_t_rul_other=" + rule.Targets[1].ID, CookieName(rule.ID) + "=gone;" +
				CookieName(rule.ID) + "=" + rule.Targets[target].ID + "; z"}
		}
	}
	for i, want := range []string{a, b} {
		if d := at(ByCookie, cookie(i)); d.Location != want || !d.SetsCookie {
			t.Errorf("cookie of %s: %+v", want, d)
		}
	}
	if d := at(ByCookie, cookie(2)); d.Location != a && d.Location != b {
		t.Errorf("cookie of a paused target: %+v", d)
	}
	private := at(ByCookie, func(r *Request) { cookie(0)(r); r.Visit.Private = true })
	if want := at(ByVisitor, func(*Request) {}); private.Location != want.Location || private.SetsCookie {
		t.Errorf("private: %+v, want %s", private, want.Location)
	}
}

func TestDecide_FallsBack(t *testing.T) {
	t.Parallel()
	own := &Routing{
		PendingURL: new("https://example.net/soon?c={code}"), EndedURL: new("https://example.net/{host}/{code}/"),
	}
	end := noon.Add(-time.Second)
	for name, c := range map[string]struct {
		routing *Routing
		change  func(*Program, *Request)
		want    string
		status  int
	}{
		"unknown": {nil, func(p *Program, _ *Request) { p.Unknown = true }, "https://ws.example/404", 404},
		"deleted": {own, func(p *Program, _ *Request) { p.Deleted = true }, "https://ws.example/404", 404},
		"path":    {nil, func(_ *Program, r *Request) { r.Path = "/x" }, "https://ws.example/404", 404},
		"pending": {own, func(p *Program, _ *Request) { p.Start = noon.UnixMicro() + 1 },
			"https://example.net/soon?c=a%2Fb", 404},
		"pending, none": {nil, func(p *Program, _ *Request) { p.Start = noon.UnixMicro() + 1 },
			"https://ws.example/404", 404},
		"expired": {own, func(p *Program, _ *Request) { p.End = end.UnixMicro() },
			"https://example.net/h.example/a%2Fb/", 410},
		"expired, none": {nil, func(p *Program, _ *Request) { p.End = end.UnixMicro() }, "https://ws.example/410", 410},
		"exhausted": {own, func(_ *Program, r *Request) { r.Exhausted, r.OverQuota = true, true },
			"https://example.net/h.example/a%2Fb/", 410},
		"quota":     {own, func(_ *Program, r *Request) { r.OverQuota = true }, "", 429},
		"disabled":  {own, func(p *Program, _ *Request) { p.Disabled = true }, "", 410},
		"workspace": {own, func(p *Program, _ *Request) { p.WorkspaceDeleted = true }, "", 410},
	} {
		if c.routing == nil {
			c.routing = &Routing{}
		}
		p := program(c.routing)
		p.NotFoundURL, p.EndedURL = "https://ws.example/404", "https://ws.example/410"
		r := Request{Now: noon, Host: "h.example", Code: "a/b"}
		c.change(p, &r)
		for _, head := range []bool{false, true} {
			r.Head = head
			d := Decide(p, &r)
			isRedirect := d.Status == 302
			if d.Location != c.want || d.StatusBeforeFallback() != c.status || d.Page == Redirect ||
				isRedirect != (c.want != "") {
				t.Errorf("%s: HEAD %t: %+v", name, head, d)
			}
		}
	}
}

func TestDecide_AllocatesOnlyTheLocation(t *testing.T) {
	r := &Routing{UTM: &UTM{Source: new("a")}, Query: Forwarding{Mode: Add, Except: []string{"x"}}, ForwardPath: true}
	for range 9 {
		r.Rules = append(r.Rules, toTarget("https://example.com/a", &Condition{Country: []string{"DE", "AT"}}))
	}
	r.Rules = append(r.Rules, toTarget("https://example.com/a"))
	p := program(r)
	request := Request{Now: noon, Query: "a=b", Path: "/c", Visit: Visit{Country: "FR"}}
	if n := testing.AllocsPerRun(100, func() { Decide(p, &request) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
