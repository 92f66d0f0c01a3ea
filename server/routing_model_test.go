package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor/visitortest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// outcome is a status with the locations that a draw may choose.
type outcome struct {
	status    int
	locations []string
	// target is the one that the visit gets; nil if it is drawn, or the link's own URL.
	target *modelTarget
}

func (o *outcome) has(status int, location string) bool {
	return status == o.status && slices.Contains(o.locations, location)
}

// fallback returns a redirect to a fallback URL, if there is one, else a page.
func (l *modelLink) fallback(url string, status int) outcome {
	if url == "" {
		return outcome{status: status, locations: []string{""}}
	}
	url = strings.ReplaceAll(strings.ReplaceAll(url, "{code}", l.view.Code), "{host}", l.host)
	return outcome{status: 302, locations: []string{url}}
}

// decide returns the answer to a visit.
func (l *modelLink) decide(v *modelVisit) outcome {
	isAfter := func(at time.Time) bool { return !at.IsZero() && !v.at.Before(at) }
	switch {
	case v.path != "" && v.path != "/" && (v.atRoot || !l.forwardPath || v.pathRefused), l.isDeleted:
		return l.fallback("", 404)
	case !l.startsAt.IsZero() && !isAfter(l.startsAt):
		return l.fallback(l.pendingURL, 404)
	case isAfter(l.expiresAt), l.isUsed:
		return l.fallback(l.endedURL, 410)
	}
	answer := outcome{status: l.status}
	hidesLocation := v.head && l.maxClicks > 0
	targets := []*modelTarget{{url: l.url}}
	isChosen := false
	for _, r := range l.rules {
		if r.isDisabled {
			continue
		}
		hidesLocation = hidesLocation || v.head && r.targets[0].isOnce
		if isChosen || !r.holds(v) {
			continue
		}
		if choices := r.choices(v); len(choices) > 0 {
			targets, isChosen = choices, true
		}
	}
	if len(targets) == 1 {
		answer.target = targets[0]
	}
	for _, t := range targets {
		url := t.url
		if url == "" {
			url = l.url
		}
		answer.locations = append(answer.locations, l.location(url, v))
	}
	if hidesLocation {
		answer.locations = []string{""}
	}
	return answer
}

// follow returns the answer to a visit now, and changes the link as the visit does.
func (l *modelLink) follow(v *modelVisit) outcome {
	v.at = time.Now()
	answer := l.decide(v)
	if !v.head && answer.status == l.status && answer.target != nil {
		answer.target.isUsed = answer.target.isOnce
	}
	isRedirect := answer.target != nil || len(answer.locations) > 1
	l.isUsed = l.isUsed || l.maxClicks == 1 && isRedirect && !v.head
	return answer
}

// modelServers start servers with a country database.
func modelServers(t *testing.T, b backend) []*server {
	t.Helper()
	countries := filepath.Join(t.TempDir(), "countries.mmdb")
	must.NoError(t, visitortest.WriteCountries(countries, modelCountries))
	return startAll(t, b, b.nodes, "LINKFORGE_TRUSTED_PROXIES=127.0.0.1", "LINKFORGE_GEOIP="+countries,
		"LINKFORGE_HIT_QUOTA=1000000000")
}

// saveAll creates links at random, and waits for the end of those that expire.
func saveAll(t *testing.T, who tenant, random *rand.Rand, n int, now time.Time) (all []*modelLink) {
	t.Helper()
	var last time.Time
	for i := range n {
		l := anyLink(random, fmt.Sprint("l", i), now)
		if l.expiresAt.Equal(now) {
			l.expiresAt = time.Now().Add(time.Second).Truncate(time.Microsecond).UTC()
			last = l.expiresAt
		}
		l.save(t, who)
		all = append(all, l)
	}
	polltest.Until(t, "links have expired", func() bool { return time.Now().After(last) })
	return all
}

// TestRouting_AgreesWithAModel compares responses and explanations with a naive evaluation of random
// links, for random visits.
func TestRouting_AgreesWithAModel(t *testing.T) {
	t.Parallel()
	links, visits := suitetest.Size(12, 24), suitetest.Size(12, 25)
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := modelServers(t, b)
		who := nodes[0].tenant(t, "modeled")
		now := time.Now().UTC().Truncate(time.Minute)
		all := saveAll(t, who, rand.New(rand.NewPCG(27, uint64(links))), links, now)
		inParallel(len(all), func(i int) {
			random := rand.New(rand.NewPCG(28, uint64(i)))
			compared := &comparison{t: t, nodes: nodes, who: who, link: all[i], random: random}
			compared.explain(visits/2, now)
			for range visits {
				compared.follow()
			}
			compared.explain(visits-visits/2, now)
		})
	})
}

// inParallel calls a function with the numbers below n, several at once.
func inParallel(n int, call func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range 6 {
		all.Go(func() {
			for i := range next {
				call(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}
