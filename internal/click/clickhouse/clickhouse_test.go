package clickhouse_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickhouse"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clickstore/clickstoretest"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// database returns the URL of an empty database; without ClickHouse the test is skipped.
func database(t *testing.T) *url.URL {
	t.Helper()
	server := os.Getenv("LINKFORGE_TEST_CLICKHOUSE_URL")
	if server == "" {
		t.Skip("runs by make test-clickhouse")
	}
	u := must.Value(url.Parse(server))(t)
	u.Path = "/test_" + strings.TrimPrefix(id.New(id.Log), string(id.Log))
	statement(t, server, "CREATE DATABASE "+u.Path[1:])
	t.Cleanup(func() { statement(t, server, "DROP DATABASE "+u.Path[1:]) })
	return u
}

// answer returns the result of a query.
func answer(t *testing.T, database *url.URL, question string) string {
	t.Helper()
	to := *database
	to.RawQuery, to.Path = url.Values{"database": {database.Path[1:]}}.Encode(), "/"
	response := must.Value(http.Post(to.String(), "text/plain", strings.NewReader(question)))(t)
	defer response.Body.Close()
	return strings.TrimSpace(string(must.Value(io.ReadAll(response.Body))(t)))
}

func statement(t *testing.T, server, text string) {
	t.Helper()
	answer := must.Value(http.Post(server+"/", "text/plain", strings.NewReader(text)))(t)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", text, answer.Status)
	}
}

// unreliable is a way to ClickHouse on which one statement fails.
type unreliable struct {
	*httptest.Server
	mu    sync.Mutex
	until int // statements before the one
	how   failure
	held  func() // sends the statement that is late
}

// failure is how a statement fails.
type failure int

// A statement is lost, or its answer is, or it arrives after it was given up.
const (
	lost failure = iota
	unanswered
	delayed
	failures
)

func newUnreliable(t *testing.T, to *url.URL) *unreliable {
	t.Helper()
	way := &unreliable{until: -1}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	way.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		way.mu.Lock()
		fails := way.until == 0
		way.until--
		if fails && way.how == delayed {
			body, _ := io.ReadAll(r.Body)
			late := r.Clone(context.Background())
			way.held = func() {
				late.Body = io.NopCloser(bytes.NewReader(body))
				forward.ServeHTTP(httptest.NewRecorder(), late)
			}
		}
		way.mu.Unlock()
		if fails && way.how == unanswered {
			forward.ServeHTTP(httptest.NewRecorder(), r)
		}
		if fails {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(way.Close)
	return way
}

// try calls f with one of its statements failing, in each way of the failure's turn, and reports
// whether it has that many. A late statement arrives after f was called again without a failure.
func (u *unreliable) try(step int, f func()) (more bool) {
	u.mu.Lock()
	u.until, u.how, u.held = step/int(failures), failure(step%int(failures)), nil
	u.mu.Unlock()
	f()
	u.mu.Lock()
	more, u.until = u.until < 0, -1
	u.mu.Unlock()
	return more
}

// arrive has the statement that is late arrive.
func (u *unreliable) arrive() {
	if u.held != nil {
		u.held()
	}
}

// failing is a World whose clicks are in ClickHouse, with statements that fail.
type failing struct {
	*clicktest.World
	*unreliable
	store  *clickhouse.Store
	random *rand.Rand
}

func eachFailing(t *testing.T, test func(*testing.T, *failing)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		to := database(t)
		f := &failing{unreliable: newUnreliable(t, to), random: rand.New(rand.NewPCG(48, 9))}
		u := must.Value(url.Parse(f.URL + to.Path))(t)
		f.World = clicktest.NewWorldOf(t, d, func(now func() time.Time) clickstore.Store {
			f.store = clickhouse.New(clickhouse.Config{DB: d, URL: u, ReadTimeout: time.Minute, Now: now,
				ClickMonths: 1})
			return f.store
		})
		f.FirstInTime = true
		test(t, f)
	})
}

