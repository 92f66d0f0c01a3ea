package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/suitetest"
)

// TestExplainRedirect_AgreesWithRedirects follows random links and explains the same visits. Of draws,
// the response must be that of a candidate.
func TestExplainRedirect_AgreesWithRedirects(t *testing.T) {
	t.Parallel()
	links, pairs := suitetest.Size(12, 24), suitetest.Size(200, 600)
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := modelServers(t, b)
		who := nodes[0].tenant(t, "explained")
		now := time.Now().UTC().Truncate(time.Minute)
		all := saveAll(t, who, rand.New(rand.NewPCG(29, uint64(links))), links, now, false)
		for _, l := range all {
			if l.maxClicks == 1 { // visits of exhausted links change nothing
				nodes[0].expect(t, l.status, "GET", l.view.path(nodes[0]))
			}
		}
		inParallel((pairs+explainedAtOnce-1)/explainedAtOnce, func(i int) {
			random := rand.New(rand.NewPCG(30, uint64(i)))
			n := min(explainedAtOnce, pairs-i*explainedAtOnce)
			chosen, visits := make([]*modelLink, n), make([]modelVisit, n)
			for k := range n {
				chosen[k] = all[random.IntN(len(all))]
				visits[k] = anyVisit(random, chosen[k])
				visits[k].head = false // is not explained
			}
			explained, err := who.onServer(nodes[i%len(nodes)]).explainSome(chosen, visits)
			if err != nil {
				t.Error(err)
				return
			}
			for k, e := range explained {
				wantExplained(t, nodes[random.IntN(len(nodes))], chosen[k], &visits[k], &e)
			}
		})
	})
}

// wantExplained follows a link, and compares the response with the explanation of the visit.
func wantExplained(t *testing.T, s *server, l *modelLink, v *modelVisit, e *explanation) {
	t.Helper()
	got, err := s.sendAgain(v.request(s, l))
	if err != nil {
		t.Error(err)
		return
	}
	locations := []string{e.Location}
	for _, at := range e.Candidates {
		url := l.rules[e.RuleIndex].targets[at].url
		if url == "" {
			url = l.url
		}
		locations = append(locations, l.location(url, v))
	}
	if len(e.Candidates) == 1 {
		locations = locations[:1]
	}
	if location := got.header.Get("Location"); got.status != e.Status || !slices.Contains(locations, location) {
		t.Errorf("%+v\nis answered %d %.300s, and explained as %d %.300s: %+v\n%s", v, got.status, location, e.Status,
			locations, e.Steps, l)
	}
}
