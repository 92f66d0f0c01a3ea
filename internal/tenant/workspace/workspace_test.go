package workspace

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

var wantError = errstest.Want

// noon is when the tests begin.
var noon = dbtest.Noon

// bundle is a store and two people.
type bundle struct {
	*Store
	ada, eve account.Actor
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	return &bundle{
		Store: &Store{DB: d, Limits: ratelimit.Limiter{Off: true}, Log: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return noon }},
		ada: person(t, d),
		eve: person(t, d),
	}
}

func person(t *testing.T, d *db.DB) account.Actor {
	t.Helper()
	return account.Actor{AccountID: dbtest.Account(t, d)}
}

// each runs a test in parallel with others, on both databases.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		test(t, setup(t, d))
	})
}

func (b *bundle) create(t *testing.T, a account.Actor, slug string) Membership {
	t.Helper()
	return must.Value(b.Create(t.Context(), a, "Workspace "+slug, slug))(t)
}

// count counts the workspaces and the members in the database.
func (b *bundle) count(t *testing.T) (workspaces, members int64) {
	t.Helper()
	workspaces = must.Value(b.DB.NewSelect().Model((*Workspace)(nil)).Where("id <> ?", id.PublicWorkspace).
		Count(db.AsSystem(t.Context())))(t)
	members = must.Value(b.DB.NewSelect().Model((*Member)(nil)).Count(db.AsSystem(t.Context())))(t)
	return workspaces, members
}

// shape has the comparable fields of a membership.
type shape struct {
	ID, Slug, Name string
	CreatedAt      time.Time
	Role           Role
}

func shapeOf(m Membership) shape {
	return shape{m.ID(), m.Slug(), m.Name(), m.CreatedAt().UTC(), m.Role()}
}

func TestCreate_MakesOwner(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		made := must.Value(b.Create(t.Context(), b.ada, "  Ada & Söhne ", "ada-1"))(t)
		want := shape{made.ID(), "ada-1", "Ada & Söhne", noon, Owner}
		if diff := cmp.Diff(want, shapeOf(made)); diff != "" || !id.Valid(id.Workspace, made.ID()) {
			t.Errorf("created %s (-want +got):\n%s", made.ID(), diff)
		}
		kept := must.Value(b.Require(t.Context(), b.ada, made.ID()))(t)
		if diff := cmp.Diff(want, shapeOf(kept)); diff != "" || kept.Workspace().HitQuota != nil ||
			kept.Workspace().LinkQuota != nil {
			t.Errorf("kept %+v (-want +got):\n%s", kept.Workspace(), diff)
		}
	})
}

func TestSlug_IsValidated(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	for name, c := range map[string]struct {
		slug string
		want string // the code of the answer
	}{
		"3 characters":      {"abc", "OK"},
		"48 characters":     {strings.Repeat("a", 48), "OK"},
		"hyphens":           {"a--b-c", "OK"},
		"like a reserved":   {"graphqls", "OK"},
		"xn-- later":        {"a-xn--b", "OK"},
		"xn":                {"xn-abc", "OK"},
		"xn--":              {"xn--80ak6aa92e", "INVALID_INPUT"},
		"empty":             {"", "INVALID_INPUT"},
		"2 characters":      {"ab", "INVALID_INPUT"},
		"49 characters":     {strings.Repeat("a", 49), "INVALID_INPUT"},
		"hyphen first":      {"-abc", "INVALID_INPUT"},
		"hyphen last":       {"abc-", "INVALID_INPUT"},
		"upper case":        {"Abc", "INVALID_INPUT"},
		"underscore":        {"a_c", "INVALID_INPUT"},
		"space":             {"a c", "INVALID_INPUT"},
		"letter not ASCII":  {"äbc", "INVALID_INPUT"},
		"line break":        {"abc\n", "INVALID_INPUT"},
		"NUL":               {"ab\x00c", "INVALID_INPUT"},
		"endpoint":          {"graphql", "SLUG_TAKEN"},
		"page of accounts":  {"sign-in", "SLUG_TAKEN"},
		"name of operators": {"linkforge", "SLUG_TAKEN"},
	} {
		_, err := b.Create(t.Context(), b.ada, "Ada", c.slug)
		got, field := "OK", []string(nil)
		if err != nil {
			got, field = errs.From(err).Kind.Code(), errs.From(err).Field
		}
		if got != c.want || err != nil && !cmp.Equal(field, []string{"slug"}) {
			t.Errorf("%s: %q: %s at %v, want %s: %v", name, c.slug, got, field, c.want, err)
		}
	}
}

func TestName_IsValidated(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	for _, name := range []string{"", "  ", "two\nlines", "NUL\x00", "\xff", strings.Repeat("ä", 101)} {
		_, err := b.Create(t.Context(), b.ada, name, "ada")
		if !errs.Is(err, errs.InvalidInput) || !cmp.Equal(errs.From(err).Field, []string{"name"}) {
			t.Errorf("%q: %v", name, err)
		}
	}
	must.Value(b.Create(t.Context(), b.ada, strings.Repeat("ä", 100), "ada"))(t) // 100 characters
}

func TestCreate_IsExactConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		people := []account.Actor{b.ada, b.eve, person(t, b.DB), person(t, b.DB)}
		got := errstest.AtOnce(50, func(i int) error {
			return errstest.Of(b.Create(t.Context(), people[i%len(people)], fmt.Sprintf("Attempt %d", i), "promo"))
		})
		wanttest.Equal(t, map[string]int{"OK": 1, "SLUG_TAKEN": 49}, got, "answers")
		if workspaces, members := b.count(t); workspaces != 1 || members != 1 {
			t.Errorf("%d workspaces, %d members; want one of each", workspaces, members)
		}
	})
}

