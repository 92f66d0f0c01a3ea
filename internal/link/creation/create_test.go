package creation

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestCreate_SeesEveryChange of the member and of the workspace before the call: memberships in the
// memory of a node never decide.
func TestCreate_SeesEveryChange(t *testing.T) {
	t.Parallel()
	const fromMember = " WHERE workspace_id = ?0 AND account_id = ?1"
	for name, c := range map[string]struct {
		change string
		want   string
	}{
		"nothing":            {"", "created with 302"},
		"another workspace":  {"UPDATE workspaces SET updated_at = ?2 WHERE id <> ?0", "created with 302"},
		"the member removed": {"DELETE FROM members" + fromMember, errs.NotFound.Code()},
		"a lower role":       {"UPDATE members SET role = 'VIEWER'" + fromMember, errs.Forbidden.Code()},
		"a higher role":      {"UPDATE members SET role = 'ADMIN'" + fromMember, "created with 302"},
		"another default": {"UPDATE workspaces SET default_redirect_status = 301 WHERE id = ?0",
			"created with 301"},
		"a lower quota":       {"UPDATE workspaces SET link_quota = 0 WHERE id = ?0", errs.QuotaExceeded.Code()},
		"a deleted workspace": {"UPDATE workspaces SET deleted_at = ?2 WHERE id = ?0", errs.NotFound.Code()},
		"a verified domain": {"INSERT INTO domains (id, workspace_id, host, token, created_at, verified_at) " +
			"VALUES ('dom_a', ?0, 'www.example.com', 'a', ?2, ?2)", errs.UnsafeURL.Code()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := setup(t, d)
				editor := b.caller(t, workspacetest.Join(t, d, b.Mine.ID(), workspace.Editor))
				if c.change != "" {
					must.Value(d.NewRaw(c.change, b.Mine.ID(), editor.accountID, noon).
						Exec(db.AsSystem(t.Context())))(t)
				}
				in := Input{URL: "https://www.example.com/a"}
				if got := editor.create(t, in); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				want := strings.Replace(c.want, "created", "found", 1)
				if got := editor.create(t, in); got != want {
					t.Errorf("afterwards: %s, want %s", got, want)
				}
				if used := b.Used(t); used != int64(len(b.all(t))) {
					t.Errorf("%d links are %d of the quota", len(b.all(t)), used)
				}
			})
		})
	}
}

// caller is a member whose membership the node remembers on PostgreSQL.
type caller struct {
	b                      *bundle
	spaces                 *workspace.Store
	accountID, workspaceID string
}

func (b *bundle) caller(t *testing.T, m workspace.Membership) caller {
	t.Helper()
	c := caller{b, workspacetest.Store(b.DB), m.AccountID(), m.ID()}
	must.Value(c.member(t))(t)
	return c
}

func (c caller) member(t *testing.T) (workspace.Membership, error) {
	t.Helper()
	return c.spaces.Presume(t.Context(), account.Actor{AccountID: c.accountID}, c.workspaceID, workspace.WriteLinks)
}

// createOne creates a link for the caller.
func (c caller) createOne(t *testing.T, in Input) link.Result {
	t.Helper()
	m, err := c.member(t)
	if err != nil {
		return link.Result{Err: err}
	}
	results, err := c.b.CreateMany(t.Context(), m, Batch{Links: []*Input{&in}})
	if err != nil {
		return link.Result{Err: err}
	}
	return results[0]
}

// create creates a link and describes the result.
func (c caller) create(t *testing.T, in Input) string {
	t.Helper()
	return describe(c.createOne(t, in))
}

func describe(r link.Result) string {
	switch {
	case r.Err != nil:
		return errs.From(r.Err).Kind.Code()
	case r.Created:
		return fmt.Sprint("created with ", r.Link.RedirectStatus)
	}
	return fmt.Sprint("found with ", r.Link.RedirectStatus)
}

// all returns the ids of all links of the workspace.
func (b *bundle) all(t *testing.T) (ids []string) {
	t.Helper()
	return b.linksOf(t, b.Mine.ID())
}

func (b *bundle) linksOf(t *testing.T, workspaceID string) (ids []string) {
	t.Helper()
	must.NoError(t, b.DB.NewSelect().Table("links").Column("id").Where("workspace_id = ?", workspaceID).
		Scan(db.AsSystem(t.Context()), &ids))
	return ids
}