// draw draws clicks with positions behind those of others.
func (f *failing) draw(n int, from, to time.Time, behind []click.Click) []click.Click {
	for range n {
		c := f.Draw(f.random, from, to)
		c.End = f.Position + int64(len(behind)) + 1
		behind = append(behind, c)
	}
	return behind
}

// check compares everything with the clicks that were written.
func (f *failing) check(t *testing.T, from, to time.Time) {
	t.Helper()
	f.CheckTotals(t)
	f.VerifyRollups(t)
	for _, m := range f.Members {
		q := f.All(m, from, to)
		f.Check(t, f.random, q)
	}
}

// everyFailure calls prepare and then a job, one statement of which fails, until each statement has
// failed. Every stride-th failure is tried.
func (f *failing) everyFailure(
	t *testing.T, stride int, prepare func(), job func(context.Context) error, check func(),
) {
	t.Helper()
	for step := 0; ; step += stride {
		prepare()
		more := f.try(step, func() { _ = job(t.Context()) })
		must.NoError(t, job(t.Context()))
		f.arrive()
		if check(); t.Failed() {
			t.Fatalf("failure %d of statement %d", step%int(failures), step/int(failures))
		}
		if !more {
			return
		}
	}
}

// TestWrite_SurvivesLostStatements: a retried batch counts once, also if another batch is tried.
func TestWrite_SurvivesLostStatements(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(t *testing.T, f *failing) {
		var pending []click.Click
		to, step := int64(0), 0
		f.everyFailure(t, 1, func() {
			pending = f.draw(4, clicktest.Noon.Add(-40*time.Hour), clicktest.Noon, nil)
			// it is late
			pending = f.draw(1, clicktest.Noon.Add(-9*click.Day), clicktest.Noon.Add(-8*click.Day), pending)
			to, step = pending[len(pending)-1].End, step+1
		}, func(ctx context.Context) error {
			return f.store.Write(ctx, clickstore.Batch{Log: f.Log, To: to, Clicks: pending})
		}, func() {
			f.Position = to
			f.Remember(pending)
			f.check(t, clicktest.Noon.Add(-10*click.Day), clicktest.Noon.Add(click.Day))
		})
	})
}

// TestRebuild_LeavesOutWhatIsNotCounted: clicks of a batch without an end are counted once it is
// written again.
func TestRebuild_LeavesOutWhatIsNotCounted(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(t *testing.T, f *failing) {
		pending := f.draw(5, clicktest.Noon.Add(-time.Hour), clicktest.Noon, nil)
		b := clickstore.Batch{Log: f.Log, To: pending[4].End, Clicks: pending}
		must.NoError(t, f.store.Write(t.Context(), clickstore.Batch{Log: f.Log + "x", To: 1, Clicks: pending[:1]}))
		f.Remember(pending[:1])
		for step := int(unanswered); ; step += int(failures) {
			more := f.try(step, func() {
				_ = f.store.Write(t.Context(), b)
			})
			if !more { // it is written
				break
			}
			f.VerifyRollups(t)
			must.Value(f.store.Rebuild(t.Context()))(t)
			f.CheckTotals(t)
		}
		f.Remember(pending)
		f.check(t, clicktest.Noon.Add(-2*click.Day), clicktest.Noon.Add(click.Day))
	})
}

// TestRebuild_LeavesMovingLinks: the clicks of a link that was just claimed are still to be moved.
func TestRebuild_LeavesMovingLinks(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(t *testing.T, f *failing) {
		link := click.Click{WorkspaceID: id.PublicWorkspace, LinkID: id.New(id.Link)}
		f.Links = append(f.Links, link)
		clicks := f.draw(4, clicktest.Noon.Add(-40*time.Hour), clicktest.Noon, nil)
		for i := range clicks {
			clicks[i].WorkspaceID, clicks[i].LinkID = link.WorkspaceID, link.LinkID
		}
		f.Position = clicks[3].End
		f.World.Write(t, clicks...)
		must.NoError(t, f.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			return f.store.Move(ctx, tx, link.LinkID, f.Members[0].ID())
		}))
		f.Moved(link.LinkID)
		f.VerifyRollups(t)
		must.Value(f.store.Rebuild(t.Context()))(t)
		f.CheckTotals(t)
		must.NoError(t, f.store.MoveClicks(t.Context()))
		f.check(t, clicktest.Noon.Add(-10*click.Day), clicktest.Noon.Add(click.Day))
	})
}

