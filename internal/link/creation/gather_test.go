package creation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

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
		}
		for i := range 10 {
			m := b.Mine
			if i%2 == 1 {
				m = other
			}
			answers = append(answers, &answer{member: m, in: Input{URL: fmt.Sprintf("https://example.com/%d", i),
				Tags: []string{"tag"}}, want: "created"})
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
		var actors []string
		err := b.DB.NewRaw("SELECT actor_id FROM audit_events WHERE action = 'LINK_CREATED' AND workspace_id = ?",
			b.Mine.ID()).
			Scan(db.AsSystem(t.Context()), &actors)
		slices.Sort(actors)
		want := slices.Concat(slices.Repeat([]string{b.Mine.ActorID()}, 7), slices.Repeat([]string{other.ActorID()}, 5))
		slices.Sort(want)
		if diff := cmp.Diff(want, actors); diff != "" || err != nil {
			t.Errorf("who has made links (-want +got):\n%s%v", diff, err)
		}
	})
}

// TestGather_SameURLConcurrently is one link, which one of them has made.
func TestGather_SameURLConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		other := workspacetest.Join(t, b.DB, b.Mine.ID(), workspace.Editor)
		release := b.hold(t)
		var mu sync.Mutex
		var asking sync.WaitGroup
		made, ids := 0, map[string]bool{}
		for i := range 20 {
			m := b.Mine
			if i%2 == 1 {
				m = other
			}
			asking.Go(func() {
				l, created, err := b.Create(t.Context(), m, Input{URL: "https://example.com/same"})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if ids[l.ID] = true; created {
					made++
				}
				if l.In.ActorID() != m.ActorID() {
					t.Error("got the link with another caller's membership")
				}
			})
		}
		b.awaitRequests(t, 20)
		release()
		asking.Wait()
		if made != 1 || len(ids) != 1 {
			t.Errorf("%d made %d links, want 1 and 1", made, len(ids))
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

// TestGather_IsolatesRefusedInput: input that the database refuses fails only its own request.
func TestGather_IsolatesRefusedInput(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.refuseTitle(t, "refused")
		release := b.hold(t)
		var asking sync.WaitGroup
		failed := make([]error, 5)
		for i := range failed {
			in := Input{URL: fmt.Sprintf("https://example.com/%d", i)}
			if i == 2 {
				in.Title = new("refused")
			}
			asking.Go(func() { _, _, failed[i] = b.Create(t.Context(), b.Mine, in) })
		}
		b.awaitRequests(t, len(failed))
		release()
		asking.Wait()
		for i, err := range failed {
			if (err != nil) != (i == 2) {
				t.Errorf("wish %d: %v", i, err)
			}
		}
	})
}

// TestGather_CancelledCallerDoesNotAffectOthers: the one who was to make the batch has gone, and
// so has another. The rest has links.
func TestGather_CancelledCallerDoesNotAffectOthers(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		release := b.hold(t)
		gone, leave := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		failed := make([]error, 4)
		for i := range failed {
			ctx := t.Context()
			if i < 2 {
				ctx = gone
			}
			asking.Go(func() {
				_, _, failed[i] = b.Create(ctx, b.Mine, Input{URL: fmt.Sprintf("https://example.com/%d", i)})
			})
			b.awaitRequests(t, i+1)
		}
		leave()
		release()
		asking.Wait()
		if !errors.Is(failed[1], context.Canceled) || failed[2] != nil || failed[3] != nil {
			t.Errorf("%v", failed)
		}
	})
}
