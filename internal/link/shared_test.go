package link

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/polltest"
	"github.com/linkforge/linkforge/internal/workspace/workspacetest"
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
		if _, _, err := b.Create(t.Context(), m, New{URL: known}); err != nil {
			t.Fatal(err)
		}
		all[slug] = b.remembered(t, m)
	}
	return all
}

// holdShared keeps statements from being shared until it is released.
func (b *bundle) holdShared(t *testing.T) (release func()) {
	t.Helper()
	b.sharer.Serial = true
	return holdCalls(t, &b.sharer, struct{}{})
}

// create creates a link for each neighbor, see start.
func (all neighbors) create(t *testing.T, b *bundle, in map[string]New) map[string]string {
	t.Helper()
	return all.start(t, b, in)()
}

// start starts to create a link for each neighbor. On PostgreSQL they all wait for one statement first. It returns a
// function that waits for the results.
func (all neighbors) start(t *testing.T, b *bundle, in map[string]New) (wait func() map[string]string) {
	t.Helper()
	release := b.holdShared(t)
	var running sync.WaitGroup
	var mu sync.Mutex
	got := map[string]string{}
	for slug, c := range all {
		running.Go(func() {
			result := c.create(t, in[slug])
			mu.Lock()
			defer mu.Unlock()
			got[slug] = result
		})
	}
	if b.DB.Kind == db.Postgres {
		polltest.Until(t, "all wait", func() bool { return b.sharer.Waiting(struct{}{}) == len(all) })
	}
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
func inAll(url string, bob New) map[string]New {
	return map[string]New{"ada": {URL: url}, "bob": bob, "cyd": {URL: url}, "dan": {URL: url}}
}

// TestShared_IsOneStatement: links of different workspaces, new and known ones, cost one statement. Each has the
// tags and the event of its own.
func TestShared_IsOneStatement(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	var statements dbtest.Counter
	b := setup(t, &db.DB{DB: d.WithQueryHook(&statements), Kind: d.Kind})
	all, in := b.newNeighbors(t), map[string]New{}
	all["dan"].create(t, New{URL: fresh})
	for slug := range all {
		in[slug] = New{URL: fresh, Tags: []string{slug}}
	}
	in["dan"] = New{URL: fresh} // else his tags are compared
	before := statements.Load()
	got := all.create(t, b, in)
	if n := statements.Load() - before; n != 1 {
		t.Errorf("%d statements, want 1", n)
	}
	if diff := cmp.Diff(map[string]string{"ada": made, "bob": made, "cyd": made, "dan": found}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all.expectExact(t, b)
	var own int
	err := d.NewRaw(`SELECT count(*) FROM link_tags AS t JOIN links AS l ON l.id = t.link_id
		JOIN workspaces AS w ON w.id = l.workspace_id AND w.slug = t.tag
		JOIN audit_events AS e ON e.target_id = l.id AND e.workspace_id = w.id AND e.actor_id = l.created_by`).
		Scan(db.AsSystem(t.Context()), &own)
	if err != nil || own != 3 {
		t.Errorf("%d links have their own tag and event, want 3: %v", own, err)
	}
}

// TestShared_SeparatesWorkspaces: what keeps one workspace from its link does not keep the others from theirs. Some
// causes concern the statement: then each has one of its own.
func TestShared_SeparatesWorkspaces(t *testing.T) {
	t.Parallel()
	const mine = " WHERE workspace_id = ?0"
	for name, c := range map[string]struct {
		change string
		in     New
		want   string // of Bob, whose workspace has changed
		// together is how the statement ends for a neighbor.
		together string
	}{
		"a quota that is used up": {"UPDATE link_usage SET links = 100" + mine, New{URL: fresh}, errs.QuotaExceeded.Code(),
			"created"},
		"the first link of a month": {"DELETE FROM link_usage" + mine, New{URL: fresh}, made, "created"},
		"a deleted link":            {"UPDATE links SET deleted_at = ?1" + mine, New{URL: known}, found, "created"},
		"a disabled link": {"UPDATE links SET disabled_at = ?1" + mine, New{URL: known}, errs.UnsafeURL.Code(),
			"created"},
		"a removed member": {"DELETE FROM members" + mine, New{URL: fresh}, errs.NotFound.Code(), "unchecked"},
		"a lower role": {"UPDATE members SET role = 'VIEWER'" + mine, New{URL: fresh}, errs.Forbidden.Code(),
			"unchecked"},
		"a deleted workspace": {"UPDATE workspaces SET deleted_at = ?1 WHERE id = ?0", New{URL: fresh}, errs.NotFound.Code(),
			"unchecked"},
		"a refused title": {"", New{URL: fresh, Title: new("refused")}, errs.Internal.Code(), "rolled back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := setup(t, d)
				b.refuseTitle(t, "refused")
				all := b.newNeighbors(t)
				parts := all.parts(t, b, inAll("https://www.example.com/together", c.in))
				if c.change != "" {
					must.Value(d.NewRaw(c.change, all["bob"].workspaceID, noon).Exec(db.AsSystem(t.Context())))(t)
				}
				if d.Kind == db.Postgres {
					err := b.createByStatement(t.Context(), true, slices.Collect(maps.Values(parts))...)
					if got := outcome(err, parts["ada"]); got != c.together {
						t.Errorf("the statement ends as %s, want %s", got, c.together)
					}
				}
				got := all.create(t, b, inAll(fresh, c.in))
				if diff := cmp.Diff(map[string]string{"ada": made, "bob": c.want, "cyd": made, "dan": made}, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				delete(all, "bob") // its usage may have been changed
				all.expectExact(t, b)
			})
		})
	}
}

