package clicksql_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestSeal_SealsBusyDaysInParts writes clicks of a day before and after each part of it is sealed,
// by time and late, and then none: the day is sealed as a whole when it is over. Days that remain
// of a lost total are not counted.
func TestSeal_SealsBusyDaysInParts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(48, 1))
		today, ctx := clicktest.Noon.Truncate(click.Day), db.AsSystem(t.Context())
		write := func(link int, n int, at time.Duration) {
			var clicks []click.Click
			for i := range n {
				c := w.Draw(random, today, today.Add(time.Hour))
				c.LinkID, c.WorkspaceID = w.Links[link].LinkID, w.Links[link].WorkspaceID
				c.ClickedAt = today.Add(at + time.Duration(i)*time.Second)
				clicks = append(clicks, c)
			}
			w.Write(t, clicks...)
		}
		const busy, quiet = 0, 1
		for _, step := range []struct {
			name string
			now  time.Duration // since midnight
			do   func()
			// sealed is up to when the busy link is sealed, and inDays how many of its clicks are
			// in days.
			sealed time.Duration
			inDays int64
		}{
			{"a quiet day", 10 * time.Hour, func() {
				write(busy, clicksql.BusyDay-1, 9*time.Hour)
				write(quiet, 1, 9*time.Hour)
			}, 0, 0},
			{"a busy day", 11*time.Hour + 20*time.Minute, func() { write(busy, 1, 11*time.Hour) },
				11*time.Hour + 15*time.Minute, clicksql.BusyDay},
			{"open clicks", 11*time.Hour + 40*time.Minute, func() { write(busy, 2, 11*time.Hour+20*time.Minute) },
				11*time.Hour + 15*time.Minute, clicksql.BusyDay},
			{"late clicks", 12 * time.Hour, func() { write(busy, 4, 8*time.Hour) }, 11*time.Hour + 45*time.Minute,
				clicksql.BusyDay + 6},
			{"a lost total", 13 * time.Hour, func() {
				must.Value(d.ExecContext(ctx, "DELETE FROM click_totals WHERE subject_id = ?",
					w.Links[quiet].LinkID))(t)
				must.Value(w.Rebuild(t.Context()))(t)
			}, 11*time.Hour + 45*time.Minute, clicksql.BusyDay + 6},
			{"the day is over", 30 * time.Hour, func() {}, 24 * time.Hour, clicksql.BusyDay + 6},
			{"nothing is left", 60 * time.Hour, func() {}, 24 * time.Hour, clicksql.BusyDay + 6},
		} {
			w.Set(today.Add(step.now))
			step.do()
			must.NoError(t, w.Seal(t.Context()))
			var sealed time.Time
			var inDays int64
			must.NoError(t, d.NewSelect().Table("click_totals").Column("sealed_at").
				ColumnExpr("(SELECT CAST(COALESCE(SUM(clicks), 0) AS BIGINT) FROM click_days AS d WHERE d.subject_id "+
					"= click_totals.subject_id)").
				Where("subject_id = ?", w.Links[busy].LinkID).Scan(ctx, &sealed, &inDays))
			if !sealed.Equal(today.Add(step.sealed)) || inDays != step.inDays {
				t.Errorf("%s: sealed up to %s with %d clicks, want %s with %d", step.name, sealed, inDays,
					today.Add(step.sealed), step.inDays)
			}
			w.CheckTotals(t)
			w.VerifyRollups(t)
			for range 4 {
				w.Check(t, random, w.Ask(random, today.Add(-click.Day), today.Add(2*click.Day)))
			}
			w.Check(t, random, w.All(w.Members[0], today, today.Add(step.now)))
		}
	})
}
