package link

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
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
func sending(in New) New {
	if p := in.Routing.NewPassword(); p != nil {
		change := *in.Routing
		change.Gate = withPassword(p.Text).Gate
		in.Routing = &change
	}
	return in
}

// reused describes results: created, there with the ignored fields, or the kind of the error with its field.
func reused(results ...Result) (all []string) {
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

// TestStore_CreateComparesWithTheExistingLink creates links that exist, plain or with all fields: by their URL, by a
// code and with an external id.
func TestStore_CreateComparesWithTheExistingLink(t *testing.T) {
	t.Parallel()
	soon, later := noon.Add(time.Hour), noon.Add(2*time.Hour)
	full := New{
		Title: new("a"), Note: new("n"), Tags: []string{"x", "y"}, Metadata: pairs("k", "v"), RedirectStatus: new(307),
		StartsAt: &soon, ExpiresAt: &later, MaxClicks: new(int64(5)), Routing: withPassword("password 1"),
	}
	full.Routing.Rules, full.Routing.Bots = byRule("DE").Rules, optional.Set(new(routing.BlockBots))
	full.Routing.ForwardPath = optional.Set(new(true))
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.Passwords = reversible{}
		kinds := func(path string, in New) (all []*New) {
			for _, kind := range []New{{}, {CustomCode: new(path)}, {CustomCode: new(path + "-own"), ExternalID: new(path)}} {
				one := sending(in)
				one.URL, one.CustomCode, one.ExternalID = "https://example.com/"+path, kind.CustomCode, kind.ExternalID
				all = append(all, &one)
			}
			return all
		}
		b.createMany(t, SkipFailed, append(kinds("plain", New{}), kinds("full", full)...)...)
		for name, c := range map[string]struct {
			in          New
			plain, full string
		}{
			"no field":     {New{}, "there", "there"},
			"all the same": {full, "CONFLICT at startsAt", "there"},
			"start":        {New{StartsAt: &soon}, "CONFLICT at startsAt", "there"},
			"end":          {New{ExpiresAt: &soon}, "CONFLICT at expiresAt", "CONFLICT at expiresAt"},
			"limit":        {New{MaxClicks: new(int64(4))}, "CONFLICT at maxClicks", "CONFLICT at maxClicks"},
			"password":     {New{Routing: withPassword("password 1")}, "CONFLICT at routing gate password", "there"},
			"other password": {New{Routing: withPassword("password 2")}, "CONFLICT at routing gate password",
				"CONFLICT at routing gate password"},
			"notice": {New{Routing: gated(&routing.GateChange{Notice: optional.Set(new("Hello"))})},
				"CONFLICT at routing gate notice", "CONFLICT at routing gate notice"},
			"button": {New{Routing: gated(&routing.GateChange{Confirm: optional.Set(new(true))})},
				"CONFLICT at routing gate confirm", "CONFLICT at routing gate confirm"},
			"no gate":    {New{Routing: gated(nil)}, "there", "there routing.gate.password"},
			"rule":       {New{Routing: byRule("DE")}, "CONFLICT at routing rules", "there"},
			"other rule": {New{Routing: byRule("FR")}, "CONFLICT at routing rules", "CONFLICT at routing rules"},
			"bots": {New{Routing: &routing.Change{Bots: optional.Set(new(routing.BlockBots))}},
				"CONFLICT at routing bots", "there"},
			"all bots": {New{Routing: &routing.Change{Bots: optional.Set(new(routing.RedirectBots))}},
				"there", "there routing.bots"},
			"texts": {New{Title: new("b"), Note: new("m"), Tags: []string{"y", "x"}, Metadata: pairs("k", "w")},
				"there title note tags metadata", "there title note metadata"},
			"empty texts": {New{Title: new(""), Tags: []string{}}, "there", "there title tags"},
			"answer": {New{RedirectStatus: new(301), Routing: &routing.Change{
				ForwardPath: optional.Set(new(true)), EndedURL: optional.Set(new("https://example.com/end"))}},
				"there redirectStatus routing.forwardPath routing.endedUrl", "there redirectStatus routing.endedUrl"},
		} {
			for path, want := range map[string]string{"plain": c.plain, "full": c.full} {
				same := []string{want, want, want}
				first := must.Value(b.keyed(t, name+path, kinds(path, c.in)...))(t)
				again := must.Value(b.keyed(t, name+path, kinds(path, c.in)...))(t)
				for how, results := range map[string][]Result{
					"bulk": b.createMany(t, SkipFailed, kinds(path, c.in)...), "with a key": first, "repeated": again,
				} {
					if diff := cmp.Diff(same, reused(results...)); diff != "" {
						t.Errorf("%s of the %s link, %s (-want +got):\n%s", name, path, how, diff)
					}
				}
				for _, one := range kinds(path, c.in) {
					l, created, err := b.Create(t.Context(), b.mine, *one)
					if got := outcomes([]Result{{Link: l, Created: created, Err: err}})[0]; !strings.HasPrefix(want, got) {
						t.Errorf("%s of the %s link, alone: %s, want %s", name, path, got, want)
					}
				}
			}
		}
	})
}

