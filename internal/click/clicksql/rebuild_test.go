package clicksql_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// TestRebuild_RecreatesRollups damages rollups in every way. Each difference must be reported, and
// then fixed.
func TestRebuild_RecreatesRollups(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := clicktest.Setup(t, d)
		var links []string
		for i := range 5 {
			links = append(links, id.New(id.Link))
			b.RecordClicks(links[i], clicktest.Noon.Add(-click.Day), 1, 2, 3)
			b.RecordClicks(links[i], clicktest.Noon.Add(time.Hour-click.Day), 40)
		}
		b.FlushClicks(t)
		must.NoError(t, b.Seal(t.Context()))
		verify := func(want int) {
			t.Helper()
			found := map[string]bool{}
			n, err := b.Verify(t.Context(), func(f clickstore.Difference) { found[f.SubjectID] = true })
			if err != nil || n != len(links)+1 || len(found) != want {
				t.Errorf("%d subjects, %d differ: %v; want %d: %v", n, len(found), found, want, err)
			}
		}
		verify(0)
		was := must.Value(b.Ledger.Totals(must.Value(b.Member.Enter(t.Context(), workspace.ReadLinks))(t),
			b.Member.ID(), links...))(t)
		for i, breakage := range []string{
			"UPDATE click_totals SET clicks = clicks + 1 WHERE subject_id = ?",
			"UPDATE click_days SET latency_mean = 7 WHERE subject_id = ?",
			"DELETE FROM click_days WHERE subject_id = ?", "DELETE FROM click_totals WHERE subject_id = ?",
		} {
			must.Value(d.NewRaw(breakage, links[i]).Exec(db.AsSystem(t.Context())))(t)
		}
		totals := func() int64 {
			return must.Value(d.NewSelect().Table("click_totals").Count(db.AsSystem(t.Context())))(t)
		}
		left := totals()
		verify(4)
		if n := totals(); n != left {
			t.Errorf("verifying left %d totals of %d", n, left)
		}
		if n, err := b.Rebuild(t.Context()); err != nil || n != len(links)+1 {
			t.Errorf("%d links: %v", n, err)
		}
		verify(0)
		b.RecordClicks(links[0], clicktest.Noon, 5) // ingest continues
		b.FlushClicks(t)
		verify(0)
		is := must.Value(b.Ledger.Totals(must.Value(b.Member.Enter(t.Context(), workspace.ReadLinks))(t), b.Member.ID(),
			links[1:]...))(t)
		delete(was, links[0])
		if diff := cmp.Diff(was, is, clicktest.About); diff != "" {
			t.Errorf("totals (-want +got):\n%s", diff)
		}
	})
}
