package ingest_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// visitsOf is how many visitors a link had, and how many of its clicks are marked as theirs.
func visitsOf(t *testing.T, w *clicktest.World, linkID string) (sum, rows int64) {
	t.Helper()
	var of struct{ Sum, Rows int64 }
	must.NoError(t, w.DB.NewSelect().
		ColumnExpr("(SELECT CAST(COALESCE(SUM(visits), 0) AS BIGINT) FROM click_days WHERE subject_id = ?0) + "+
			"(SELECT COUNT(*) FROM clicks WHERE link_id = ?0 AND visit AND clicked_at >= "+
			"(SELECT sealed_at FROM click_totals WHERE subject_id = ?0)) AS sum", linkID).
		ColumnExpr("(SELECT COUNT(*) FROM clicks WHERE link_id = ? AND visit) AS rows", linkID).
		Scan(db.AsSystem(t.Context()), &of.Sum, &of.Rows))
	return of.Sum, of.Rows
}

// TestVisitors_RetriedTransactionCountsOnce: PostgreSQL calls it off twice, after all of it has
// been written but for the clicks.
func TestVisitors_RetriedTransactionCountsOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	w := clicktest.NewWorld(t, d)
	for _, statement := range []string{
		"CREATE SEQUENCE tries",
		`CREATE FUNCTION call_off() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
			AS $$ BEGIN
			IF nextval('tries') <= 2 THEN RAISE EXCEPTION 'called off' USING ERRCODE = '40001'; END IF;
			RETURN NEW;
		END $$`,
		"CREATE TRIGGER call_off BEFORE INSERT ON clicks FOR EACH ROW EXECUTE FUNCTION call_off()",
	} {
		must.Value(d.ExecContext(db.AsOwner(t.Context()), statement))(t)
	}
	w.Write(t, clicktest.CrowdOf(w.Links[0], clicktest.Noon, 20)...)
	var tries int
	if err := d.NewRaw("SELECT last_value FROM tries").Scan(db.AsOwner(t.Context()), &tries); err != nil ||
		tries != 42 {
		t.Errorf("%d rows were tried, want 42: %v", tries, err)
	}
	if sum, rows := visitsOf(t, w, w.Links[0].LinkID); sum != 20 || rows != 20 {
		t.Errorf("%d visits, %d rows, want 20", sum, rows)
	}
	w.VerifyRollups(t)
	w.CheckTotals(t)
}

// keysAt are a node's keys.
func keysAt(d *db.DB, now *time.Time) *ingest.DailyKeys {
	return &ingest.DailyKeys{DB: d, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return *now }}
}

// daysKept returns the days with rows in a table; 20 November is 0.
func daysKept(t *testing.T, d *db.DB, table string) (kept []int64) {
	t.Helper()
	must.NoError(t, d.NewSelect().Distinct().Table(table).ColumnExpr("day - ? AS day", click.DayOf(clicktest.Noon)).
		OrderExpr("day").Scan(db.AsSystem(t.Context()), &kept))
	return kept
}

