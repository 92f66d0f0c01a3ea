package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// modelTarget is a target of a rule.
type modelTarget struct {
	id, url string
	share   int
	// isOnce means that the target has a maximum of one click, isUsed that it has had it.
	isOnce, isUsed bool
}

// modelRule is a rule whose meaning is evaluated naively.
type modelRule struct {
	id           string
	when, unless []modelCondition
	targets      []modelTarget
	stickiness   string
	isDisabled   bool
}

func (r *modelRule) holds(v *modelVisit) bool {
	for _, c := range r.when {
		if !c.holds(v) {
			return false
		}
	}
	for _, c := range r.unless {
		if c.holds(v) {
			return false
		}
	}
	return true
}

// choices returns the targets that a visit may get.
func (r *modelRule) choices(v *modelVisit) (choices []*modelTarget) {
	var largest *modelTarget
	for i := range r.targets {
		t := &r.targets[i]
		if t.share == 0 || t.isUsed && !v.head {
			continue
		}
		choices = append(choices, t)
		if largest == nil || t.share > largest.share {
			largest = t
		}
		if r.stickiness == "COOKIE" && !v.private && !v.bot && !v.head && v.cookieFor == t.id {
			return []*modelTarget{t}
		}
	}
	if len(choices) > 0 && (v.bot || v.head) {
		return []*modelTarget{largest}
	}
	return choices
}

func (r *modelRule) input() map[string]any {
	inputs := func(conditions []modelCondition) (all []any) {
		for _, c := range conditions {
			all = append(all, c.input)
		}
		return all
	}
	var targets []any
	for _, t := range r.targets {
		target := map[string]any{"share": t.share}
		if t.url != "" {
			target["url"] = t.url
		}
		if t.isOnce {
			target["maxClicks"] = 1
		}
		targets = append(targets, target)
	}
	return map[string]any{
		"when": inputs(r.when), "unless": inputs(r.unless), "enabled": !r.isDisabled, "targets": targets,
		"stickiness": r.stickiness,
	}
}

// modelLink is a link with all that determines its answers.
type modelLink struct {
	modelForwarding
	view                 linkView
	slug, host, url      string
	status               int
	rules                []*modelRule
	pendingURL, endedURL string
	startsAt, expiresAt  time.Time
	isDeleted            bool
	// maxClicks is zero for no limit. A limit of one is used up by the first visit.
	maxClicks int
	isUsed    bool
}

// anyLink chooses a link at random.
func anyLink(random *rand.Rand, name string, now time.Time) *modelLink {
	l := &modelLink{
		modelForwarding: anyForwarding(random), url: anyDestination(random, name, true),
		status: []int{301, 302, 307, 308}[random.IntN(4)],
	}
	for k := range random.IntN(8) {
		l.rules = append(l.rules, anyRule(random, fmt.Sprintf("%s-%d", name, k), now))
	}
	if random.IntN(2) == 0 {
		l.pendingURL = "https://example.com/soon/{code}?host={host}&x=1#f"
	}
	if random.IntN(2) == 0 {
		l.endedURL = "https://example.com/over?c={code}"
	}
	switch random.IntN(12) {
	case 0:
		l.startsAt = now.Add(2 * time.Hour)
	case 1:
		l.expiresAt = now.Add(2 * time.Hour)
	case 2:
		l.expiresAt = now // saveAll replaces it with a time one second after creation
	case 3:
		l.isDeleted = true
	case 4:
		l.maxClicks = 1_000_000
	case 5:
		l.maxClicks = 1
	}
	return l
}

func anyRule(random *rand.Rand, name string, now time.Time) *modelRule {
	r := &modelRule{
		isDisabled: random.IntN(8) == 0, stickiness: []string{"NONE", "VISITOR", "COOKIE"}[random.IntN(3)],
	}
	for range random.IntN(3) {
		r.when = append(r.when, anyCondition(random, now))
	}
	for range random.IntN(2) {
		r.unless = append(r.unless, anyCondition(random, now))
	}
	if random.IntN(4) == 0 { // schedules alone: few instants distinguish them
		r.when, r.unless = []modelCondition{weeklyCondition(random, now)}, nil
	}
	for i := range max(1, random.IntN(6)-2) {
		t := modelTarget{share: 1 + random.IntN(3)}
		t.url = anyDestination(random, fmt.Sprintf("%s-%d", name, i), i == 0 && strings.HasSuffix(name, "-0"))
		if i > 0 {
			t.share = random.IntN(4)
		}
		if random.IntN(8) == 0 {
			t.url = ""
		}
		r.targets = append(r.targets, t)
	}
	r.targets[0].isOnce = len(r.targets) == 1 && random.IntN(4) == 0
	random.Shuffle(len(r.targets), func(i, j int) { r.targets[i], r.targets[j] = r.targets[j], r.targets[i] })
	return r
}

func (l *modelLink) anyRule(random *rand.Rand) *modelRule {
	if len(l.rules) == 0 {
		return nil
	}
	return l.rules[random.IntN(len(l.rules))]
}

// save creates the link. Its view is that of the server.
func (l *modelLink) save(t *testing.T, who tenant) {
	t.Helper()
	routing := map[string]any{}
	l.addTo(routing)
	var rules []any
	for _, r := range l.rules {
		rules = append(rules, r.input())
	}
	routing["rules"] = rules
	in := map[string]any{
		"workspaceId": who.workspaceID, "url": l.url, "strategy": "RANDOM", "redirectStatus": l.status,
		"routing": routing,
	}
	for field, url := range map[string]string{"pendingUrl": l.pendingURL, "endedUrl": l.endedURL} {
		if url != "" {
			routing[field] = url
		}
	}
	for field, at := range map[string]time.Time{"startsAt": l.startsAt, "expiresAt": l.expiresAt} {
		if !at.IsZero() {
			in[field] = at.Format(time.RFC3339Nano)
		}
	}
	if l.maxClicks > 0 {
		in["maxClicks"] = l.maxClicks
	}
	var got struct {
		CreateLink struct {
			Link struct {
				linkView
				Routing struct {
					Rules []struct {
						ID      string
						Targets []struct{ ID string }
					}
				}
			}
			Errors []userError
		}
	}
	who.must(t, &got, `mutation ($in: CreateLinkInput!) { createLink(input: $in) { errors { code message field }
		link { id code shortUrl routing { rules { id: ruleId targets { id: targetId } } } } } }`,
		map[string]any{"in": in})
	if len(got.CreateLink.Errors) > 0 {
		t.Fatalf("%s: %+v", l, got.CreateLink.Errors)
	}
	l.view, l.slug = got.CreateLink.Link.linkView, who.slug
	l.host, _, _ = strings.Cut(strings.TrimPrefix(who.public, "http://"), ":")
	for i, r := range l.rules {
		r.id = got.CreateLink.Link.Routing.Rules[i].ID
		for j := range r.targets {
			r.targets[j].id = got.CreateLink.Link.Routing.Rules[i].Targets[j].ID
		}
	}
	if l.isDeleted {
		who.remove(t, l.view.ID)
	}
}

// shortPath returns the path of the short URL that a visit follows.
func (l *modelLink) shortPath(v *modelVisit) string {
	if v.atRoot {
		return "/" + l.view.Code
	}
	return "/" + l.slug + "/" + l.view.Code
}
