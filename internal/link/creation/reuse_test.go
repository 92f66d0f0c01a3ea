package creation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// reversible are Passwords whose hashes have the password.
type reversible struct{}

func (reversible) Hash(_ context.Context, _, password string, _ ...string) (string, error) {
	return "#" + password, nil
}

func (reversible) Matches(_ context.Context, hash, password string, _ ...string) (bool, error) {
	return hash == "#"+password, nil
}

// withPassword is a routing with a password.
func withPassword(text string) *routing.Change {
	return gated(&routing.GateChange{Password: optional.Set(&routing.Password{Text: text})})
}

func gated(c *routing.GateChange) *routing.Change { return &routing.Change{Gate: optional.Set(c)} }

// byRule is a routing with one rule for a country.
func byRule(country string) *routing.Change {
	rule := &routing.Rule{When: []*routing.Condition{{Country: []string{country}}}, Targets: []*routing.Target{{}}}
	return &routing.Change{Rules: optional.Set([]*routing.Rule{rule})}
}

// sending returns the input with a password of its own: a call changes it.
func sending(in Input) Input {
	if p := in.Fields.Routing.To.NewPassword(); p != nil {
		change := *in.Fields.Routing.To
		change.Gate = withPassword(p.Text).Gate
		in.Fields.Routing.To = &change
	}
	return in
}

// reused describes results: created, there with the ignored fields, or the kind of the error with
// its field.
func reused(results ...link.Result) (all []string) {
	for i, outcome := range outcomes(results) {
		r := results[i]
		if r.Err != nil {
			r.Ignored = errs.From(r.Err).Field
			outcome += " at"
		}
		all = append(all, strings.Join(append([]string{outcome}, r.Ignored...), " "))
	}
	return all
}

// TestStore_CreateComparesWithTheExistingLink creates a link that exists, by its URL, by a code and
// with an external id, alone and in each kind of batch. TestDecide_ByFields has the other fields.
func TestStore_CreateComparesWithTheExistingLink(t *testing.T) {
	t.Parallel()
	soon := noon.Add(time.Hour)
	full := Input{Fields: linkfield.Change{Tags: to([]string{"x", "y"}), StartsAt: to(&soon),
		Routing: to(withPassword("password 1"))}}
	full.Fields.Routing.To.Rules = byRule("DE").Rules
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.Passwords = reversible{}
		kinds := func(in Input) (all []*Input) {
			for _, kind := range []Input{{}, {CustomCode: new("code")},
				{CustomCode: new("own"), Fields: linkfield.Change{ExternalID: to(new("own"))}}} {
				one := sending(in)
				one.URL, one.CustomCode = "https://example.com/full", kind.CustomCode
				one.Fields.ExternalID = kind.Fields.ExternalID
				all = append(all, &one)
			}
			return all
		}
		b.createMany(t, link.SkipFailed, kinds(full)...)
		for name, c := range map[string]struct {
			in   Input
			want string
		}{
			"no field":     {Input{}, "there"},
			"all the same": {full, "there"},
			"start": {Input{Fields: linkfield.Change{StartsAt: to(new(soon.Add(time.Hour)))}},
				"CONFLICT at startsAt"},
			"password": {Input{Fields: linkfield.Change{Routing: to(withPassword("password 1"))}}, "there"},
			"other password": {Input{Fields: linkfield.Change{Routing: to(withPassword("password 2"))}},
				"CONFLICT at routing gate password"},
			"tags": {Input{Fields: linkfield.Change{Title: to(new("b")), Tags: to([]string{"y"})}},
				"there title tags"},
		} {
			same := []string{c.want, c.want, c.want}
			first := must.Value(b.keyed(t, name, kinds(c.in)...))(t)
			again := must.Value(b.keyed(t, name, kinds(c.in)...))(t)
			for how, results := range map[string][]link.Result{
				"bulk": b.createMany(t, link.SkipFailed, kinds(c.in)...), "with a key": first, "repeated": again,
			} {
				wanttest.Equal(t, same, reused(results...), "%s, %s", name, how)
			}
			for _, one := range kinds(c.in) {
				l, created, err := b.Create(t.Context(), b.Mine, *one)
				if got := outcomes([]link.Result{{Link: l, Created: created, Err: err}})[0]; !strings.HasPrefix(c.want,
					got) {
					t.Errorf("%s, alone: %s, want %s", name, got, c.want)
				}
			}
		}
	})
}

