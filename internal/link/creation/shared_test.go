package creation

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

const (
	// known is the URL of the link that each neighbor has, and fresh one that none of them has.
	known, fresh = "https://www.example.com/known", "https://www.example.com/fresh"
	made, found  = "created with 302", "found with 302"
)

// neighbors are members of different workspaces, by the slug.
type neighbors map[string]caller

// newNeighbors returns members of new workspaces, which have a link each.
func (b *bundle) newNeighbors(t *testing.T) neighbors {
	t.Helper()
	all := neighbors{}
	for _, slug := range []string{"ada", "bob", "cyd", "dan"} {
		m := workspacetest.New(t, b.DB, slug)
		if _, _, err := b.Create(t.Context(), m, Input{URL: known}); err != nil {
			t.Fatal(err)
		}
		all[slug] = b.caller(t, m)
	}
	return all
}

// create creates a link for each neighbor, see start.
func (all neighbors) create(t *testing.T, b *bundle, in map[string]Input) map[string]string {
	t.Helper()
	return all.start(t, b, in)()
}

// start starts to create a link for each neighbor, in one batch. It returns a function that waits
// for the results.
func (all neighbors) start(t *testing.T, b *bundle, in map[string]Input) (wait func() map[string]string) {
	t.Helper()
	release := b.hold(t)
	var running sync.WaitGroup
	var mu sync.Mutex
	got, permitted := map[string]string{}, 0
	for slug, c := range all {
		if m, err := c.member(t); err == nil && m.May(workspace.WriteLinks) {
			permitted++
		}
		running.Go(func() {
			result := c.create(t, in[slug])
			mu.Lock()
			defer mu.Unlock()
			got[slug] = result
		})
	}
	b.awaitRequests(t, permitted)
	release()
	return func() map[string]string {
		running.Wait()
		return got
	}
}

// expectExact expects that each workspace has used as much of its quota as it has links.
func (all neighbors) expectExact(t *testing.T, b *bundle) {
	t.Helper()
	for slug, c := range all {
		var used int
		err := b.DB.NewSelect().Table("link_usage").Column("links").Where("workspace_id = ?", c.workspaceID).
			Scan(db.AsSystem(t.Context()), &used)
		if ids := b.linksOf(t, c.workspaceID); err != nil || used != len(ids) {
			t.Errorf("%s: %d links are %d of the quota: %v", slug, len(ids), used, err)
		}
	}
}

// inAll returns the same link for each neighbor except Bob.
func inAll(url string, bob Input) map[string]Input {
	return map[string]Input{"ada": {URL: url}, "bob": bob, "cyd": {URL: url}, "dan": {URL: url}}
}

// TestShared_IsOneTransaction: links of different workspaces, new and known ones, cost one
// transaction. Each has the tags and the event of its own.
func TestShared_IsOneTransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var statements dbtest.Counter
		b := setup(t, &db.DB{DB: d.WithQueryHook(&statements), Kind: d.Kind})
		all, in := b.newNeighbors(t), map[string]Input{}
		all["dan"].create(t, Input{URL: fresh})
		for slug := range all {
			in[slug] = Input{URL: fresh, Fields: linkfield.Change{Tags: to([]string{slug})}}
		}
		in["dan"] = Input{URL: fresh} // otherwise the tags of dan's link are compared
		shared, calls := all.batch(t, b, in)
		before := statements.Load()
		err := shared.run(t.Context())
		if n := statements.Load() - before; n > 10 {
			t.Errorf("%d statements", n)
		}
		wanttest.Equal(t, map[string]string{"ada": made, "bob": made, "cyd": made, "dan": found}, calls.outcomes(err),
			"difference")
		all.expectExact(t, b)
		var own int
		err = d.NewRaw(`SELECT count(*) FROM link_tags AS t JOIN links AS l ON l.id = t.link_id
			JOIN workspaces AS w ON w.id = l.workspace_id AND w.slug = t.tag
			JOIN audit_events AS e ON e.target_id = l.id AND e.workspace_id = w.id AND e.actor_id = l.created_by`).
			Scan(db.AsSystem(t.Context()), &own)
		if err != nil || own != 3 {
			t.Errorf("%d links have their own tag and event, want 3: %v", own, err)
		}
	})
}

// callsOf are the calls of a batch, by the slug of their workspace.
type callsOf map[string]*call

// batch returns a shared batch with a call of each neighbor.
func (all neighbors) batch(t *testing.T, b *bundle, in map[string]Input) (*batch, callsOf) {
	t.Helper()
	calls := callsOf{}
	for slug, c := range all {
		m := must.Value(c.member(t))(t)
		calls[slug] = &call{member: m}
		calls[slug].add(creations, new(in[slug]))
		ctx := must.Value(m.Enter(t.Context(), workspace.WriteLinks))(t)
		must.NoError(t, b.PrepareRoutings(ctx, m, []link.Routed{{Change: in[slug].Fields.Routing.To}}))
	}
	one := b.newBatch(slices.Collect(maps.Values(calls))...)
	one.isShared = true
	return one, calls
}

