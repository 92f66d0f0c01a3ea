package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// BenchmarkSecondWall is what row-level security costs: creating a link, and a page of 20 links, each with the proof of
// membership before it, beside the same on a database without it, where nothing is told of scopes either. All take
// turns. "Alone" is one tenant who goes on; "switching" are two who take turns on one connection, so that each statement
// changes its scope: the worst there is. The figures are medians, and the ratios what they are without the wall divided
// by what they are with it: 1 is free.
func BenchmarkSecondWall(b *testing.B) {
	open := func(url string) *db.DB {
		d, err := db.OpenPostgres(url, 1)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		return d
	}
	with := newWalled(b, dbtest.Migrated(b, open(dbtest.PostgresURL(b))))
	bare := dbtest.PostgresURL(b)
	dbtest.Migrated(b, open(bare))
	without := newWalled(b, unscoped(b, bare))
	without.name = "without "

	var n int
	took := map[string][]float64{}
	turn := func(name string, do func()) {
		figures := took[name]
		measure(&figures, 1, do)
		took[name] = figures
	}
	for b.Loop() {
		for _, side := range []*walled{with, without} {
			n++
			url := fmt.Sprintf("https://example.com/%d", n)
			turn(side.name+"create alone", func() { side.create(b, 0, url) })
			turn(side.name+"page alone", func() { side.page(b, 0) })
			// What the other tenant has done before is what this one's scope has to replace.
			side.page(b, 1)
			turn(side.name+"create switching", func() { side.create(b, 0, url+"/again") })
			side.page(b, 1)
			turn(side.name+"page switching", func() { side.page(b, 0) })
		}
	}
	for _, what := range []string{"create alone", "create switching", "page alone", "page switching"} {
		label := strings.ReplaceAll(what, " ", "-")
		b.ReportMetric(median(took[what]), label+"-µs")
		b.ReportMetric(median(took["without "+what])/median(took[what]), label+"-ratio")
	}
}

// walled is two tenants of one database.
type walled struct {
	name       string // what tells its figures from the others'
	workspaces *workspace.Store
	links      *link.Store
	actor      account.Actor
	ids        [2]string
}

func newWalled(b *testing.B, d *db.DB) *walled {
	b.Helper()
	w := setup(b, d, dbtest.ServerURL(b, dbtest.RedisURL))
	made := &walled{workspaces: &workspace.Store{DB: d, Now: w.links.Now}, links: w.links, actor: account.Actor{AccountID: w.accountID}}
	for i := range made.ids {
		m, err := made.workspaces.Create(b.Context(), made.actor, "Tenant", fmt.Sprintf("tenant-%d", i))
		if err != nil {
			b.Fatal(err)
		}
		made.ids[i] = m.ID()
		for n := range 40 {
			made.create(b, i, fmt.Sprintf("https://example.com/before/%d", n))
		}
	}
	return made
}

func (w *walled) create(b *testing.B, tenant int, url string) {
	m, err := w.workspaces.Require(b.Context(), w.actor, w.ids[tenant])
	if err == nil {
		_, _, err = w.links.Create(b.Context(), m, link.New{URL: url})
	}
	if err != nil {
		b.Fatal(err)
	}
}

func (w *walled) page(b *testing.B, tenant int) {
	m, err := w.workspaces.Require(b.Context(), w.actor, w.ids[tenant])
	var p page.Page[*link.Link]
	if err == nil {
		p, err = w.links.List(b.Context(), m, nil, page.Request{Size: page.Default})
	}
	if err != nil || len(p.Items) != page.Default {
		b.Fatal(len(p.Items), err)
	}
}

// unscoped opens a database without the second wall: its policies are switched off, and connections know no scopes.
func unscoped(b *testing.B, url string) *db.DB {
	b.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conns := stdlib.OpenDB(*config)
	conns.SetMaxOpenConns(1)
	d := &db.DB{DB: bun.NewDB(conns, pgdialect.New()), Kind: db.Postgres}
	b.Cleanup(func() { d.Close() })
	_, err = d.ExecContext(context.Background(), `DO $$ DECLARE t REGCLASS; BEGIN
		FOR t IN SELECT oid FROM pg_class WHERE relrowsecurity LOOP EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', t); END LOOP;
	END $$`)
	if err != nil {
		b.Fatal(err)
	}
	return d
}
