package creation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
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
				b.ExpectUsed(t, int64(len(b.all(t))))
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

// create creates a link for the caller, and describes the result.
func (c caller) create(t *testing.T, in Input) string {
	t.Helper()
	m, err := c.member(t)
	if err != nil {
		return kindOf(err)
	}
	results, err := c.b.CreateMany(t.Context(), m, Batch{Links: []*Input{&in}})
	if err != nil {
		return kindOf(err)
	}
	return describe(results[0])
}

func describe(r link.Result) string {
	if r.Err != nil {
		return kindOf(r.Err)
	}
	return fmt.Sprint(map[bool]string{true: "created", false: "found"}[r.Created], " with ", r.Link.RedirectStatus)
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
						in.Fields.Title = to(&c.title)
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
				wanttest.Equal(t, want, got, "difference")
				created := 1 + int64(strings.Count(strings.Join(want, " "), "created"))
				b.ExpectRows(t, created, "links", "workspace_id = ?", b.Mine.ID())
				b.ExpectUsed(t, created)
			})
		})
	}
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

// hold runs a batch until it is released: small calls of all workspaces meanwhile wait for the next
// one.
func (b *bundle) hold(t *testing.T) (release func()) {
	t.Helper()
	b.lanes = 1
	held, over := make(chan struct{}), make(chan struct{})
	var holding sync.WaitGroup
	holding.Go(func() {
		_, _ = b.gatherer.Do(context.WithoutCancel(t.Context()), b.lane(""), nil,
			func(context.Context, []*call) (struct{}, error) {
				close(held)
				<-over
				return struct{}{}, nil
			})
	})
	<-held
	return func() {
		close(over)
		holding.Wait()
	}
}

// awaitRequests waits until n calls wait.
func (b *bundle) awaitRequests(t *testing.T, n int) {
	t.Helper()
	polltest.Until(t, fmt.Sprint(n, " calls wait"), func() bool { return b.gatherer.Waiting(b.lane("")) == n })
}

// TestGather_EachCallerGetsItsOwnResult requests new links, the same one, a refused one and a
// taken code for two members in one batch.
func TestGather_EachCallerGetsItsOwnResult(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		there, _ := b.create(t, Input{URL: "https://example.com/there"})
		other := workspacetest.Join(t, b.DB, b.Mine.ID(), workspace.Editor)
		release := b.hold(t)
		type answer struct {
			member  workspace.Membership
			in      Input
			want    string
			link    *link.Link
			created bool
			err     error
		}
		promo := "promo"
		answers := []*answer{
			{member: b.Mine, in: Input{URL: "https://example.com/there"}, want: "there"},
			{member: other, in: Input{URL: "https://example.com/there"}, want: "there"},
			{member: b.Mine, in: Input{URL: "ftp://example.com/"}, want: errs.InvalidURL.Code()},
			{member: b.Mine,
				in:   Input{URL: "https://example.com/promo", Strategy: new(link.Custom), CustomCode: &promo},
				want: "created"},
			{member: other, in: Input{URL: "https://example.com/other", Strategy: new(link.Custom), CustomCode: &promo},
				want: errs.CodeTaken.Code()},
			{member: other, in: Input{URL: "https://example.com/new",
				Fields: linkfield.Change{Tags: to([]string{"tag"})}}, want: "created"},
		}
		var asking sync.WaitGroup
		for i, a := range answers { // in this order: the fourth has the code before the fifth
			asking.Go(func() { a.link, a.created, a.err = b.Create(t.Context(), a.member, a.in) })
			b.awaitRequests(t, i+1)
		}
		release()
		asking.Wait()
		for _, a := range answers {
			said := outcomes([]link.Result{{Link: a.link, Created: a.created, Err: a.err}})[0]
			if said != a.want {
				t.Errorf("%s: %s, want %s: %v", a.in.URL, said, a.want, a.err)
			}
			if a.err == nil && a.link.In.ActorID() != a.member.ActorID() {
				t.Errorf("%s: got the link with another caller's membership", a.in.URL)
			}
			if a.created && optional.Value(a.link.CreatedBy) != a.member.AccountID() {
				t.Errorf("%s: made by %q, want %q", a.in.URL, optional.Value(a.link.CreatedBy), a.member.AccountID())
			}
			if a.want == "there" && a.link != nil && a.link.ID != there.ID {
				t.Errorf("%s: it is another link", a.in.URL)
			}
		}
	})
}