// TestCreate_ChecksEachCallerOfABatch: while a batch waits, some members lose the permission, one
// of them requests the same link as another member, and the database refuses an input.
func TestCreate_ChecksEachCallerOfABatch(t *testing.T) {
	t.Parallel()
	const (
		lowered = "UPDATE members SET role = 'VIEWER' WHERE account_id = ?"
		removed = "DELETE FROM members WHERE account_id = ?"
	)
	type call struct {
		change, path, title, want string
	}
	for name, calls := range map[string][]call{
		"nothing special": {{"", "a", "", made}, {"", "same", "", made}},
		"duplicates": {
			{removed, "same", "", errs.NotFound.Code()}, {"", "same", "", made},
			{lowered, "same", "", errs.Forbidden.Code()},
			{"", "same", "", found},
		},
		"refused input": {
			{lowered, "a", "", errs.Forbidden.Code()}, {removed, "b", "", errs.NotFound.Code()},
			{"", "c", "refused", errs.Internal.Code()}, {"", "same", "", made},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := setup(t, d)
				b.refuseTitle(t, "refused")
				// no call leaves the batch for want of a quota
				b.create(t, Input{URL: "https://www.example.com/before"})
				callers, got, want := make([]caller, len(calls)), make([]string, len(calls)), []string{}
				release := b.hold(t)
				var running sync.WaitGroup
				for i, c := range calls {
					callers[i] = b.caller(t, workspacetest.Join(t, d, b.Mine.ID(), workspace.Editor))
					in := Input{URL: "https://www.example.com/" + c.path}
					if want = append(want, c.want); c.title != "" {
						in.Title = &c.title
					}
					running.Go(func() { got[i] = callers[i].create(t, in) })
					b.awaitRequests(t, i+1)
				}
				for i, c := range calls {
					if c.change != "" {
						must.Value(d.NewRaw(c.change, callers[i].accountID).Exec(db.AsSystem(t.Context())))(t)
					}
				}
				release()
				running.Wait()
				linktest.Equal(t, want, got, "difference")
				created := 1 + strings.Count(strings.Join(want, " "), "created")
				if links := b.all(t); len(links) != created || b.Used(t) != int64(created) {
					t.Errorf("%d links, %d of the quota, want %d", len(links), b.Used(t), created)
				}
			})
		})
	}
}

// TestCreate_MixesNewAndExistingLinks: one batch has new links, existing, deleted and disabled
// ones, and equal requests.
func TestCreate_MixesNewAndExistingLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		url := func(name string) Input { return Input{URL: "https://www.example.com/" + name} }
		old, _ := b.create(t, url("old"))
		deleted, _ := b.create(t, url("deleted"))
		must.Value(b.Edit.Delete(t.Context(), b.Mine, deleted.ID))(t)
		disabled, _ := b.create(t, url("disabled"))
		must.Value(b.DB.NewRaw("UPDATE links SET disabled_at = ? WHERE id = ?", noon, disabled.ID).
			Exec(db.AsSystem(t.Context())))(t)
		names := []string{"old", "new", "new", "deleted", "disabled", "newer"}
		got := make([]string, len(names))
		release := b.hold(t)
		var callers sync.WaitGroup
		for i, name := range names {
			callers.Go(func() {
				l, created, err := b.Create(t.Context(), b.Mine, url(name))
				switch {
				case err != nil:
					got[i] = errs.From(err).Kind.Code()
				case created:
					got[i] = "created"
				default:
					got[i] = map[string]string{old.ID: "old", deleted.ID: "deleted"}[l.ID]
				}
			})
			b.awaitRequests(t, i+1)
		}
		release()
		callers.Wait()
		if got[2] == "created" { // the deleted link is for another batch, which the calls join in any order
			got[1], got[2] = got[2], got[1]
		}
		want := []string{"old", "created", "", "deleted", errs.UnsafeURL.Code(), "created"}
		linktest.Equal(t, want, got, "difference")
		if used := b.Used(t); used != 5 {
			t.Errorf("%d of the quota are used, want 5", used)
		}
	})
}

func TestDrawCodes_LeavesReservedWordsOut(t *testing.T) {
	t.Parallel()
	for _, isOwn := range []bool{false, true} {
		n := 0
		codes := drawCodes(func() string { n++; return []string{"graphql", "Abcdefg"}[n%2] }, isOwn)
		if len(codes) != randomAttempts || slices.Contains(codes, "graphql") != isOwn {
			t.Errorf("%v, of a domain: %t", codes, isOwn)
		}
	}
}