// TestStore_CreateComparesWithEqualLinks creates one URL by several links of a call.
func TestStore_CreateComparesWithEqualLinks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.Passwords = reversible{}
		soon := noon.Add(time.Hour)
		b.create(t, New{URL: "https://example.com/there"})
		gone, _ := b.create(t, New{URL: "https://example.com/gone"})
		must.Value(b.Delete(t.Context(), b.mine, gone.ID))(t)
		for path, want := range map[string][]string{
			"there": {"CONFLICT at expiresAt", "there", "there title", "CONFLICT at routing gate password"},
			"gone":  {"there", "there", "there title", "CONFLICT at routing gate password"},
			"new":   {"created", "there", "there title", "CONFLICT at routing gate password"},
		} {
			u := "https://example.com/" + path
			in := []*New{{URL: u, ExpiresAt: &soon, Tags: []string{"x"}}, {URL: u, Tags: []string{"x"}},
				{URL: u, Title: new("b")}, {URL: u, Routing: withPassword("password 1")}}
			if path == "there" {
				in[1].Tags = nil
			}
			got := reused(b.createMany(t, AllOrNothing, in...)...)
			if !strings.Contains(got[3], "password") || strings.HasPrefix(got[2], "there") {
				t.Errorf("%s as a whole: %q", path, got)
			}
			if diff := cmp.Diff(want, reused(b.createMany(t, SkipFailed, in...)...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
		u := "https://example.com/secret"
		in := []*New{{URL: u, Routing: withPassword("password 1")}, {URL: u, Routing: withPassword("password 1")}}
		if got := reused(b.createMany(t, AllOrNothing, in...)...); !cmp.Equal(got, []string{"created", "there"}) {
			t.Errorf("one password twice: %q", got)
		}
	})
}

// TestStore_RacesOfCreationsCompare creates or revives one URL by concurrent calls, half of them with a restriction. A
// call with another value than the winner's must not get its link.
func TestStore_RacesOfCreationsCompare(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.Passwords = reversible{}
		soon := noon.Add(time.Hour)
		for name, restricted := range map[string]New{
			"expiry": {ExpiresAt: &soon}, "password": {Routing: withPassword("password 1")}, "limit": {MaxClicks: new(int64(1))},
			"revived": {ExpiresAt: &soon}, "revived-password": {Routing: withPassword("password 1")},
		} {
			wantCreated := 1
			if strings.HasPrefix(name, "revived") {
				l, _ := b.create(t, New{URL: "https://example.com/" + name})
				must.Value(b.Delete(t.Context(), b.mine, l.ID))(t)
				wantCreated = 0
			}
			results := make([]Result, 8)
			var calls sync.WaitGroup
			for i := range results {
				in := New{}
				if i%2 == 0 {
					in = sending(restricted)
				}
				in.URL = fmt.Sprintf("https://example.com/%s", name)
				calls.Go(func() {
					r := &results[i]
					r.Link, r.Created, r.Err = b.Create(t.Context(), b.mine, in)
				})
			}
			calls.Wait()
			l, _ := b.create(t, New{URL: "https://example.com/" + name})
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

// TestStore_SetsAPasswordInOneTurn sets the password of a link, the same, and another: it has a new name if it differs.
func TestStore_SetsAPasswordInOneTurn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, passwords := setup(t, d), &oneTurn{}
		b.Passwords = passwords
		l, _ := b.create(t, New{URL: "https://example.com/"})
		names := map[string]string{}
		for i, text := range []string{"password 1", "password 1", "password 2", "password 1"} {
			l := must.Value(b.Update(t.Context(), b.mine, Change{ID: l.ID, Routing: optional.Set(withPassword(text))}))(t)
			name, isSame := l.Routing.Gate.PasswordID, i == 1
			if (names[name] == text) != isSame || *l.PasswordHash != "#"+text || passwords.hashed != i+1 {
				t.Errorf("%d: %s has the name %s, after %v, in %d turns", i, text, name, names, passwords.hashed)
			}
			names[name] = text
		}
	})
}