// TestWrite_TriesAnotherBatch: the batch after a failure is a part of the one that failed.
func TestWrite_TriesAnotherBatch(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(t *testing.T, f *failing) {
		for step := range 3 * int(failures) {
			pending := f.draw(5, clicktest.Noon.Add(-40*time.Hour), clicktest.Noon, nil)
			f.try(step, func() {
				_ = f.store.Write(t.Context(), clickstore.Batch{Log: f.Log, To: pending[4].End, Clicks: pending})
			})
			for _, n := range []int{2, 5} {
				must.NoError(t,
					f.store.Write(t.Context(), clickstore.Batch{Log: f.Log, To: pending[n-1].End, Clicks: pending[:n]}))
			}
			f.arrive()
			f.Position = pending[4].End
			f.Remember(pending)
		}
		f.check(t, clicktest.Noon.Add(-10*click.Day), clicktest.Noon.Add(click.Day))
	})
}

// TestMoveClicks_SurvivesLostStatements moves a link for each of them.
func TestMoveClicks_SurvivesLostStatements(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(t *testing.T, f *failing) {
		owner := f.Members[0].ID()
		f.everyFailure(t, 1, func() {
			link := click.Click{WorkspaceID: id.PublicWorkspace, LinkID: id.New(id.Link)}
			f.Links = append(f.Links, link)
			clicks := f.draw(4, clicktest.Noon.Add(-40*time.Hour), clicktest.Noon, nil)
			clicks = f.draw(4, clicktest.Noon.Add(-9*click.Day), clicktest.Noon.Add(-8*click.Day), clicks)
			for i := range clicks {
				clicks[i].WorkspaceID, clicks[i].LinkID = link.WorkspaceID, link.LinkID
			}
			f.Position = clicks[7].End
			f.World.Write(t, clicks...)
			must.NoError(t, f.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				return f.store.Move(ctx, tx, link.LinkID, owner)
			}))
			f.Moved(link.LinkID)
		}, f.store.MoveClicks, func() {
			f.check(t, clicktest.Noon.Add(-10*click.Day), clicktest.Noon.Add(click.Day))
		})
	})
}

// TestSeal_SurvivesLostStatements seals a day for each of them.
func TestSeal_SurvivesLostStatements(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(t *testing.T, f *failing) {
		day := clicktest.Noon.Truncate(click.Day)
		f.everyFailure(t, 1, func() {
			day = day.Add(click.Day)
			f.Set(day.Add(click.Day))
			f.World.Write(t, f.draw(6, day, day.Add(click.Day), nil)...)
			f.Set(day.Add(4*click.Day + time.Hour))
		}, f.store.Seal, func() { f.check(t, day.Add(-3*click.Day), day.Add(click.Day)) })
	})
}

// TestRetain_SurvivesLostStatements deletes a month for each of some.
func TestRetain_SurvivesLostStatements(t *testing.T) {
	t.Parallel()
	eachFailing(t, func(t *testing.T, f *failing) {
		m := click.MonthOf(clicktest.Noon)
		f.everyFailure(t, suitetest.Size(25, 1), func() {
			f.Set(m.End())
			f.World.Write(t, f.draw(10, m.Start(), m.End(), nil)...)
			m++
			f.Set((m + 1).Start())
			for range 2 {
				must.NoError(t, f.store.Seal(t.Context()))
			}
		}, f.store.Retain, func() { f.check(t, (m - 3).Start(), m.End()) })
	})
}

