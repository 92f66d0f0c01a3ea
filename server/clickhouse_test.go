package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click/clickhouse"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// clicksIn opens the clicks of a backend in ClickHouse.
func clicksIn(t *testing.T, b backend, engine *dbtest.ClickHouse) *clickhouse.Store {
	t.Helper()
	d := must.Value(b.open())(t)
	t.Cleanup(func() { _ = d.Close() })
	return clickhouse.New(clickhouse.Config{DB: d, URL: must.Value(url.Parse(engine.URL))(t), Now: time.Now})
}

// expectVerified expects the totals to be those of the clicks.
func expectVerified(t *testing.T, clicks clickstore.Store) {
	t.Helper()
	subjects := must.Value(clicks.Verify(t.Context(), func(d clickstore.Difference) { t.Errorf("differs: %+v", d) }))(t)
	if subjects == 0 {
		t.Error("nothing is verified")
	}
}

// TestClickHouse_SurvivesKills kills the server and ClickHouse by turns, at random times under load: every redirect is
// counted once, in the total and in ClickHouse.
func TestClickHouse_SurvivesKills(t *testing.T) {
	t.Parallel()
	engine := dbtest.NewClickHouse(t)
	b := production(t)
	b.fails = true
	node := start(t, b.inProcesses(), "LINKFORGE_HIT_QUOTA=1000000000", "LINKFORGE_CLICKS_URL="+engine.URL)
	l := node.tenant(t, "killed").shorten(t, "https://example.com/popular").Link
	v := gather(t, node, l.path(node), 16, breath)
	for range suitetest.Size(3, 100) {
		polltest.Elapse(100*time.Millisecond + time.Duration(rand.Int64N(int64(400*time.Millisecond))))
		engine.Kill()
		polltest.Elapse(time.Duration(rand.Int64N(int64(200 * time.Millisecond))))
		engine.Start(t)
		polltest.Elapse(100*time.Millisecond + time.Duration(rand.Int64N(int64(400*time.Millisecond))))
		node.killAndRestart()
	}
	v.endIngested(t, b, l.ID)
	node.stop()
	total, _, rows := clicksOf(t, b, l.ID)
	if seen, unsure := v.seen.Load(), v.unsure.Load(); total < seen || total > seen+unsure || rows > 0 {
		t.Errorf("%d clicks, of %d redirects that were seen and %d requests without an answer; %d rows", total, seen,
			unsure, rows)
	}
	expectVerified(t, clicksIn(t, b, engine))
	t.Logf("%d redirects seen, %d requests without an answer", v.seen.Load(), v.unsure.Load())
}

// TestClickHouse_IsAway: while ClickHouse is down, redirects continue, click counts are available, and
// stats are refused soon. Afterwards every click is counted.
func TestClickHouse_IsAway(t *testing.T) {
	t.Parallel()
	engine := dbtest.NewClickHouse(t)
	b := production(t)
	b.fails = true
	node := start(t, b, "LINKFORGE_HIT_QUOTA=1000000000", "LINKFORGE_CLICKS_URL="+engine.URL)
	who := node.tenant(t, "away")
	l := who.shorten(t, "https://example.com/popular").Link
	v := gather(t, node, l.path(node), 8, breath)
	polltest.Until(t, "clicks are counted", func() bool { return who.getLink(t, l.ID).ClickCount > 0 })
	engine.Kill()
	before := v.seen.Load()
	polltest.Elapse(suitetest.Size(2*time.Second, 10*time.Minute))
	if during := v.seen.Load() - before; during < 100 {
		t.Errorf("%d redirects while ClickHouse was away", during)
	}
	const ask = `query ($id: ID!) { link(by: {id: $id}) { clickCount stats { clicks } } }`
	began := time.Now()
	a := must.Value(who.run(ask, map[string]any{"id": l.ID}))(t)
	if took := time.Since(began); a.code() != "UNAVAILABLE" || took > bounded(2*time.Second) {
		t.Errorf("stats after %s: %s", took, a.body)
	}
	if who.getLink(t, l.ID).ClickCount == 0 {
		t.Error("the number of clicks is not known")
	}
	engine.Start(t)
	v.end()
	if others := v.others(); len(others) > 0 || v.unsure.Load() > 0 {
		t.Errorf("other answers: %v, and %d without one", others, v.unsure.Load())
	}
	polltest.Until(t, "every click is counted", func() bool { return who.getLink(t, l.ID).ClickCount == v.seen.Load() })
	got := who.ask(t, ask, map[string]any{"id": l.ID}).at("link.stats.clicks")
	if got != float64(v.seen.Load()) {
		t.Errorf("stats have %v clicks, want %d", got, v.seen.Load())
	}
	node.stop()
	expectVerified(t, clicksIn(t, b, engine))
}

// TestClickHouse_AnswersWithTheSameBytes: exports and the public page of a link do not show where its clicks are.
func TestClickHouse_AnswersWithTheSameBytes(t *testing.T) {
	t.Parallel()
	aWholeDay(t)
	eachBackend(t, func(t *testing.T, b backend) {
		engine := dbtest.NewClickHouse(t)
		s := start(t, b.inProcesses())
		who := s.tenant(t, "exported")
		links := []linkView{
			who.shorten(t, "https://example.com/a", "statsPublic", true).Link,
			who.shorten(t, "https://example.com/b").Link,
		}
		const visits = 40
		for i := range visits {
			l := links[i%len(links)]
			s.visit(t, "GET", l.path(s)+fmt.Sprintf("?utm_source=source-%d", i%3), fmt.Sprintf("127.0.0.%d", 2+i%5),
				"User-Agent", []string{chromeOnWindows, "curl/8", ""}[i%3], "Referer",
				fmt.Sprintf("https://from-%d.example/", i%4))
		}
		answers := func() (all []string) {
			for _, in := range [][]any{nil, {"format", "JSON_LINES"}, {"linkId", links[0].ID},
				{"filter", map[string]any{"bots": false}}} {
				all = append(all, s.expect(t, http.StatusOK, "GET", who.exportURL(t, who.workspaceID, in...)).body)
			}
			return append(all, s.expect(t, http.StatusOK, "GET", links[0].path(s)+"+").body)
		}
		polltest.Until(t, "the clicks are counted", func() bool {
			return who.getLink(t, links[0].ID).ClickCount+who.getLink(t, links[1].ID).ClickCount == visits
		})
		inSQL := answers()
		if strings.Count(inSQL[1], "\n") != visits {
			t.Errorf("%d lines are exported, want %d", strings.Count(inSQL[1], "\n"), visits)
		}
		s.stop()
		s.env = append(slices.Clone(s.env), "LINKFORGE_CLICKS_URL="+engine.URL)
		succeed(t, s.env, "clicks", "copy")
		d := must.Value(b.open())(t)
		defer d.Close()
		must.Value(d.NewRaw("DELETE FROM clicks").Exec(db.AsSystem(t.Context())))(t) // they would answer, too
		s.again()
		inClickHouse := answers()
		for i := range inSQL {
			if inSQL[i] != inClickHouse[i] {
				t.Errorf("answer %d differs (-SQL +ClickHouse):\n%s", i, cmp.Diff(inSQL[i], inClickHouse[i]))
			}
		}
	})
}
