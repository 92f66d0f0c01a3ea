package graph

import (
	"context"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/apikey"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// TestStats_AreOfOneInstant: while clicks are written, those of a link and of all its stats are equal.
func TestStats_AreOfOneInstant(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ada := withAda(t, d)
		l := b.link(t, ada, "https://example.com/")
		ctx, cancel := context.WithCancel(t.Context())
		written := make(chan error, 1)
		go func() {
			store, err := &clicksql.Store{DB: d, Now: time.Now}, error(nil)
			for to := int64(1); err == nil && ctx.Err() == nil; to++ {
				one := click.Click{WorkspaceID: ada.workspace.ID(), LinkID: l.ID, ClickedAt: time.Now(), LatencyMs: 1}
				err = store.Write(t.Context(), clickstore.Batch{Log: "log", To: to, Clicks: []click.Click{one, one}})
			}
			written <- err
		}()
		type counted struct{ Clicks int64 }
		began := time.Now()
		for _, fields := range []string{ // of a link that is beside stats of another object
			`... on Link { clickCount } ... on Workspace { stats { clicks bots } }`,
			`... on Link { clickCount stats(timezone: "Nowhere") { clicks } }`,
			`... on Link { clickCount a: stats { from } b: stats { clicks } }`,
		} {
			b.ask(t, ada.token, `query ($ids: [ID!]!) { nodes(ids: $ids) { `+fields+` } }`,
				"ids", []string{l.ID, ada.workspace.ID()})
		}
		_, key, err := b.APIKeys.Create(t.Context(), ada.workspace,
			apikey.NewKey{Name: "links", Scopes: []workspace.Permission{workspace.ReadLinks}})
		must.NoError(t, err)
		b.ask(t, key, `query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Link { clickCount stats { clicks } } } }`,
			"ids", []string{l.ID})
		b.ask(t, key, `mutation { createAnonymousLink(input: {url: "https://example.com/"}) {
			link { clickCount stats { clicks } } } }`)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("clickCount waits for stats that are not read: %s", took)
		}
		seen := map[int64]bool{}
		for range 40 {
			var got struct {
				Links []struct {
					ClickCount int64
					Stats      struct {
						Clicks    int64
						Breakdown []counted
						Series    []counted
					}
				}
			}
			b.ask(t, ada.token, `query ($ids: [ID!]!) { links: nodes(ids: $ids) { ... on Link { clickCount
				stats { series(interval: DAY) { clicks } clicks breakdown(by: COUNTRY) { clicks } } } } }`,
				"ids", []string{l.ID}).Into(t, &got)
			s := got.Links[0].Stats
			counts := []int64{s.Clicks, 0, 0}
			for _, one := range s.Series {
				counts[1] += one.Clicks
			}
			for _, one := range s.Breakdown {
				counts[2] += one.Clicks
			}
			for _, n := range counts {
				if n != got.Links[0].ClickCount {
					t.Fatalf("%d clicks of the link, %v of its stats, series and breakdown",
						got.Links[0].ClickCount, counts)
				}
			}
			seen[s.Clicks] = true
		}
		if len(seen) < 5 {
			t.Errorf("%d different counts: no clicks were written meanwhile", len(seen))
		}
		cancel()
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
}