// parts returns what the neighbors contribute to a statement of PostgreSQL.
func (all neighbors) parts(t *testing.T, b *bundle, in map[string]New) map[string]*contribution {
	t.Helper()
	parts := map[string]*contribution{}
	for slug, c := range all {
		p := must.Value(c.presume(t))(t)
		one := &batch{Store: b.Store, member: p.Membership(), now: noon, isPresumed: true}
		one.add(p.Membership(), new(in[slug]), "")
		one.validate()
		c, possible := one.contribution()
		if possible != (b.DB.Kind == db.Postgres) {
			t.Fatalf("a statement is possible: %t", possible)
		}
		parts[slug] = c
	}
	return parts
}

// outcome describes how a statement ended for a share.
func outcome(err error, c *contribution) string {
	switch {
	case err != nil:
		return err.Error()
	case c.isRolledBack:
		return "rolled back"
	case !c.isChecked:
		return "unchecked"
	case c.isCharged:
		return "created"
	}
	return "not created"
}

// TestShared_WaitsForNoTransaction: while a transaction consumes the quota of one workspace, the others get their
// links.
func TestShared_WaitsForNoTransaction(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b := setup(t, d)
	all := b.newNeighbors(t)
	must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		const locking = "SELECT links FROM link_usage WHERE workspace_id = ? FOR UPDATE"
		if _, err := tx.NewRaw(locking, all["bob"].workspaceID).Exec(ctx); err != nil {
			return err
		}
		parts := all.parts(t, b, inAll(fresh, New{URL: fresh}))
		waiting, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		err := b.createByStatement(waiting, true, slices.Collect(maps.Values(parts))...)
		got := map[string]string{}
		for slug, c := range parts {
			got[slug] = outcome(err, c)
		}
		lone := all.parts(t, b, inAll(fresh+"/lone", New{URL: fresh + "/lone"}))["bob"]
		_, err = b.createTogether(waiting, []*contribution{lone})
		if got := outcome(errors.Join(err, lone.err), lone); got != "not created" {
			t.Errorf("without others, the statement ends as %s", got)
		}
		want := map[string]string{"ada": "created", "bob": "not created", "cyd": "created", "dan": "created"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	}))
	if got := all["bob"].create(t, New{URL: fresh}); got != made {
		t.Errorf("afterwards: %s", got)
	}
	all.expectExact(t, b)
}

// TestShared_IsUndoneByTakenCode: a unique index refuses the link of one workspace, after its quota was consumed.
func TestShared_IsUndoneByTakenCode(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedPostgres(t))
	all := b.newNeighbors(t)
	parts := all.parts(t, b, inAll(fresh, New{URL: fresh}))
	taken := custom(fresh+"/other", parts["bob"].unresolved[0].draft.Code)
	if got := all["bob"].create(t, taken); got != made {
		t.Fatal(got)
	}
	err := b.createByStatement(t.Context(), true, slices.Collect(maps.Values(parts))...)
	if got := outcome(err, parts["ada"]); got != "rolled back" {
		t.Errorf("the statement ends as %s", got)
	}
	all.expectExact(t, b)
	got := all.create(t, b, inAll(fresh, New{URL: fresh}))
	if diff := cmp.Diff(map[string]string{"ada": made, "bob": made, "cyd": made, "dan": made}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all.expectExact(t, b)
}