// TestStore_CreateComparesWithEqualLinks creates one URL by several links of a call.
func TestStore_CreateComparesWithEqualLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Passwords = reversible{}
		soon := noon.Add(time.Hour)
		b.create(t, Input{URL: "https://example.com/there"})
		gone, _ := b.create(t, Input{URL: "https://example.com/gone"})
		must.Value(b.Edit.Delete(t.Context(), b.Mine, gone.ID))(t)
		for path, want := range map[string][]string{
			"there": {"CONFLICT at expiresAt", "there", "there title", "CONFLICT at routing gate password"},
			"gone":  {"there", "there", "there title", "CONFLICT at routing gate password"},
			"new":   {"created", "there", "there title", "CONFLICT at routing gate password"},
		} {
			u := "https://example.com/" + path
			in := []*Input{{URL: u, Fields: linkfield.Change{ExpiresAt: to(&soon), Tags: to([]string{"x"})}}, {URL: u,
				Fields: linkfield.Change{Tags: to([]string{"x"})}},
				{URL: u, Fields: linkfield.Change{Title: to(new("b"))}}, {URL: u,
					Fields: linkfield.Change{Routing: to(withPassword("password 1"))}}}
			if path == "there" {
				in[1].Fields.Tags.Set = false
			}
			got := reused(b.createMany(t, link.AllOrNothing, in...)...)
			if !strings.Contains(got[3], "password") || strings.HasPrefix(got[2], "there") {
				t.Errorf("%s as a whole: %q", path, got)
			}
			wanttest.Equal(t, want, reused(b.createMany(t, link.SkipFailed, in...)...), "%s", path)
		}
		u := "https://example.com/secret"
		in := []*Input{{URL: u, Fields: linkfield.Change{Routing: to(withPassword("password 1"))}}, {URL: u,
			Fields: linkfield.Change{Routing: to(withPassword("password 1"))}}}
		if got := reused(b.createMany(t, link.AllOrNothing, in...)...); !cmp.Equal(got, []string{"created", "there"}) {
			t.Errorf("one password twice: %q", got)
		}
	})
}

// TestStore_RacesOfCreationsCompare creates or revives one URL by concurrent calls, half of them
// with a restriction. A call with another value than the winner's must not get its link.
func TestStore_RacesOfCreationsCompare(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Passwords = reversible{}
		soon := noon.Add(time.Hour)
		for name, restricted := range map[string]Input{
			"expiry":           {Fields: linkfield.Change{ExpiresAt: to(&soon)}},
			"password":         {Fields: linkfield.Change{Routing: to(withPassword("password 1"))}},
			"limit":            {Fields: linkfield.Change{MaxClicks: to(new(int64(1)))}},
			"revived":          {Fields: linkfield.Change{ExpiresAt: to(&soon)}},
			"revived-password": {Fields: linkfield.Change{Routing: to(withPassword("password 1"))}},
		} {
			wantCreated := 1
			if strings.HasPrefix(name, "revived") {
				l, _ := b.create(t, Input{URL: "https://example.com/" + name})
				must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
				wantCreated = 0
			}
			results := make([]link.Result, 8)
			var calls sync.WaitGroup
			for i := range results {
				in := Input{}
				if i%2 == 0 {
					in = sending(restricted)
				}
				in.URL = fmt.Sprintf("https://example.com/%s", name)
				calls.Go(func() {
					r := &results[i]
					r.Link, r.Created, r.Err = b.Create(t.Context(), b.Mine, in)
				})
			}
			calls.Wait()
			l, _ := b.create(t, Input{URL: "https://example.com/" + name})
			isRestricted := l.ExpiresAt != nil || l.MaxClicks != nil || l.PasswordHash != nil
			created := 0
			for i, outcome := range outcomes(results) {
				want := "there"
				if i%2 == 0 && !isRestricted {
					want = "CONFLICT"
				}
				if outcome == "created" {
					created++
				} else if outcome != want {
					t.Errorf("%s: call %d has %s, want %s: %v", name, i, outcome, want, results[i].Err)
				}
			}
			if created != wantCreated {
				t.Errorf("%s: %d calls have created the link, want %d", name, created, wantCreated)
			}
		}
	})
}