// outcomes describes how a batch has ended for each call.
func (calls callsOf) outcomes(err error) map[string]string {
	all := map[string]string{}
	for slug, c := range calls {
		switch {
		case err != nil:
			all[slug] = "rolled back"
		case c.hasLeft:
			all[slug] = "left"
		case c.err != nil:
			all[slug] = describe(link.Result{Err: c.err})
		default:
			all[slug] = describe(c.results[0])
		}
	}
	return all
}

// TestShared_SeparatesWorkspaces: an obstacle in one workspace delays no other workspace. A shared
// batch leaves out items that it cannot serve.
func TestShared_SeparatesWorkspaces(t *testing.T) {
	t.Parallel()
	const mine = " WHERE workspace_id = ?0"
	full := Input{URL: fresh, Fields: linkfield.Change{MaxClicks: to(new(int64(5))),
		Metadata: to([]*linkfield.Pair{{Key: "a", Value: "b"}}), Tags: to([]string{"tag"}), ExternalID: to(new("mine")),
		Routing: to(byRule("DE"))}}
	for name, c := range map[string]struct {
		change string
		in     Input
		// together is how the shared batch ends for Bob, whose workspace has changed, and want the
		// result of a call.
		together, want string
	}{
		"a quota that is used up": {"UPDATE link_usage SET links = 100" + mine, Input{URL: fresh},
			errs.QuotaExceeded.Code(),
			errs.QuotaExceeded.Code()},
		"a link with everything": {"", full, made, made},
		"a link with a password": {"", Input{URL: fresh,
			Fields: linkfield.Change{Routing: to(withPassword("a password"))}}, made, made},
		"a random code":  {"", Input{URL: fresh, Strategy: new(link.Random)}, made, made},
		"a deleted link": {"UPDATE links SET deleted_at = ?1" + mine, Input{URL: known}, "left", found},
		"a disabled link": {"UPDATE links SET disabled_at = ?1" + mine, Input{URL: known}, errs.UnsafeURL.Code(),
			errs.UnsafeURL.Code()},
		"a due change": {"UPDATE links SET next_change_at = ?1" + mine, Input{URL: known}, found, found},
		"a removed member": {"DELETE FROM members" + mine, Input{URL: fresh}, errs.NotFound.Code(),
			errs.NotFound.Code()},
		"a lower role": {"UPDATE members SET role = 'VIEWER'" + mine, Input{URL: fresh}, errs.Forbidden.Code(),
			errs.Forbidden.Code()},
		"a deleted workspace": {"UPDATE workspaces SET deleted_at = ?1 WHERE id = ?0", Input{URL: fresh},
			errs.NotFound.Code(),
			errs.NotFound.Code()},
		"a domain of its own": {"INSERT INTO domains (id, workspace_id, host, token, created_at) " +
			"VALUES ('dom_a', ?0, 'www.example.com', 't', ?1)", Input{URL: fresh}, errs.UnsafeURL.Code(),
			errs.UnsafeURL.Code()},
		"an own host": {"", Input{URL: "http://sho.rt/loop"}, errs.UnsafeURL.Code(), errs.UnsafeURL.Code()},
		"no URL":      {"", Input{URL: "ftp://example.com"}, errs.InvalidURL.Code(), errs.InvalidURL.Code()},
		"a refused title": {"", Input{URL: fresh, Fields: linkfield.Change{Title: to(new("refused"))}}, "rolled back",
			errs.Internal.Code()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := setup(t, d)
				b.Passwords = reversible{}
				b.refuseTitle(t, "refused")
				all := b.newNeighbors(t)
				together, calls := all.batch(t, b, inAll(known+"/together", c.in))
				if c.change != "" {
					must.Value(d.NewRaw(c.change, all["bob"].workspaceID, noon).Exec(db.AsSystem(t.Context())))(t)
				}
				want := map[string]string{"ada": made, "bob": c.together, "cyd": made, "dan": made}
				if c.together == "rolled back" {
					want = map[string]string{"ada": c.together, "bob": c.together, "cyd": c.together, "dan": c.together}
				}
				wanttest.Equal(t, want, calls.outcomes(together.run(t.Context())), "together")
				got := map[string]string{}
				in := inAll(fresh, c.in)
				if c.change == "" && c.together == made {
					return // the link exists now
				}
				if got = all.create(t, b, in); got["bob"] != c.want || got["ada"] != made || got["cyd"] != made ||
					got["dan"] != made {
					t.Errorf("%v, want %s for bob", got, c.want)
				}
				delete(all, "bob") // its usage may have been changed
				all.expectExact(t, b)
			})
		})
	}
}