func TestCreate_IsAtomic(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		gone := account.Actor{AccountID: id.New(id.Account)}
		wantError(t, errs.Unauthenticated, "a workspace whose owner does not exist")(
			b.Create(t.Context(), gone, "Nobody's", "promo"))
		if workspaces, members := b.count(t); workspaces != 0 || members != 0 {
			t.Errorf("%d workspaces and %d members are left behind", workspaces, members)
		}
		b.create(t, b.ada, "promo")
	})
}

func TestIDBySlug_FindsWorkspace(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, slug := range []string{"ada", "eve"} {
			m := b.create(t, b.ada, slug)
			if got, err := b.IDBySlug(t.Context(), slug); err != nil || got != m.ID() {
				t.Errorf("%s is %q: %v", slug, got, err)
			}
		}
		for _, slug := range []string{"", "ADA", "ad", "adam", "ada ", "ad%", "a_a", "ada\x00", "\xff\xfe\xfd",
			"' OR 1=1 --",
			strings.Repeat("a", 10_000)} {
			if got, err := b.IDBySlug(t.Context(), slug); got != "" || !errs.Is(err, errs.NotFound) {
				t.Errorf("%.20q is %q: %v", slug, got, err)
			}
		}
	})
}

func TestList_ReturnsMemberships(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var want []string // newest first
		for i := range 5 {
			want = append([]string{b.create(t, b.ada, fmt.Sprintf("ada-%d", i)).ID()}, want...)
			b.create(t, b.eve, fmt.Sprintf("eve-%d", i))
		}
		var got []string
		var sizes []int
		r := page.Request{Size: 2}
		for more := true; more; {
			p := must.Value(b.List(t.Context(), b.ada, false, r))(t)
			for _, m := range p.Items {
				got, r.After = append(got, m.ID()), m.ID()
			}
			sizes, more = append(sizes, len(p.Items)), p.HasNext
		}
		wanttest.Equal(t, want, got, "listed")
		wanttest.Equal(t, []int{2, 2, 1}, sizes, "sizes of the pages")
		none, err := b.List(t.Context(), account.Actor{}, false, page.Request{Size: 2})
		if err != nil || len(none.Items) > 0 || none.HasNext {
			t.Errorf("workspaces of an anonymous actor: %+v, %v", none, err)
		}
	})
}

// TestCreate_BoundsWorkspaces: concurrent calls of an account create workspaces up to its limit.
func TestCreate_BoundsWorkspaces(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.MaxWorkspaces = 3
		got := errstest.AtOnce(20, func(i int) error {
			return errstest.Of(b.Create(t.Context(), b.ada, "Mine", fmt.Sprint("mine-", i)))
		})
		wanttest.Equal(t, map[string]int{"OK": 3, "QUOTA_EXCEEDED": 17}, got, "answers")
		b.create(t, b.eve, "of-eve")
	})
}

// TestUpdate_BoundsSlugChanges: a workspace has ten new slugs a month, its first one not among
// them.
func TestUpdate_BoundsSlugChanges(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.SlugChanges = 10
		now := noon
		b.Now = func() time.Time { return now }
		m := b.create(t, b.ada, "first")
		rename := func(slug string) error { return errstest.Of(b.Update(t.Context(), m, Change{Slug: &slug})) }
		now = now.Add(time.Minute)
		for i := range 10 {
			must.NoError(t, rename(fmt.Sprint("slug-", i)))
		}
		wantError(t, errs.QuotaExceeded, "the eleventh slug")(rename("slug-10"))
		must.NoError(t, rename("slug-3"))                               // a slug that it has had
		must.Value(b.Create(t.Context(), b.eve, "Other", "slug-10"))(t) // a refused slug is reserved
		now = now.AddDate(0, 1, 0)
		must.NoError(t, rename("slug-11")) // in the next month
	})
}

// TestReleaseSlugs_KeepsFollowedOnes: former slugs of a workspace without a click are free after a
// day.
func TestReleaseSlugs_KeepsFollowedOnes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		now := noon
		b.Now = func() time.Time { return now }
		quiet, busy := b.create(t, b.ada, "quiet"), b.create(t, b.ada, "busy")
		for m, slug := range map[Membership]string{quiet: "quiet-2", busy: "busy-2"} {
			must.Value(b.Update(t.Context(), m, Change{Slug: &slug}))(t)
		}
		must.Value(b.DB.ExecContext(db.AsSystem(t.Context()),
			"INSERT INTO click_totals (subject_id, workspace_id, clicks, "+
				"latency_mean, latency_m2) VALUES (?, ?, 1, 1, 1)", busy.ID(), busy.ID()))(t)
		for _, step := range []struct {
			after time.Duration
			taken map[string]bool
		}{
			{time.Hour, map[string]bool{"quiet": true, "busy": true, "quiet-2": true, "busy-2": true}},
			{25 * time.Hour, map[string]bool{"quiet": false, "busy": true, "quiet-2": true, "busy-2": true}},
		} {
			now = noon.Add(step.after)
			must.NoError(t, b.ReleaseSlugs(t.Context()))
			for slug, taken := range step.taken {
				_, err := b.IDBySlug(t.Context(), slug)
				if taken != (err == nil) {
					t.Errorf("after %s, %s: %v, want it taken: %t", step.after, slug, err, taken)
				}
			}
		}
	})
}