// oneTurn are Passwords that take one turn for each password that a call sets.
type oneTurn struct {
	reversible
	hashed int
}

func (p *oneTurn) Hash(ctx context.Context, present, password string, subjects ...string) (string, error) {
	p.hashed++
	return p.reversible.Hash(ctx, present, password, subjects...)
}

func (*oneTurn) Matches(context.Context, string, string, ...string) (bool, error) {
	return false, errs.New(errs.Unavailable, "A second turn.")
}

// TestStore_SetsAPasswordInOneTurn sets the password of a link, the same, and another: it has a new
// name if it differs.
func TestStore_SetsAPasswordInOneTurn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, passwords := setup(t, d), &oneTurn{}
		b.Passwords = passwords
		l, _ := b.create(t, Input{URL: "https://example.com/"})
		names := map[string]string{}
		for i, text := range []string{"password 1", "password 1", "password 2", "password 1"} {
			l := must.Value(b.Edit.Update(t.Context(), b.Mine,
				linkfield.Change{ID: l.ID, Routing: optional.Set(withPassword(text))}))(t)
			name, isSame := l.Routing.Gate.PasswordID, i == 1
			if (names[name] == text) != isSame || *l.PasswordHash != "#"+text || passwords.hashed != i+1 {
				t.Errorf("%d: %s has the name %s, after %v, in %d turns", i, text, name, names, passwords.hashed)
			}
			names[name] = text
		}
	})
}

// TestEqual_CallsThatLeaveTheirBatch for the same link of a workspace, which a shared batch cannot
// serve, both get it, in either order.
func TestEqual_CallsThatLeaveTheirBatch(t *testing.T) {
	t.Parallel()
	const url = "https://example.com/equal"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		for i, isDeleted := range []bool{false, false, true, true} {
			if !isDeleted && d.Kind == db.SQLite { // only PostgreSQL has no shared batch for the first link of a month
				continue
			}
			m := workspacetest.New(t, d, fmt.Sprint("equal", i))
			if isDeleted {
				l, _, err := b.Create(t.Context(), m, Input{URL: url})
				must.NoError(t, err)
				must.Value(b.Edit.Delete(t.Context(), m, l.ID))(t)
			}
			ctx := must.Value(m.Enter(t.Context(), workspace.WriteLinks))(t)
			calls := []*call{{member: m}, {member: m}}
			for _, c := range calls {
				c.add(creations, &Input{URL: url})
			}
			_, _ = b.createAll(ctx, calls)
			if !calls[0].hasLeft || !calls[1].hasLeft {
				t.Fatal("the calls have not left the batch")
			}
			created := 0
			for k := range calls {
				c := calls[(k+i)%2]
				_, _ = b.createAll(ctx, []*call{c})
				if c.err != nil || len(c.results) != 1 || c.results[0].Link == nil ||
					c.results[0].Link.DeletedAt != nil {
					t.Fatalf("%d, %d: %+v, %v", i, k, c.results, c.err)
				}
				if c.results[0].Created {
					created++
				}
			}
			stored := must.Value(b.Get(t.Context(), m, calls[0].results[0].Link.ID))(t)
			if (created == 1) == isDeleted || stored.DeletedAt != nil {
				t.Errorf("%d created; stored %+v", created, stored)
			}
		}
	})
}

