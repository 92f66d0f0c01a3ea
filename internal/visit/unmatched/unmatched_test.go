package unmatched_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
	"github.com/linkforge/linkforge/internal/visit/unmatched"
)

func newRecorder(d *db.DB) *unmatched.Recorder {
	return &unmatched.Recorder{
		DB: d, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return dbtest.Noon },
	}
}

// stored returns the number of rows and the sum of the requests of a workspace.
func stored(t *testing.T, d *db.DB, m workspace.Membership) (rows, requests int) {
	t.Helper()
	must.NoError(t, d.NewSelect().Model((*unmatched.Request)(nil)).ColumnExpr("COUNT(*), SUM(requests)").
		Where("workspace_id = ?", m.ID()).Scan(db.AsSystem(t.Context()), &rows, &requests))
	return rows, requests
}

// Two nodes that write the same codes in different orders would deadlock on PostgreSQL.
func TestRecorder_NodesWriteTheSameCodesConcurrently(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const nodes, rounds, codes = 4, 5, 300
		m := workspacetest.New(t, d, "acme")
		var all sync.WaitGroup
		for range nodes {
			all.Go(func() {
				r := newRecorder(d)
				for range rounds {
					for code := range codes {
						r.Add(m.ID(), fmt.Sprint("code", code), 404, dbtest.Noon)
					}
					if err := r.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if rows, requests := stored(t, d, m); rows != codes || requests != nodes*rounds*codes {
			t.Errorf("%d rows and %d requests are stored, want %d and %d", rows, requests, codes, nodes*rounds*codes)
		}
	})
}

func TestRecorder_StoresAtMostAThousandCodesPerDay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		m := workspacetest.New(t, d, "acme")
		r := newRecorder(d)
		for _, codes := range [][2]int{{0, 900}, {800, 1100}, {1100, 1200}} {
			for code := codes[0]; code < codes[1]; code++ {
				r.Add(m.ID(), fmt.Sprint("code", code), 404, dbtest.Noon)
			}
			must.NoError(t, r.Flush(t.Context()))
		}
		if rows, requests := stored(t, d, m); rows != 1001 || requests != 1300 {
			t.Errorf("%d rows and %d requests are stored, want 1000 codes and one row for the others, 1300 requests",
				rows, requests)
		}
	})
}