// TestVisitorKey_IsSharedByNodes, and forget it when the day is over.
func TestVisitorKey_IsSharedByNodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := clicktest.Noon
		one, other := keysAt(d, &now), keysAt(d, &now)
		ledger := &clickstore.Ledger{DB: d}
		if one.Of(now) != nil {
			t.Fatal("a key before any was fetched")
		}
		fetch := func() {
			t.Helper()
			var both sync.WaitGroup
			for _, k := range []*ingest.DailyKeys{one, other} {
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
		if first == nil || *first == (visitor.Key{}) || *first != *other.Of(now) || one.Of(now.Add(click.Day)) != nil ||
			one.Of(now.Add(-click.Day)) != nil {
			t.Fatalf("the keys are %v and %v", one.Of(now), other.Of(now))
		}
		fetch()
		if *one.Of(now) != *first {
			t.Error("the key of a day changes")
		}
		now = clicktest.Noon.Truncate(click.Day).Add(click.Day - ingest.KeyLead) // before midnight there is tomorrow's
		fetch()
		next := one.Of(now.Add(ingest.KeyLead))
		if next == nil || *next == *first || *next != *other.Of(now.Add(ingest.KeyLead)) || *one.Of(now) != *first {
			t.Fatalf("the keys of today and tomorrow are %v and %v", one.Of(now), next)
		}
		must.NoError(t, ledger.ForgetVisitors(t.Context(), now))
		if diff := cmp.Diff([]int64{0, 1}, daysKept(t, d, "visitor_keys")); diff != "" {
			t.Errorf("keys are kept of the days (-want +got):\n%s", diff)
		}
		now = clicktest.Noon.Truncate(click.Day).Add(click.Day) // midnight
		if *one.Of(now) != *next {
			t.Error("the key of the new day is not the one that was there before")
		}
		fetch()
		must.NoError(t, ledger.ForgetVisitors(t.Context(), now))
		if diff := cmp.Diff([]int64{1}, daysKept(t, d, "visitor_keys")); diff != "" || one.Of(clicktest.Noon) != nil ||
			*one.Of(now) != *next {
			t.Errorf("keys are kept of the days (-want +got):\n%s, yesterday's in memory: %v", diff,
				one.Of(clicktest.Noon))
		}
	})
}

// TestVisitorKey_MissingStillCountsClicks: while the database is unavailable there is no key, also no
// erased one, and clicks have no visitor.
func TestVisitorKey_MissingStillCountsClicks(t *testing.T) {
	t.Parallel()
	now := clicktest.Noon
	away := dbtest.MigratedSQLite(t)
	k := keysAt(away, &now)
	must.NoError(t, k.Fetch(t.Context()))
	must.Value(away.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE visitor_keys RENAME TO away"))(t)
	if err := k.Fetch(t.Context()); err != nil || k.Of(now) == nil {
		t.Errorf("a key that is held needs the database: %v", err)
	}
	now = now.Add(click.Day)
	if err := k.Fetch(t.Context()); err == nil || k.Of(now) != nil || k.Of(clicktest.Noon) != nil {
		t.Errorf("a key that nobody else has: %v, and yesterday's: %v, %v", k.Of(now), k.Of(clicktest.Noon), err)
	}
	must.Value(away.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE away RENAME TO visitor_keys"))(t)
	if err := k.Fetch(t.Context()); err != nil || k.Of(now) == nil {
		t.Errorf("when the database is back: %v", err)
	}

	w := clicktest.NewWorld(t, away)
	c := w.Links[0]
	c.ClickedAt, c.Status = clicktest.Noon, 302
	w.Write(t, c, c)
	got, err := w.QueryStats(t, w.All(w.Members[0], clicktest.Noon.Add(-click.Day), clicktest.Noon.Add(click.Day))).
		Total(t.Context())
	if want := (click.Count{Clicks: 2}); got != want || err != nil {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
}

// TestVisitors_AreErased: a day's visitors are stored for two more days, so that late clicks do
// not count as new visits.
func TestVisitors_AreErased(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		for n := range 4 {
			w.Write(t, clicktest.CrowdOf(w.Links[0], clicktest.Noon.Add(time.Duration(n-3)*click.Day), 5)...)
		}
		must.NoError(t, w.Ledger.ForgetVisitors(t.Context(), w.Now()))
		if diff := cmp.Diff([]int64{-2, -1, 0}, daysKept(t, w.DB, "visitors")); diff != "" {
			t.Errorf("visitors are kept of the days (-want +got):\n%s", diff)
		}
		w.Write(t, clicktest.CrowdOf(w.Links[0], clicktest.Noon.Add(-2*click.Day), 5)...)
		if sum, rows := visitsOf(t, w, w.Links[0].LinkID); sum != 20 || rows != 20 {
			t.Errorf("%d visits, %d rows, want 20", sum, rows)
		}
		w.Set(clicktest.Noon.Add(3 * click.Day))
		must.NoError(t, w.Ledger.ForgetVisitors(t.Context(), w.Now()))
		if kept := daysKept(t, w.DB, "visitors"); len(kept) > 0 {
			t.Errorf("visitors are kept of the days %v", kept)
		}
	})
}