// TestEqual_LinkOfTwoRequests with and without its external id: each caller gets it with the own
// membership.
func TestEqual_LinkOfTwoRequests(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		in := Input{URL: "https://example.com/", Fields: linkfield.Change{ExternalID: to(new("a"))}}
		b.create(t, in)
		callers := []workspace.Membership{b.Mine, workspacetest.Join(t, b.DB, b.Mine.ID(), workspace.Editor)}
		links := make([]*link.Link, len(callers))
		release := b.hold(t)
		var running sync.WaitGroup
		for i, caller := range callers {
			one := in
			if i > 0 {
				one.Fields.ExternalID = optional.Edit[*string]{}
			}
			running.Go(func() { links[i], _, _ = b.Create(t.Context(), caller, one) })
			b.awaitRequests(t, i+1)
		}
		release()
		running.Wait()
		for i, l := range links {
			if l == nil || l.In.ActorID() != callers[i].ActorID() {
				t.Errorf("%d: %+v", i, l)
			}
		}
	})
}

// blockedHost is the only host that the operator has blocked.
type blockedHost string

func (b blockedHost) Blocked(bun.IDB, ...string) (db.Lookup, func() map[string]bool) {
	return db.Lookup{}, func() map[string]bool { return map[string]bool{string(b): true} }
}

// TestEqual_RefusedLinkRefusesNoOther: a link with the same URL as one that is refused because of
// its routing is created, or revived.
func TestEqual_RefusedLinkRefusesNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Destinations.Blocklist = blockedHost("blocked.example")
		blocked := &routing.Change{EndedURL: optional.Set(new("https://blocked.example/"))}
		for _, path := range []string{"new", "there", "deleted"} {
			url, want := "https://example.com/"+path, "created"
			if path != "new" {
				l, _ := b.create(t, Input{URL: url})
				if want = "there"; path == "deleted" {
					must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
				}
			}
			got := outcomes(b.createMany(t, link.SkipFailed, &Input{URL: url,
				Fields: linkfield.Change{Routing: to(blocked)}}, &Input{URL: url}))
			wanttest.Equal(t, []string{"UNSAFE_URL", want}, got, "%s", path)
		}
	})
}

// beforeLock calls change once, before links are locked, if it is armed.
type beforeLock struct {
	isArmed atomic.Bool
	change  func()
}

func (l *beforeLock) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	if strings.Contains(event.Query, `FROM "links"`) && strings.Contains(event.Query, "FOR UPDATE") &&
		l.isArmed.CompareAndSwap(true, false) {
		l.change()
	}
	return ctx
}

func (*beforeLock) AfterQuery(context.Context, *bun.QueryEvent) {}

// TestEqual_RevivesOnlyTheURL: a deleted link gets another URL before the creation that has found
// it locks it.
func TestEqual_RevivesOnlyTheURL(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	var lock beforeLock
	b := setup(t, &db.DB{DB: d.WithQueryHook(&lock), Kind: d.Kind})
	l, _ := b.create(t, custom("https://example.com/before", "code"))
	must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
	lock.change = func() {
		must.Value(b.Edit.Restore(t.Context(), b.Mine, l.ID))(t)
		must.Value(b.Edit.Update(t.Context(), b.Mine,
			linkfield.Change{ID: l.ID, URL: to("https://example.com/after")}))(t)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
	}
	lock.isArmed.Store(true)
	b.refuse(t, custom("https://example.com/before", "code"), errs.CodeTaken)
	got := must.Value(b.Get(t.Context(), b.Mine, l.ID))(t)
	if got.OriginalURL != "https://example.com/after" || got.DeletedAt == nil {
		t.Errorf("%+v", got)
	}
}
