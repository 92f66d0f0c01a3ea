package click

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/visitor"
)

// visitsOf is how many visitors a link had, and how many of its clicks are marked as theirs.
func visitsOf(t *testing.T, w *world, linkID string) (sum, rows int64) {
	t.Helper()
	var of struct{ Sum, Rows int64 }
	err := w.DB.NewSelect().
		ColumnExpr("(SELECT CAST(COALESCE(SUM(visits), 0) AS BIGINT) FROM click_buckets WHERE subject_id = ?) AS sum", linkID).
		ColumnExpr("(SELECT COUNT(*) FROM clicks WHERE link_id = ? AND visit) AS rows", linkID).Scan(db.AsSystem(t.Context()), &of.Sum, &of.Rows)
	if err != nil {
		t.Fatal(err)
	}
	return of.Sum, of.Rows
}

// TestAVisitorIsCountedOnce, with the first click that is written: per link and day, and never as a bot.
func TestAVisitorIsCountedOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		midnight := noon.Truncate(day)
		c := w.links[0]
		c.Status, c.Visitor = 302, person(&c, 1)
		at := func(when time.Time, change ...func(*Click)) Click {
			one := c
			one.ClickedAt = when
			for _, f := range change {
				f(&one)
			}
			return one
		}
		other := func(c *Click) { c.LinkID = w.links[1].LinkID; c.Visitor = person(c, 1) }
		bot := func(c *Click) { c.Bot = true }
		nobody := func(c *Click) { c.Visitor = 0 }
		w.write(t, at(noon, bot), at(noon, nobody), at(noon), at(noon), at(noon, other))
		w.write(t, at(noon.Add(time.Hour)), at(midnight.Add(-time.Microsecond)), at(midnight), at(midnight.Add(-time.Hour))) // late
		w.write(t, at(midnight.Add(day)), at(midnight.Add(-time.Hour), nobody))
		if sum, rows := visitsOf(t, w, c.LinkID); sum != 3 || rows != 3 {
			t.Errorf("%d visits, %d clicks are one, want 3", sum, rows)
		}
		if sum, rows := visitsOf(t, w, w.links[1].LinkID); sum != 1 || rows != 1 {
			t.Errorf("the other link: %d visits, %d clicks are one, want 1", sum, rows)
		}
		q := w.all(w.members[0], noon.Add(-2*day), noon.Add(2*day))
		w.check(t, rand.New(rand.NewPCG(1, 1)), q)
		w.verify(t)
	})
}

// TestABatchThatFailsCountsNobody: what is tried again counts each visitor once, and not as known already.
func TestABatchThatFailsCountsNobody(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		visitors, poison := crowdOf(w.links[0], noon, 20), clickOf(refuseOne(t, d))
		poison.Visitor = person(&poison, 1)
		for range 2 {
			if err := w.writer.write(t.Context(), w.log, 1, append(visitors[:40:40], poison)); !db.IsRefused(err) {
				t.Fatalf("a batch that the database refuses: %v", err)
			}
		}
		if sum, rows := visitsOf(t, w, w.links[0].LinkID); sum != 0 || rows != 0 {
			t.Errorf("the batch that failed has left %d visits, %d rows", sum, rows)
		}
		w.write(t, visitors...)
		w.write(t, visitors...)
		if sum, rows := visitsOf(t, w, w.links[0].LinkID); sum != 20 || rows != 20 {
			t.Errorf("%d visits, %d rows, want 20", sum, rows)
		}
		w.verify(t)
	})
}

// TestATransactionThatIsRunAgainCountsOnce: PostgreSQL calls it off twice, after all of it has been written but for the
// clicks.
func TestATransactionThatIsRunAgainCountsOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	w := newWorld(t, d)
	for _, statement := range []string{
		"CREATE SEQUENCE tries",
		`CREATE FUNCTION call_off() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$ BEGIN
			IF nextval('tries') <= 2 THEN RAISE EXCEPTION 'called off' USING ERRCODE = '40001'; END IF;
			RETURN NEW;
		END $$`,
		"CREATE TRIGGER call_off BEFORE INSERT ON clicks FOR EACH ROW EXECUTE FUNCTION call_off()",
	} {
		if _, err := d.ExecContext(db.AsOwner(t.Context()), statement); err != nil {
			t.Fatal(err)
		}
	}
	w.write(t, crowdOf(w.links[0], noon, 20)...)
	var tries int
	if err := d.NewRaw("SELECT last_value FROM tries").Scan(db.AsOwner(t.Context()), &tries); err != nil || tries != 42 {
		t.Errorf("%d rows were tried, want 42: %v", tries, err)
	}
	if sum, rows := visitsOf(t, w, w.links[0].LinkID); sum != 20 || rows != 20 {
		t.Errorf("%d visits, %d rows, want 20", sum, rows)
	}
	w.verify(t)
	w.checkTotals(t)
}

// TestTwoNodesSeeTheSameVisitors, at once and in another order, and count each of them once.
func TestTwoNodesSeeTheSameVisitors(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		const visitors = 30
		var nodes sync.WaitGroup
		for node := range 3 {
			random := rand.New(rand.NewPCG(2, uint64(node)))
			nodes.Go(func() {
				own, log := writer{db: d, now: atNoon}, id.New(id.Log)
				for position := range int64(3) {
					var batch []Click
					for _, link := range w.links {
						batch = append(batch, crowdOf(link, noon, visitors)...)
						batch = append(batch, crowdOf(link, noon.Add(-day), visitors)...)
					}
					random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
					if err := own.write(t.Context(), log, position+1, batch); err != nil {
						t.Error(err)
					}
				}
			})
		}
		nodes.Wait()
		for _, link := range w.links {
			if sum, rows := visitsOf(t, w, link.LinkID); sum != 2*visitors || rows != 2*visitors {
				t.Errorf("%d visits, %d rows, want %d", sum, rows, 2*visitors)
			}
		}
		w.verify(t)
	})
}

