package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// comparison compares a link with its model.
type comparison struct {
	t      *testing.T
	nodes  []*server
	who    tenant
	link   *modelLink
	random *rand.Rand
}

func (c *comparison) node() *server { return c.nodes[c.random.IntN(len(c.nodes))] }

// follow sends a visit.
func (c *comparison) follow() {
	v := anyVisit(c.random, c.link)
	s := c.node()
	got, err := s.sendAgain(v.request(s, c.link))
	if err != nil {
		c.t.Error(err)
		return
	}
	location := got.header.Get("Location")
	if want := c.link.follow(&v); !want.has(got.status, location) {
		c.t.Errorf("%+v\nis answered %d %.300s, want %d %.300s:\n%s", v, got.status, location, want.status,
			want.locations, c.link)
	}
	if v.private && got.header.Get("Set-Cookie") != "" {
		c.t.Errorf("%+v: a private visitor gets a cookie", v)
	}
}

// explain explains visits at several instants, without changing the link.
func (c *comparison) explain(n int, now time.Time) {
	var visits []modelVisit
	for range n {
		v := anyVisit(c.random, c.link)
		v.head = false
		v.at = explainedAt(c.random, now)
		visits = append(visits, v)
	}
	explained, err := c.who.onServer(c.node()).explainAll(c.link, visits)
	if err != nil {
		c.t.Error(err)
		return
	}
	for i, got := range explained {
		v := visits[i]
		if v.at.IsZero() {
			v.at = time.Now()
		}
		want := c.link.decide(&v)
		if !want.has(got.Status, got.Location) {
			c.t.Errorf("%+v\nis explained as %d %.300s, want %d %.300s: %+v\n%s", v, got.Status, got.Location,
				want.status, want.locations, got.Steps, c.link)
		}
		for _, at := range got.Candidates {
			url := cmp.Or(c.link.rules[got.RuleIndex].targets[at].url, c.link.url)
			if !slices.Contains(want.locations, c.link.location(url, &v)) {
				c.t.Errorf("%+v\nhas the candidate %s, want %q:\n%s", v, url, want.locations, c.link)
			}
		}
		if n := len(got.Candidates); n > 1 && n != len(want.locations) {
			c.t.Errorf("%+v\nhas %d candidates, want %q:\n%s", v, n, want.locations, c.link)
		}
	}
}

// explainedAt chooses an instant: now, on the minutes at which conditions may change, just before one,
// or in the hour in which clocks are changed.
func explainedAt(random *rand.Rand, now time.Time) time.Time {
	at := now.Add(time.Duration(random.IntN(14*24)-7*24) * time.Hour)
	switch random.IntN(4) {
	case 0:
		return time.Time{}
	case 1:
		return at.Add(-time.Microsecond)
	case 2:
		change := []time.Time{
			time.Date(2026, time.March, 29, 0, 30, 0, 0, time.UTC),
			time.Date(2026, time.October, 25, 0, 30, 0, 0, time.UTC),
		}[random.IntN(2)]
		return change.Add(time.Duration(random.IntN(4)) * 30 * time.Minute)
	}
	return at
}

// explainedAtOnce is the number of explanations in one operation, which has at most 1,000 tokens.
const explainedAtOnce = 25

// explainAll explains visits of a link, in few operations.
func (w tenant) explainAll(l *modelLink, visits []modelVisit) (all []explanation, err error) {
	for len(visits) > 0 {
		n := min(len(visits), explainedAtOnce)
		links := make([]*modelLink, n)
		for i := range links {
			links[i] = l
		}
		some, err := w.explainSome(links, visits[:n])
		if err != nil {
			return nil, err
		}
		all, visits = append(all, some...), visits[n:]
	}
	return all, nil
}

// explainSome explains visits, each of a link, in one operation.
func (w tenant) explainSome(links []*modelLink, visits []modelVisit) ([]explanation, error) {
	var declared, fields strings.Builder
	variables := map[string]any{}
	for i := range visits {
		fmt.Fprintf(&declared, "$u%d: String!, $v%d: VisitSampleInput, ", i, i)
		fmt.Fprintf(&fields, "e%d: explainRedirect(by: {shortUrl: $u%d}, visit: $v%d) { ...e }\n", i, i, i)
		variables[fmt.Sprint("u", i)] = w.public + links[i].shortPath(&visits[i])
		variables[fmt.Sprint("v", i)] = visits[i].sample()
	}
	var data map[string]*explanation
	err := w.tryAgain(&data, "query ("+declared.String()+") {\n"+fields.String()+`}
		fragment e on RedirectExplanation { status location ruleIndex candidates
			steps { step outcome detail } }`, variables)
	if err != nil {
		return nil, err
	}
	all := make([]explanation, len(visits))
	for i := range all {
		e := data[fmt.Sprint("e", i)]
		if e == nil {
			return nil, fmt.Errorf("%s is not explained", variables[fmt.Sprint("u", i)])
		}
		all[i] = *e
	}
	return all, nil
}

// String describes the link in a failure.
func (l *modelLink) String() string {
	b := new(strings.Builder)
	fmt.Fprintf(b, "%s %.200s %+v, from %s to %s, at most %d (used: %t), deleted: %t\n", l.view.Code, l.url,
		l.modelForwarding, l.startsAt, l.expiresAt, l.maxClicks, l.isUsed, l.isDeleted)
	for _, r := range l.rules {
		text, _ := json.Marshal(r.input()) // plain data
		fmt.Fprintf(b, "\t%.1000s\n", text)
	}
	return b.String()
}
