package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// creations is the number of links that are created between two kills, and creationKills the number of kills: more in
// the field.
var (
	creations     = suitetest.Size(60, 150)
	creationKills = suitetest.Size(1, 3)
)

// creators create links in several workspaces on all nodes at the same time.
type creators struct {
	nodes   []*server
	tenants []tenant
	done    atomic.Int64

	mu sync.Mutex
	// seen are the codes that callers have received, by the workspace and the URL.
	seen map[[2]string]string
}

// TestCreations_SurviveKills kills nodes while they create links, many of them twice.
func TestCreations_SurviveKills(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b.inProcesses(), b.nodes)
		createDuringKills(t, b, nodes, func(n int) { nodes[n%len(nodes)].killAndRestart() })
	})
}

// TestFault_CreationsSurviveCrashesOfPostgreSQL kills all processes of PostgreSQL while it creates links.
func TestFault_CreationsSurviveCrashesOfPostgreSQL(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	pair := dbtest.NewPair(t)
	b := onPostgres(t, pair.URL)
	b.fails = true
	createDuringKills(t, b, startAll(t, b, 2), func(int) { pair.CrashPrimary(t) })
}

// createDuringKills creates links, and kills something meanwhile. Afterwards each link that a caller has received
// exists, no URL has two links, and the quota that each workspace has used equals its links.
func createDuringKills(t *testing.T, b backend, nodes []*server, kill func(n int)) {
	t.Helper()
	c := &creators{nodes: nodes, seen: map[[2]string]string{}}
	for n := range 6 {
		c.tenants = append(c.tenants, nodes[0].tenant(t, fmt.Sprint("creator-", n)))
	}
	var running sync.WaitGroup
	for range 24 {
		running.Go(func() {
			for int(c.done.Load()) < creations*(creationKills+1) {
				if err := c.createOne(t); err == nil {
					c.done.Add(1)
				} else if poll.Wait(t.Context(), pollEvery) != nil { // something is restarting
					return
				}
			}
		})
	}
	for n := range creationKills {
		polltest.Until(t, "it is time to kill", func() bool { return int(c.done.Load()) >= creations*(n+1) })
		kill(n)
	}
	running.Wait()
	c.compare(t, b)
}

// createOne creates a link of one of a few URLs.
func (c *creators) createOne(t *testing.T) error {
	w := c.tenants[rand.IntN(len(c.tenants))].onServer(c.nodes[rand.IntN(len(c.nodes))])
	url := fmt.Sprint("https://example.com/", rand.IntN(creations/2))
	got, err := w.create(url)
	if err != nil {
		return fmt.Errorf("creating a link: %w", err)
	}
	if len(got.Errors) > 0 {
		return fmt.Errorf("creating a link: %v", got.Errors)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{w.workspaceID, url}
	if code := c.seen[key]; code != "" && code != got.Link.Code {
		t.Errorf("%s has the codes %s and %s", url, code, got.Link.Code)
	}
	c.seen[key] = got.Link.Code
	return nil
}

// compare compares the links and the quotas in the database with what callers have received.
func (c *creators) compare(t *testing.T, b backend) {
	t.Helper()
	d, err := b.open()
	must.NoError(t, err)
	defer func() { _ = d.Close() }()
	var links []struct{ WorkspaceID, OriginalURL, Code string }
	err = d.NewSelect().Table("links").Column("workspace_id", "original_url", "code").
		Scan(db.AsSystem(t.Context()), &links)
	must.NoError(t, err)
	codes, count := map[[2]string]string{}, map[string]int64{}
	for _, l := range links {
		key := [2]string{l.WorkspaceID, l.OriginalURL}
		if codes[key] != "" {
			t.Errorf("%s has two links", l.OriginalURL)
		}
		codes[key] = l.Code
		count[l.WorkspaceID]++
	}
	for key, code := range c.seen {
		if codes[key] != code {
			t.Errorf("%s: a caller has received %s, and the code is %q", key[1], code, codes[key])
		}
	}
	for _, w := range c.tenants {
		if used := w.linksUsed(t); used != count[w.workspaceID] {
			t.Errorf("%d links are %d of the quota", count[w.workspaceID], used)
		}
	}
	t.Logf("%d links, %d calls with a response", len(links), c.done.Load())
	if d.Kind != db.Postgres {
		return
	}
	var shared int
	err = d.NewRaw(`SELECT count(*) FROM (SELECT xid FROM audit_events WHERE action = 'LINK_CREATED' GROUP BY xid
		HAVING count(DISTINCT workspace_id) > 1) AS statements`).Scan(db.AsSystem(t.Context()), &shared)
	if err != nil || shared == 0 {
		t.Errorf("%d statements created links in several workspaces: %v", shared, err)
	}
}