// keysAt are a node's keys.
func keysAt(d *db.DB, now *time.Time) *Keys {
	return &Keys{DB: d, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return *now }}
}

// daysKept are the days of which a table has something, with 20 November as 0.
func daysKept(t *testing.T, d *db.DB, table string) (kept []int64) {
	t.Helper()
	err := d.NewSelect().Distinct().Table(table).ColumnExpr("day - ? AS day", dayOf(noon)).OrderExpr("day").Scan(db.AsSystem(t.Context()), &kept)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestNodesShareTheKeyOfADay, and forget it when the day is over.
func TestNodesShareTheKeyOfADay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := noon
		one, other := keysAt(d, &now), keysAt(d, &now)
		store := &Store{DB: d, Now: func() time.Time { return now }}
		if one.Of(now) != nil {
			t.Fatal("a key before any was fetched")
		}
		fetch := func() {
			t.Helper()
			var both sync.WaitGroup
			for _, k := range []*Keys{one, other} {
				both.Go(func() {
					if err := k.Fetch(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
		}
		fetch()
		first := one.Of(now)
		if first == nil || *first == (visitor.Key{}) || *first != *other.Of(now) || one.Of(now.Add(day)) != nil || one.Of(now.Add(-day)) != nil {
			t.Fatalf("the keys are %v and %v", one.Of(now), other.Of(now))
		}
		fetch()
		if *one.Of(now) != *first {
			t.Error("the key of a day changes")
		}
		now = noon.Truncate(day).Add(day - keyAhead) // before midnight there is tomorrow's
		fetch()
		next := one.Of(now.Add(keyAhead))
		if next == nil || *next == *first || *next != *other.Of(now.Add(keyAhead)) || *one.Of(now) != *first {
			t.Fatalf("the keys of today and tomorrow are %v and %v", one.Of(now), next)
		}
		if err := store.ForgetVisitors(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int64{0, 1}, daysKept(t, d, "visitor_keys")); diff != "" {
			t.Errorf("keys are kept of the days (-want +got):\n%s", diff)
		}
		now = noon.Truncate(day).Add(day) // midnight
		if *one.Of(now) != *next {
			t.Error("the key of the new day is not the one that was there before")
		}
		fetch()
		if err := store.ForgetVisitors(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int64{1}, daysKept(t, d, "visitor_keys")); diff != "" || one.Of(noon) != nil || *one.Of(now) != *next {
			t.Errorf("keys are kept of the days (-want +got):\n%s, yesterday's in memory: %v", diff, one.Of(noon))
		}
	})
}

// TestWithoutAKeyClicksCount: while the database is away there is none, and visitors are not told apart.
func TestWithoutAKeyClicksCount(t *testing.T) {
	t.Parallel()
	now := noon
	away := dbtest.Migrated(t, dbtest.SQLite(t))
	k := keysAt(away, &now)
	if err := k.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := away.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE visitor_keys RENAME TO away"); err != nil {
		t.Fatal(err)
	}
	if err := k.Fetch(t.Context()); err != nil || k.Of(now) == nil {
		t.Errorf("a key that is held needs the database: %v", err)
	}
	now = now.Add(day)
	if err := k.Fetch(t.Context()); err == nil || k.Of(now) != nil {
		t.Errorf("a key that nobody else has: %v, %v", k.Of(now), err)
	}
	if _, err := away.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE away RENAME TO visitor_keys"); err != nil {
		t.Fatal(err)
	}
	if err := k.Fetch(t.Context()); err != nil || k.Of(now) == nil {
		t.Errorf("when the database is back: %v", err)
	}

	w := newWorld(t, away)
	c := w.links[0]
	c.ClickedAt, c.Status = noon, 302
	w.write(t, c, c)
	got, err := w.stats(t, w.all(w.members[0], noon.Add(-day), noon.Add(day))).Total(t.Context())
	if want := (Count{Clicks: 2}); got != want || err != nil {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
}

// TestAKeyIsForgottenInTime, also by a node that has no database to ask for the next.
func TestAKeyIsForgottenInTime(t *testing.T) {
	t.Parallel()
	now := noon
	d := dbtest.Migrated(t, dbtest.SQLite(t))
	k := keysAt(d, &now)
	if err := k.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE visitor_keys RENAME TO away"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(day)
	if err := k.Fetch(t.Context()); err == nil || k.Of(noon) != nil {
		t.Errorf("yesterday's key: %v, %v", k.Of(noon), err)
	}
}

// TestVisitorsAreForgotten: those of a day are kept two days longer, for clicks that come late, who are then no visitors
// again.
func TestVisitorsAreForgotten(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		for n := range 4 {
			w.write(t, crowdOf(w.links[0], noon.Add(time.Duration(n-3)*day), 5)...)
		}
		if err := w.ForgetVisitors(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int64{-2, -1, 0}, daysKept(t, d, "visitors")); diff != "" {
			t.Errorf("visitors are kept of the days (-want +got):\n%s", diff)
		}
		w.write(t, crowdOf(w.links[0], noon.Add(-2*day), 5)...)
		if sum, rows := visitsOf(t, w, w.links[0].LinkID); sum != 20 || rows != 20 {
			t.Errorf("%d visits, %d rows, want 20", sum, rows)
		}
		w.set(noon.Add(3 * day))
		if err := w.ForgetVisitors(t.Context()); err != nil {
			t.Fatal(err)
		}
		if kept := daysKept(t, d, "visitors"); len(kept) > 0 {
			t.Errorf("visitors are kept of the days %v", kept)
		}
	})
}