// TestCopy_AnswersAsBefore copies clicks of 15 months, some stored as rollups only, with occasional
// failures. Both stores give the same answers, also when the copy is made again and when clicks
// follow.
func TestCopy_AnswersAsBefore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(48, 10))
		from := clicktest.Noon.AddDate(0, -16, 0)
		w.WriteAll(t, random, w.DrawAll(random, 500, from, clicktest.Noon))
		w.Tidy(t)
		// it is open
		w.WriteAll(t, random, []click.Click{w.Draw(random, clicktest.Noon.Add(-time.Hour), clicktest.Noon)})
		to := database(t)
		way := newUnreliable(t, to)
		u := must.Value(url.Parse(way.URL + to.Path))(t)
		copied := clickhouse.New(clickhouse.Config{DB: d, URL: u, ReadTimeout: time.Minute, Now: w.Now})
		n := 0
		for step := range 6 {
			way.try(40*step, func() { _ = copied.Copy(t.Context(), func(clickhouse.Copied) { n++ }) })
		}
		way.arrive()
		must.NoError(t, copied.Copy(t.Context(), func(clickhouse.Copied) { n++ }))
		if n < 300 {
			t.Errorf("%d days were copied", n)
		}
		must.NoError(t, copied.Copy(t.Context(), func(c clickhouse.Copied) {
			if c.Clicks != 0 {
				t.Errorf("copied again: %+v", c)
			}
		}))
		w.Store, w.Stats.Clicks = copied, copied
		for range 20 {
			w.Check(t, random, w.Ask(random, from, clicktest.Noon.Add(click.Day)))
		}
		for _, m := range w.Members {
			w.Check(t, random, w.All(m, from.Truncate(click.Day), clicktest.Noon.Add(click.Day).Truncate(click.Day)))
		}
		w.VerifyRollups(t)
	})
}

// TestCopy_FollowsClaimsAndPurges that happen between two runs, before and after the nodes have
// begun to use ClickHouse.
func TestCopy_FollowsClaimsAndPurges(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(48, 11))
		from, to := clicktest.Noon.Add(-9*click.Day), clicktest.Noon.Add(click.Day)
		u := database(t)
		copied := clickhouse.New(clickhouse.Config{DB: d, URL: u, ReadTimeout: time.Minute, Now: w.Now})
		run := func() {
			must.NoError(t, copied.Copy(t.Context(), func(clickhouse.Copied) {}))
			must.NoError(t, copied.MoveClicks(t.Context()))
		}
		var unowned []string
		for range 4 {
			link := click.Click{WorkspaceID: id.PublicWorkspace, LinkID: id.New(id.Link)}
			w.Links, unowned = append(w.Links, link), append(unowned, link.LinkID)
		}
		draw := func(n int) {
			clicks := w.DrawAll(random, n, from, clicktest.Noon)
			for _, linkID := range unowned { // each has clicks of each part
				c := w.Draw(random, from, clicktest.Noon)
				c.WorkspaceID, c.LinkID, c.Visitor = id.PublicWorkspace, linkID, 0
				for _, l := range w.Links {
					if l.LinkID == linkID {
						c.WorkspaceID = l.WorkspaceID
					}
				}
				clicks = append(clicks, c)
			}
			w.WriteAll(t, random, clicks)
		}
		draw(200)
		run()
		w.MoveLink(t, unowned[0]) // by a node without ClickHouse, whose clicks were copied
		draw(50)
		w.Store, w.Stats.Clicks = copied, copied
		w.MoveLink(t, unowned[1]) // by a node with ClickHouse, some of whose clicks were not
		must.NoError(t, copied.MoveClicks(t.Context()))
		run()
		w.CheckTotals(t)
		w.VerifyRollups(t)
		for _, m := range w.Members {
			w.Check(t, random, w.All(m, from.Truncate(click.Day), to.Truncate(click.Day)))
		}

		gone, inSQL := w.Members[1], &clicksql.Store{DB: d, Now: w.Now}
		must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			// The rows of the first stay without an owner in the SQL database, those of the second
			// in ClickHouse.
			return errors.Join(copied.Move(ctx, tx, unowned[2], gone.ID()), inSQL.Move(ctx, tx, unowned[3], gone.ID()))
		}))
		must.NoError(t, copied.MoveClicks(t.Context()))
		must.NoError(t, inSQL.PurgeWorkspace(db.AsSystem(t.Context()), gone.ID()))
		must.Value(d.NewUpdate().Table("workspaces").Set("purged_at = ?", w.Now()).Where("id = ?", gone.ID()).
			Exec(db.AsSystem(t.Context())))(t)
		run()
		run()
		w.Clicks = slices.DeleteFunc(w.Clicks, func(c click.Click) bool {
			return c.WorkspaceID == gone.ID() || slices.Contains(unowned[2:], c.LinkID)
		})
		for _, m := range w.Members {
			w.Check(t, random, w.All(m, from.Truncate(click.Day), to.Truncate(click.Day)))
		}
		if n := answer(t, u, "SELECT count() FROM clicks WHERE link_id IN ('"+strings.Join(unowned[2:], "', '")+
			"')"); n != "0" {
			t.Errorf("ClickHouse has %s clicks of purged links", n)
		}
	})
}

