package domain

import (
	"fmt"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// owners returns the owners of a host, oldest first.
func (z *zone) owners(t *testing.T, host string) []string {
	t.Helper()
	var rows []owner
	must.NoError(t, z.DB.NewSelect().Model(&rows).Where("host = ?", host).Order("starts_at").
		Scan(db.AsSystem(t.Context())))
	var all []string
	for _, row := range rows {
		end := "now"
		if row.EndsAt != nil {
			end = row.EndsAt.Sub(dbtest.Noon).String()
		}
		name := map[string]string{z.adas.ID(): "ada", z.eves.ID(): "eve"}[row.WorkspaceID]
		all = append(all, fmt.Sprintf("%s %s to %s", name, row.StartsAt.Sub(dbtest.Noon), end))
	}
	return all
}

func (z *zone) wantOwners(t *testing.T, host string, want ...string) {
	t.Helper()
	wanttest.Equal(t, want, z.owners(t, host), "owners")
}

// TestOwners_AreRecordedWithTheirTimes: of a host that is verified, taken by another workspace
// whose node has a clock behind, removed, verified again, and lost.
func TestOwners_AreRecordedWithTheirTimes(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		adas, eves := z.claim(t, z.adas, "go.example.com"), z.claim(t, z.eves, "go.example.com")
		z.wantOwners(t, adas.Host)
		z.prove(adas)
		verify := func(own *Domain) {
			t.Helper()
			m := z.adas
			if own.WorkspaceID == z.eves.ID() {
				m = z.eves
			}
			must.Value(z.Verify(t.Context(), m, own.ID))(t)
		}
		z.time = dbtest.Noon.Add(time.Hour)
		verify(adas)
		verify(adas) // it stays
		z.wantOwners(t, adas.Host, "ada 1h0m0s to now")
		z.prove(eves)
		z.failing(t, adas)
		z.prove(eves)
		z.time = dbtest.Noon.Add(time.Minute)
		verify(eves)
		z.wantOwners(t, adas.Host, "ada 1h0m0s to 1h0m0.000001s", "eve 1h0m0.000001s to now")
		z.time = dbtest.Noon.Add(2 * time.Hour)
		must.Value(z.Remove(t.Context(), z.eves, eves.ID))(t)
		z.prove(adas)
		z.time = dbtest.Noon.Add(3 * time.Hour)
		verify(adas)
		z.dns.SetTXT(adas.RecordName())
		z.failing(t, adas)
		z.time = z.time.Add(grace + checkEvery)
		z.check(t)
		z.is(t, adas, Pending, "after it was lost")
		z.wantOwners(t, adas.Host, "ada 1h0m0s to 1h0m0.000001s", "eve 1h0m0.000001s to 2h0m0s",
			"ada 3h0m0s to "+z.time.Sub(dbtest.Noon).String())
		must.NoError(t, z.Purge(db.AsSystem(t.Context()), z.adas.ID()))
		z.wantOwners(t, adas.Host, "eve 1h0m0.000001s to 2h0m0s")
	})
}