// TestShared_WaitsForNoTransaction: while a transaction holds the quota of one workspace, the first
// quota of a month, or the account of a caller, the others get their links.
func TestShared_WaitsForNoTransaction(t *testing.T) {
	t.Parallel()
	for name, locking := range map[string]string{
		"the quota":   "SELECT links FROM link_usage WHERE workspace_id = ?0 FOR UPDATE",
		"a new quota": "INSERT INTO link_usage (workspace_id, month, links) VALUES (?0, '2026-08', 0)",
		"the account": "SELECT id FROM accounts WHERE id = ?1 FOR UPDATE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.MigratedPostgres(t)
			b := setup(t, d)
			all := b.newNeighbors(t)
			if name == "a new quota" {
				must.Value(d.NewRaw("UPDATE link_usage SET month = '2026-08' WHERE workspace_id <> ?",
					all["bob"].workspaceID).
					Exec(db.AsSystem(t.Context())))(t)
				b.Now = time.Date(2026, 8, 15, 0, 0, 0, 0, time.UTC)
			}
			var wait func() map[string]string
			must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				if _, err := tx.NewRaw(locking, all["bob"].workspaceID, all["bob"].accountID).Exec(ctx); err != nil {
					return err
				}
				wait = all.start(t, b, inAll(fresh, Input{URL: fresh}))
				polltest.Until(t, "the others have their links", func() bool {
					return len(b.linksOf(t, all["ada"].workspaceID))+len(b.linksOf(t, all["cyd"].workspaceID))+
						len(b.linksOf(t, all["dan"].workspaceID)) == 6
				})
				return nil
			}))
			got := wait()
			wanttest.Equal(t, map[string]string{"ada": made, "bob": made, "cyd": made, "dan": made}, got, "difference")
			if name != "a new quota" {
				all.expectExact(t, b)
			}
		})
	}
}

// TestShared_TriesNextCodes: a unique index refuses the code of one workspace's link, which another
// workspace has.
func TestShared_TriesNextCodes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		all := b.newNeighbors(t)
		taken := b.Candidate(fresh, all["bob"].workspaceID, 0)
		if got := all["ada"].create(t, custom(fresh+"/other", taken)); got != made {
			t.Fatal(got)
		}
		must.Value(b.DB.NewRaw("UPDATE links SET root_code = code WHERE code = ?", taken).
			Exec(db.AsSystem(t.Context())))(t)
		together, calls := all.batch(t, b, inAll(fresh, Input{URL: fresh}))
		err := together.run(t.Context())
		wanttest.Equal(t, map[string]string{"ada": made, "bob": made, "cyd": made, "dan": made}, calls.outcomes(err),
			"difference")
		all.expectExact(t, b)
	})
}

// TestCall_IsAlone: what would delay others, or must be rolled back or saved by itself, shares no
// batch.
func TestCall_IsAlone(t *testing.T) {
	t.Parallel()
	links := func(n int, in Input) (c call) {
		for range n {
			c.add(creations, &in)
		}
		return c
	}
	policy, key, upsert := links(1, Input{}), links(1, Input{}), links(1, Input{})
	policy.policy, key.key, upsert.items[0].want.kind = link.AllOrNothing, &keyRow{}, upserts
	for name, c := range map[string]struct {
		call call
		want bool
	}{
		"few": {links(maxSharedLinks, Input{}), false}, "many": {links(maxSharedLinks+1, Input{}), true},
		"long": {links(1, Input{Fields: linkfield.Change{Metadata: to([]*linkfield.Pair{{Value: strings.Repeat("x",
			maxSharedBytes)}})}}),
			true},
		"all or nothing": {policy, true}, "a key": {key, true}, "an upsert": {upsert, true},
	} {
		if got := c.call.isAlone(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestCountFitting_BoundsBatches: texts that do not fit into a batch go into the next one.
func TestCountFitting_BoundsBatches(t *testing.T) {
	t.Parallel()
	of := func(sizes ...int) (calls []*call) {
		for _, n := range sizes {
			c := &call{}
			pair := &linkfield.Pair{Value: strings.Repeat("x", n)}
			c.add(creations, &Input{Fields: linkfield.Change{Metadata: to([]*linkfield.Pair{pair})}})
			calls = append(calls, c)
		}
		return calls
	}
	for _, c := range []struct {
		sizes []int
		want  int
	}{
		{[]int{1, 1, 1}, 3},
		{make([]int, maxBatchLinks), maxBatchLinks},
		{make([]int, maxBatchLinks+1), maxBatchLinks},
		{[]int{link.StatementBytes, 1}, 1},
		{[]int{1, link.StatementBytes, 1}, 1},
		{[]int{1, link.StatementBytes / 2, 1}, 3},
		{[]int{2 * link.StatementBytes}, 1},
	} {
		if got := countFitting(of(c.sizes...)); got != c.want {
			t.Errorf("%d of the sizes %d fit, want %d", got, c.sizes, c.want)
		}
	}
}