// TestCopy_IgnoresEarlierRuns whose statements arrive late or are still running.
func TestCopy_IgnoresEarlierRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(48, 12))
		var clicks []click.Click
		for _, ago := range []time.Duration{0, click.Day, 500 * click.Day} {
			end := clicktest.Noon.Add(-ago)
			clicks = append(clicks, w.DrawAll(random, 20, end.Add(-time.Hour), end)...)
		}
		w.WriteAll(t, random, clicks)
		w.Tidy(t)
		inSQL := w.Store
		ignored := func(clickhouse.Copied) {}
		for step := int(delayed); ; step += int(failures) {
			to := database(t)
			way := newUnreliable(t, to)
			copied := clickhouse.New(clickhouse.Config{
				DB: d, URL: must.Value(url.Parse(way.URL + to.Path))(t), ReadTimeout: time.Minute, Now: w.Now,
			})
			more := way.try(step, func() { _ = copied.Copy(t.Context(), ignored) })
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { _ = copied.Copy(t.Context(), ignored) })
			}
			both.Wait()
			way.arrive()
			must.NoError(t, copied.Copy(t.Context(), ignored))
			way.arrive()
			w.Store, w.Stats.Clicks = copied, copied
			w.VerifyRollups(t)
			for _, m := range w.Members {
				w.Check(t, random, w.All(m, clicktest.Noon.Add(-510*click.Day).Truncate(click.Day),
					clicktest.Noon.Add(click.Day).Truncate(click.Day)))
			}
			w.Store, w.Stats.Clicks = inSQL, inSQL
			if t.Failed() {
				t.Fatalf("statement %d was late", step/int(failures))
			}
			if !more {
				return
			}
		}
	})
}

// TestCopy_LeavesClicksOnTheirWay: a node inserts the first click of a link before it makes the
// total.
func TestCopy_LeavesClicksOnTheirWay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random, linkID := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(48, 13)), id.New(id.Link)
		w.WriteAll(t, random, []click.Click{w.Draw(random, clicktest.Noon.Add(-time.Minute), clicktest.Noon)})
		u, system := database(t), db.AsSystem(t.Context())
		copied := clickhouse.New(clickhouse.Config{DB: d, URL: u, ReadTimeout: time.Minute, Now: w.Now})
		must.Value(
			d.NewRaw(
				`INSERT INTO links (id, workspace_id, code, root_code, strategy, original_url, canonical_url, 
			canonical_hash, redirect_status, created_at, updated_at)
			VALUES (?, ?, 'code', 'code', 'RANDOM', 'u', 'u', ?, 302, ?, ?)`, linkID,
				id.PublicWorkspace, []byte("h"), w.Now(), w.Now()).Exec(system))(t)
		first := click.Click{WorkspaceID: id.PublicWorkspace, LinkID: linkID, ClickedAt: clicktest.Noon, Status: 302}
		must.NoError(t,
			copied.Write(t.Context(), clickstore.Batch{Log: id.New(id.Log), To: 1, Clicks: []click.Click{first}}))
		must.Value(d.NewDelete().Table("click_totals").Where("subject_id = ?", linkID).Exec(system))(t)
		must.NoError(t, copied.Copy(t.Context(), func(clickhouse.Copied) {}))
		if n := answer(t, u, "SELECT count() FROM clicks_open WHERE link_id = '"+linkID+"'"); n != "1" {
			t.Errorf("ClickHouse has %s clicks of the link", n)
		}
	})
}