// refuseTitle makes the database refuse links with a title.
func (b *bundle) refuseTitle(t *testing.T, title string) {
	t.Helper()
	statement := map[db.Kind]string{
		db.Postgres: "ALTER TABLE links ADD CHECK (title <> '" + title + "')",
		db.SQLite: "CREATE TRIGGER refused BEFORE INSERT ON links WHEN NEW.title = '" + title +
			"' BEGIN SELECT RAISE(ABORT, " +
			"'refused'); END",
	}[b.DB.Kind]
	must.Value(b.DB.ExecContext(db.AsOwner(t.Context()), statement))(t)
}

// TestGather_FailingCallsAffectNoOthers: the one who was to make the batch has gone, so has another,
// and the database refuses the input of a third. The rest has links.
func TestGather_FailingCallsAffectNoOthers(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.refuseTitle(t, "refused")
		release := b.hold(t)
		gone, leave := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		failed := make([]error, 5)
		for i := range failed {
			ctx, in := t.Context(), Input{URL: fmt.Sprintf("https://example.com/%d", i)}
			switch i {
			case 0, 1:
				ctx = gone
			case 3:
				in.Fields.Title = to(new("refused"))
			}
			asking.Go(func() { _, _, failed[i] = b.Create(ctx, b.Mine, in) })
			b.awaitRequests(t, i+1)
		}
		leave()
		release()
		asking.Wait()
		if !errors.Is(failed[1], context.Canceled) || failed[2] != nil || !errs.Is(failed[3], errs.Internal) ||
			failed[4] != nil {
			t.Errorf("%v", failed)
		}
	})
}

// TestStore_ChecksMembersAgain: what waited for its turn is written only if its caller still has
// the permission.
func TestStore_ChecksMembersAgain(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		two := []*Input{{URL: "https://example.com/a"}, {URL: "https://example.com/b"}}
		routed := []*Input{{URL: "https://example.com/r", Fields: linkfield.Change{Metadata: to(pairs("a", "b"))}},
			{URL: "https://example.com/s"}}
		batches := map[string]Batch{
			"one": {Links: two[:1]}, "many": {Links: two}, "with data": {Links: routed},
			"with a key":   {Links: two, IdempotencyKey: new("a key")},
			"all or none":  {Links: two, OnError: link.AllOrNothing},
			"random codes": {Links: []*Input{{URL: "https://example.com/", Strategy: new(link.Random)}}},
		}
		call := func(m workspace.Membership) map[string]error {
			called := map[string]error{}
			for name, batch := range batches {
				_, called[name] = b.CreateMany(t.Context(), m, batch)
			}
			_, called["upsert"] = b.UpsertMany(t.Context(), m,
				[]*Input{{URL: "https://example.com/x", Fields: linkfield.Change{ExternalID: to(new("x"))}}},
				link.SkipFailed)
			return called
		}
		for change, want := range map[string]errs.Kind{
			"UPDATE members SET role = 'VIEWER' WHERE account_id = ?": errs.Forbidden,
			"DELETE FROM members WHERE account_id = ?":                errs.NotFound,
		} {
			member := workspacetest.Join(t, b.DB, b.Mine.ID(), workspace.Editor)
			must.Value(b.DB.NewRaw(change, member.AccountID()).Exec(db.AsSystem(t.Context())))(t)
			for name, err := range call(member) {
				if !errs.Is(err, want) {
					t.Errorf("%s, %s: %v", change, name, err)
				}
			}
		}
		b.ExpectRows(t, 0, "links", "TRUE")
		for name, err := range call(workspacetest.Join(t, b.DB, b.Mine.ID(), workspace.Editor)) {
			if err != nil {
				t.Errorf("%s by a member: %v", name, err)
			}
		}
	})
}