// TestShared_IsForSmallPresumedBatches: a call whose membership was confirmed waits for nobody, nor does one with
// much text.
func TestShared_IsForSmallPresumedBatches(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedPostgres(t))
	defer b.holdShared(t)()
	if _, created := b.create(t, New{URL: fresh}); !created {
		t.Error("the link was there")
	}
	presumed := &batch{Store: b.Store, member: b.mine, isPresumed: true}
	few := &contribution{batch: presumed, records: slices.Repeat([]*record{{}}, maxSharedLinks)}
	many := &contribution{batch: presumed, records: slices.Repeat([]*record{{}}, maxSharedLinks+1)}
	long := &contribution{batch: presumed, records: []*record{{Search: strings.Repeat("x", maxSharedBytes)}}}
	loop := &contribution{batch: presumed, urls: []string{"http://sho.rt/loop"}}
	if !few.mayShare() || many.mayShare() || long.mayShare() || loop.mayShare() {
		t.Errorf("they may share: %t, %t, %t, %t, want only the first", few.mayShare(), many.mayShare(), long.mayShare(),
			loop.mayShare())
	}
}

// TestShared_BacksOffAfterFailure: a workspace that its own statement does not serve does not share for a minute.
func TestShared_BacksOffAfterFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		quota int64
		in    New
		want  errs.Kind
	}{
		"a quota that is used up": {1, New{URL: fresh}, errs.QuotaExceeded},
		"a refused title":         {100, New{URL: fresh, Title: new("refused")}, errs.Internal},
		"an own host":             {100, New{URL: "http://sho.rt/loop"}, errs.UnsafeURL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, dbtest.MigratedPostgres(t))
			b.refuseTitle(t, "refused")
			bob := b.newNeighbors(t)["bob"]
			b.LinkQuota = c.quota
			if got := bob.create(t, c.in); got != c.want.Code() {
				t.Fatal(got)
			}
			b.LinkQuota = 100
			release := b.holdShared(t)
			if got := bob.create(t, New{URL: fresh + "/alone"}); got != made {
				t.Error(got)
			}
			b.now = b.now.Add(sharingBackoff)
			var running sync.WaitGroup
			running.Go(func() { bob.create(t, New{URL: fresh + "/shared"}) })
			polltest.Until(t, "it waits", func() bool { return b.sharer.Waiting(struct{}{}) == 1 })
			release()
			running.Wait()
		})
	}
}

// TestShared_NeedsOneMoreStatement for a link that the shared one leaves out, such as the first of a month.
func TestShared_NeedsOneMoreStatement(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	var statements dbtest.Counter
	b := setup(t, &db.DB{DB: d.WithQueryHook(&statements), Kind: d.Kind})
	bob := b.newNeighbors(t)["bob"]
	b.now = b.now.AddDate(0, 1, 0)
	before := statements.Load()
	if got := bob.create(t, New{URL: fresh}); got != made {
		t.Error(got)
	}
	if n := statements.Load() - before; n != 2 {
		t.Errorf("%d statements, want 2", n)
	}
}

// TestShared_DoesNotWaitForForeignKeys: while a transaction holds the account of one caller, the others get their
// links.
func TestShared_DoesNotWaitForForeignKeys(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b := setup(t, d)
	all := b.newNeighbors(t)
	var wait func() map[string]string
	must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		const locking = "SELECT id FROM accounts WHERE id = ? FOR UPDATE"
		if _, err := tx.NewRaw(locking, all["bob"].accountID).Exec(ctx); err != nil {
			return err
		}
		wait = all.start(t, b, inAll(fresh, New{URL: fresh}))
		polltest.Until(t, "the others have their links", func() bool {
			var links int
			for _, slug := range []string{"ada", "cyd", "dan"} {
				links += len(b.linksOf(t, all[slug].workspaceID))
			}
			return links == 6
		})
		return nil
	}))
	got := wait()
	if diff := cmp.Diff(map[string]string{"ada": made, "bob": made, "cyd": made, "dan": made}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all.expectExact(t, b)
}

// TestCountFitting_BoundsStatements: texts that do not fit into a statement go into the next one.
func TestCountFitting_BoundsStatements(t *testing.T) {
	t.Parallel()
	of := func(sizes ...int) (parts []*contribution) {
		for _, n := range sizes {
			parts = append(parts, &contribution{records: []*record{{Search: strings.Repeat("x", n)}}})
		}
		return parts
	}
	for _, c := range []struct {
		sizes []int
		want  int
	}{
		{[]int{1, 1, 1}, 3},
		{make([]int, maxStatementLinks), maxStatementLinks},
		{make([]int, maxStatementLinks+1), maxStatementLinks},
		{[]int{statementBytes, 1}, 1},
		{[]int{1, statementBytes, 1}, 1},
		{[]int{1, statementBytes / 2, 1}, 3},
		{[]int{2 * statementBytes}, 1},
	} {
		if got := countFitting(of(c.sizes...)); got != c.want {
			t.Errorf("%d of the sizes %d fit, want %d", got, c.sizes, c.want)
		}
	}
}