// TestCopy_CountsDaysWithoutQuarters: by whole days, and not in parts.
func TestCopy_CountsDaysWithoutQuarters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random, u := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(48, 15)), database(t)
		long := clicktest.Noon.Add(-500 * click.Day)
		old := w.Draw(random, long, long.Add(time.Hour))
		old.LinkID, old.WorkspaceID, old.Bot = w.Links[0].LinkID, w.Links[0].WorkspaceID, false
		w.WriteAll(t, random, []click.Click{old})
		w.Tidy(t)
		store := clickhouse.New(clickhouse.Config{DB: d, URL: u, ReadTimeout: time.Minute, Now: w.Now})
		must.NoError(t, store.Copy(t.Context(), func(clickhouse.Copied) {}))
		q := clickstore.Query{WorkspaceID: w.Members[0].ID(),
			Range: clickstore.Range{From: long.Add(-click.Day).Truncate(click.Day), To: clicktest.Noon}}
		count := func(cuts ...time.Time) (n int64, err error) {
			points, err := store.Points(t.Context(), q, cuts)
			for _, p := range points {
				n += p.Clicks
			}
			return n, err
		}
		for _, quarters := range []bool{true, false} {
			if !quarters {
				statement(t, u.Scheme+"://"+u.Host, "ALTER TABLE "+u.Path[1:]+
					".days DELETE WHERE dimension = 15 SETTINGS mutations_sync = 2")
			}
			if n, err := count(); n != 1 || err != nil {
				t.Errorf("%d clicks of whole days, want 1: %v", n, err)
			}
			if n, err := count(long); quarters != (n == 1 && err == nil) ||
				!quarters && !errs.Is(err, errs.InvalidInput) {
				t.Errorf("%d clicks of parts of days, with quarters %t: %v", n, quarters, err)
			}
		}
	})
}

// TestCopy_AddsMonthsOnce, and not to months that ClickHouse counts itself.
func TestCopy_AddsMonthsOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(48, 14))
		long := clicktest.Noon.Add(-500 * click.Day)
		w.WriteAll(t, random, []click.Click{w.Draw(random, long, long.Add(click.Day)),
			w.Draw(random, clicktest.Noon.Add(-time.Hour), clicktest.Noon)})
		w.Tidy(t)
		copyTo := func(u *url.URL) error {
			store := clickhouse.New(clickhouse.Config{DB: d, URL: u, ReadTimeout: time.Minute, Now: w.Now})
			return store.Copy(t.Context(), func(clickhouse.Copied) {})
		}
		once, own := database(t), database(t)
		const days = "SELECT sum(clicks) FROM days WHERE dimension = 0"
		must.NoError(t, copyTo(once))
		must.NoError(t, copyTo(own))
		answer(t, own, "TRUNCATE TABLE days")
		answer(t, own, "ALTER TABLE bounds DELETE WHERE name = 'copied' SETTINGS mutations_sync = 2")
		must.Value(d.NewUpdate().Table("click_days").Set("clicks = 7").Where("TRUE").Exec(db.AsSystem(t.Context())))(t)
		must.NoError(t, copyTo(once))
		if n := answer(t, once, days); n != "1" {
			t.Errorf("a second copy has changed a month: %s clicks", n)
		}
		if err := copyTo(own); !errs.Is(err, errs.Conflict) {
			t.Errorf("ClickHouse counts its months: %v", err)
		}
		if n := answer(t, own, days); n != "0" {
			t.Errorf("%s clicks were added to the days of ClickHouse", n)
		}
	})
}

func TestStore_Contract(t *testing.T) {
	t.Parallel()
	clickstoretest.Run(t, true, func(t *testing.T, d *db.DB, now func() time.Time) clickstore.Store {
		return clickhouse.New(clickhouse.Config{DB: d, URL: database(t), ReadTimeout: time.Minute, Now: now})
	})
}
