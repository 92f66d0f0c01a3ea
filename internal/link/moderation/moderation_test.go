package moderation_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/moderation"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// bundle is a store of links with a blocklist.
type bundle struct {
	*creationtest.World
	blocklist  *moderation.Blocklist
	moderation *moderation.Store
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	w := creationtest.New(t, d)
	blocklist := &moderation.Blocklist{DB: d, Now: w.Links.Now}
	w.Destinations.Blocklist = blocklist
	return &bundle{w, blocklist, &moderation.Store{DB: d, Links: w.Links, Limits: w.Limits, Now: w.Links.Now}}
}

// each runs the test with a fresh bundle on each kind of database.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setup(t, d)) })
}

func (b *bundle) block(t *testing.T, host string) {
	t.Helper()
	must.Value(b.blocklist.Block(t.Context(), host, "a reason"))(t)
}

// exhaust uses up the clicks of a link with maxClicks.
func (b *bundle) exhaust(t *testing.T, l *link.Link) {
	t.Helper()
	must.Value(b.DB.ExecContext(db.AsSystem(t.Context()), "UPDATE grants SET granted = max_clicks WHERE subject_id = ?",
		l.ID))(t)
}

var outcomes, urls = linktest.Outcomes, creationtest.URLs

func to[T any](value T) optional.Edit[T] { return optional.Set(value) }

func TestBlocklist_RefusesEveryOperation(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		before := b.Make(t, creation.Input{URL: "https://www.evil.example/before"})
		free := b.Make(t, creation.Input{URL: "https://example.com/free", Strategy: new(link.Random)})
		b.block(t, "EVIL.example.")
		b.block(t, "192.0.2.7")
		b.block(t, "münchen.example")
		for _, url := range []string{
			"https://evil.example/", "https://evil.example:8443/a", "http://deep.below.evil.example",
			"https://192.0.2.7/", "https://xn--mnchen-3ya.example/", "http://[::ffff:192.0.2.7]/x",
			"http://[::ffff:c000:207]:8080/",
		} {
			b.Refuse(t, creation.Input{URL: url}, errs.UnsafeURL)
			linktest.Refused(b.Preview(t.Context(), b.Mine, url))(t, errs.UnsafeURL, "previewing %s", url)
			linktest.Refused(
				b.Edit.Update(t.Context(), b.Mine, linkfield.Change{ID: free.ID, URL: to(url)}),
			)(t, errs.UnsafeURL, "leading a link to %s", url)
		}
		for _, url := range []string{"https://notevil.example/", "https://evil.example.com/", "https://example/",
			"https://1.192.0.2.example/"} {
			b.Make(t, creation.Input{URL: url})
		}
		if got := outcomes(b.MakeMany(t, link.SkipFailed, &creation.Input{URL: "https://evil.example/"},
			&creation.Input{URL: "https://good.example/"})); !cmp.Equal(got, []string{"UNSAFE_URL", "created"}) {
			t.Errorf("a batch came to %v", got)
		}
		// Existing links continue to redirect, but are not restored after a deletion.
		if l, err := b.Get(t.Context(), b.Mine, before.ID); err != nil || l.Status(b.Now) != routing.Active {
			t.Errorf("%v, %v", l, err)
		}
		must.Value(b.Edit.Delete(t.Context(), b.Mine, before.ID))(t)
		linktest.Refused(b.Edit.Restore(t.Context(), b.Mine, before.ID))(t, errs.UnsafeURL, "restored")
		b.Refuse(t, creation.Input{URL: "https://www.evil.example/before"}, errs.UnsafeURL)
		if was, err := b.blocklist.Unblock(t.Context(), "evil.example"); err != nil || !was {
			t.Errorf("unblocked %t: %v", was, err)
		}
		b.Make(t, creation.Input{URL: "https://www.evil.example/before"})
	})
}

// TestStore_CancelHost cancels the pending changes to a host, and pending changes that depend on
// them.
func TestStore_CancelHost(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		schedule := func(l *link.Link, in time.Duration, c linkfield.Change) string {
			return must.Value(b.Schedule.Add(t.Context(), b.Mine, l.ID, b.Now.Add(in), c))(t).ID
		}
		l := b.Make(t, creation.Input{URL: "https://example.com/1", Strategy: new(link.Random)})
		other := b.Make(t, creation.Input{URL: "https://example.com/2", Strategy: new(link.Random)})
		schedule(l, time.Hour, linkfield.Change{URL: to("https://sub.evil.example/")})
		title := schedule(l, 2*time.Hour, linkfield.Change{Title: to(new("a title"))})
		routed := linkfield.Change{Routing: to(&routing.Change{EndedURL: to(new("https://evil.example/{code}"))})}
		schedule(l, 3*time.Hour, routed)
		stays := schedule(other, time.Hour, linkfield.Change{URL: to("https://notevil.example/")})
		b.block(t, "evil.example")
		for _, want := range []int{2, 0} {
			if n, err := b.moderation.CancelHost(t.Context(), "evil.example"); err != nil || n != want {
				t.Errorf("canceled %d, want %d: %v", n, want, err)
			}
		}
		changes := must.Value(b.Schedule.ByLink(t.Context(), b.Mine, l.ID, other.ID))(t)
		if len(changes[l.ID]) != 1 || changes[l.ID][0].ID != title || len(changes[other.ID]) != 1 ||
			changes[other.ID][0].ID != stays {
			t.Errorf("%+v", changes)
		}
		b.ExpectRows(t, 2, "audit_events", "action = ? AND actor_id = ''", audit.LinkChangeCanceled)
		if _, err := b.moderation.CancelHost(t.Context(), "no host"); !errs.Is(err, errs.InvalidInput) {
			t.Error(err)
		}
	})
}

func TestStore_DisableHost(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		bad := b.Make(t, creation.Input{URL: "https://a.evil.example/"})
		good := b.Make(t, creation.Input{URL: "https://notevil.example/"})
		anonymous, token := b.Anonymous(t, "https://evil.example/")
		for _, want := range []int{2, 0} {
			if n, err := b.moderation.DisableHost(t.Context(), "evil.example"); err != nil || n != want {
				t.Errorf("disabled %d, want %d: %v", n, want, err)
			}
		}
		for _, l := range []*link.Link{bad, anonymous} {
			if target, err := b.At(t.Context(), resolve.Address{Code: l.Code}); err != nil ||
				target.Status(b.Now) != routing.Disabled {
				t.Errorf("%v, %v", target, err)
			}
		}
		if l, err := b.Get(t.Context(), b.Mine, good.ID); err != nil || l.Status(b.Now) != routing.Active {
			t.Errorf("%v, %v", l, err)
		}
		// It survives deletion and creation, and claiming.
		must.Value(b.Edit.Delete(t.Context(), b.Mine, bad.ID))(t)
		b.Refuse(t, creation.Input{URL: "https://a.evil.example/"}, errs.UnsafeURL)
		if c := b.ClaimOne(t, b.Mine, token); c.Status != edit.ClaimRefused {
			t.Errorf("claimed: %+v", c)
		}
		if n, err := b.moderation.EnableHost(t.Context(), "evil.example"); err != nil || n != 2 {
			t.Errorf("enabled %d: %v", n, err)
		}
		b.Make(t, creation.Input{URL: "https://a.evil.example/"})
	})
}

func TestBlocklist_BlocksIPv6Addresses(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	l := b.Make(t, creation.Input{URL: "http://[::1]:8080/abc"})
	for _, host := range []string{"::1", "[0:0::1]"} {
		b.block(t, host)
		b.Refuse(t, creation.Input{URL: "https://[::1]/"}, errs.UnsafeURL)
		if was, err := b.blocklist.Unblock(t.Context(), host); err != nil || !was {
			t.Errorf("unblocking %s: %t, %v", host, was, err)
		}
	}
	b.block(t, "::ffff:192.0.2.7")
	b.Refuse(t, creation.Input{URL: "http://192.0.2.7/"}, errs.UnsafeURL)
	if n, err := b.moderation.DisableHost(t.Context(), "::1"); err != nil || n != 1 {
		t.Errorf("disabled %d links like %s: %v", n, l.OriginalURL, err)
	}
}

func TestBlocklist_RefusesInvalidHosts(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	for _, host := range []string{"", "https://example.com", "example.com/path", "example.com:8443", "exa mple.com",
		"\x1b[2J", "user@example.com", "?"} {
		linktest.Refused(b.blocklist.Block(t.Context(), host, ""))(t, errs.InvalidInput, "%q", host)
	}
}

// TestStore_DisabledLinkFailsAllOrNothingBatch: nothing else in the batch is created or revived.
func TestStore_DisabledLinkFailsAllOrNothingBatch(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		bad := b.Make(t, creation.Input{URL: "https://evil.example/"})
		gone := b.Make(t, creation.Input{URL: "https://example.com/gone"})
		for _, l := range []*link.Link{bad, gone} {
			must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		}
		must.Value(b.moderation.DisableHost(t.Context(), "evil.example"))(t)
		results := b.MakeMany(t, link.AllOrNothing, &creation.Input{URL: "https://example.com/new"},
			&creation.Input{URL: "https://example.com/gone"}, &creation.Input{URL: "https://evil.example/"})
		wanttest.Equal(t, []string{"CONFLICT", "CONFLICT", "UNSAFE_URL"}, outcomes(results), "difference")
		if l, err := b.Get(t.Context(), b.Mine, gone.ID); err != nil || l.DeletedAt == nil {
			t.Errorf("revived all the same: %v, %v", l, err)
		}
		b.ExpectUsed(t, 2)
	})
}

// TestStore_EditsDoNotReactivateBlockedLinks: neither a new end, nor more clicks, nor another
// destination of a disabled link.
func TestStore_EditsDoNotReactivateBlockedLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		soon, one := dbtest.Noon.Add(time.Hour), int64(1)
		expired := b.Make(t, creation.Input{URL: "https://evil.example/expired",
			Fields: linkfield.Change{ExpiresAt: optional.Set(&soon)}})
		used := b.Make(t, creation.Input{URL: "https://evil.example/used",
			Fields: linkfield.Change{MaxClicks: optional.Set(&one)}})
		b.exhaust(t, used)
		disabled := b.Make(t, creation.Input{URL: "https://disabled.example/", Strategy: new(link.Random)})
		fine := b.Make(t, creation.Input{URL: "https://example.com/"})
		b.Now = soon
		b.block(t, "evil.example")
		must.Value(b.moderation.DisableHost(t.Context(), "disabled.example"))(t)
		title := "fine"
		changes := []linkfield.Change{
			{ID: expired.ID, ExpiresAt: to[*time.Time](nil)}, {ID: used.ID, MaxClicks: to[*int64](nil)},
			{ID: disabled.ID, URL: to("https://example.com/good")}, {ID: fine.ID, Title: to(&title)},
			{ID: used.ID, Title: to(&title)},
		}
		results, err := b.Edit.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed)
		if err != nil ||
			!cmp.Equal(outcomes(results), []string{"UNSAFE_URL", "UNSAFE_URL", "UNSAFE_URL", "there", "there"}) {
			t.Errorf("%v: %v", outcomes(results), err)
		}
		for l, want := range map[*link.Link]routing.Status{expired: routing.Expired, used: routing.Exhausted,
			disabled: routing.Disabled, fine: routing.Active} {
			if got, err := b.Get(t.Context(), b.Mine, l.ID); err != nil || got.Status(b.Now) != want {
				t.Errorf("%s is %s: %v", l.OriginalURL, got.Status(b.Now), err)
			}
		}
	})
}

// TestStore_DisableHostDoesNotDeadlock would end in a deadlock if either locked links in another
// order than that of their ids.
func TestStore_DisableHostDoesNotDeadlock(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		made := b.MakeMany(t, link.SkipFailed, urls(0, 100)...)
		for _, i := range rand.Perm(len(made)) { // changes the physical order of the rows
			b.Change(t, made[i].Link, linkfield.Change{RedirectStatus: to(301)})
		}
		var all sync.WaitGroup
		all.Go(func() {
			for range 10 {
				for _, do := range []func(context.Context, string) (int, error){
					b.moderation.DisableHost, b.moderation.EnableHost,
				} {
					if _, err := do(t.Context(), "example.com"); err != nil {
						t.Error(err)
					}
				}
			}
		})
		for i := range 2 {
			all.Go(func() {
				for range 10 {
					var changes []linkfield.Change
					for _, r := range made {
						changes = append(changes, linkfield.Change{ID: r.Link.ID, RedirectStatus: to(307 + i)})
					}
					if _, err := b.Edit.UpdateMany(t.Context(), b.Mine, changes, link.SkipFailed); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}

func TestStore_SetDisabled(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://example.com/"})
		other := b.Make(t, creation.Input{URL: "https://example.com/other"})
		for _, linkID := range []string{"", "promo", "\x00", "http://sho.rt/nothing", id.New(id.Link), l.ID + "0"} {
			if _, _, err := b.moderation.SetDisabled(t.Context(), linkID, true); !errs.Is(err, errs.NotFound) {
				t.Errorf("%q: %v", linkID, err)
			}
		}
		namesLinks(t, b, l)
		if got := b.statusOf(t, other.ID); got != routing.Active {
			t.Errorf("the other link is %s", got)
		}
	})
}

// TestStore_KeepsEachReason: a link is open when it has no reason of being disabled left, in
// whichever order they come and go, and the link has the state of that in the database and in the
// cache.
func TestStore_KeepsEachReason(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l := b.Make(t, creation.Input{URL: "https://a.evil.example/"})
		reasons := map[string]bool{}
		set := func(reason string, disabled bool) {
			t.Helper()
			had := reasons[reason]
			if delete(reasons, reason); disabled {
				reasons[reason] = true
			}
			switch {
			case reason == "":
				_, changed, err := b.moderation.SetDisabled(t.Context(), l.ID, disabled)
				if err != nil || changed != (had != disabled) {
					t.Fatalf("disabled %t by itself: changed %t, %v", disabled, changed, err)
				}
			case disabled:
				must.Value(b.moderation.DisableHost(t.Context(), reason))(t)
			default:
				must.Value(b.moderation.EnableHost(t.Context(), reason))(t)
			}
			want := routing.Active
			if len(reasons) > 0 {
				want = routing.Disabled
			}
			target := must.Value(b.At(t.Context(), resolve.Address{Code: l.Code}))(t)
			if got := b.statusOf(t, l.ID); got != want || target.Status(b.Now) != want {
				t.Fatalf("%q disabled %t, reasons %v: %s, cached %s", reason, disabled, reasons, got,
					target.Status(b.Now))
			}
			hosts, byItself, err := b.moderation.Reasons(t.Context(), l.ID)
			n := len(hosts)
			if byItself {
				n++
			}
			if err != nil || byItself != reasons[""] || n != len(reasons) {
				t.Fatalf("reasons %v: %v, %t, %v", reasons, hosts, byItself, err)
			}
		}
		set("", true)
		set("evil.example", true)
		set("evil.example", false)
		set("", false)
		random := rand.New(rand.NewPCG(1, 2))
		all := []string{"", "evil.example", "a.evil.example"}
		for range 60 {
			set(all[random.IntN(len(all))], random.IntN(2) == 0)
		}
		for _, reason := range all {
			set(reason, false)
		}
		var actions []audit.Action
		must.NoError(t, b.DB.NewSelect().Table("audit_events").Column("action").Where("target_id = ?", l.ID).
			Where("actor_id = ''").Order("id").Scan(db.AsSystem(t.Context()), &actions))
		for i, action := range actions {
			want := []audit.Action{audit.LinkDisabled, audit.LinkEnabled}[i%2]
			if action != want || len(actions)%2 != 0 {
				t.Fatalf("the events are %v", actions)
			}
		}
	})
}

// namesLinks disables and enables a link by every name that it has. A code of two links names none.
func namesLinks(t *testing.T, b *bundle, l *link.Link) {
	t.Helper()
	shortURL := b.Links.ShortURL(l)
	_, place, _ := strings.Cut(shortURL, "://")
	for _, name := range []string{
		l.ID, " " + l.ID + "\n", l.Code, shortURL, shortURL + "/", shortURL + "?utm_source=x#top", shortURL + "+",
		shortURL + ".svg", place, strings.ToUpper(shortURL[:4]) + shortURL[4:],
	} {
		for _, disabled := range []bool{true, false} {
			got, changed, err := b.moderation.SetDisabled(t.Context(), name, disabled)
			if err != nil || !changed || got.ID != l.ID {
				t.Errorf("%q: changed %t, %v", name, changed, err)
			}
		}
	}
	custom := b.Make(t, creation.Input{URL: "https://example.com/custom", Strategy: new(link.Custom),
		CustomCode: new("Promo")})
	if got, _, err := b.moderation.SetDisabled(t.Context(), "PROMO", true); err != nil || got.ID != custom.ID {
		t.Errorf("a code in another case: %v", err)
	}
	must.Value(b.DB.ExecContext(db.AsSystem(t.Context()),
		"UPDATE links SET code_key = NULL, code = 'promo' WHERE id = ?", l.ID))(t)
	if _, _, err := b.moderation.SetDisabled(t.Context(), "promo", true); !errs.Is(err, errs.Conflict) {
		t.Errorf("a code of two links: %v", err)
	}
}

// statusOf is the link's state as the database has it.
func (b *bundle) statusOf(t *testing.T, linkID string) routing.Status {
	t.Helper()
	l := must.Value(b.Get(t.Context(), b.Mine, linkID))(t)
	return l.Status(b.Now)
}

// TestStore_DisableHostFindsScheduledURLs: also those of a routing.
func TestStore_DisableHostFindsScheduledURLs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for i, change := range []linkfield.Change{
			{URL: to("https://a.evil.example/")},
			{Routing: to(&routing.Change{EndedURL: optional.Set(new("https://evil.example/"))})},
		} {
			l := b.Make(t, creation.Input{URL: "https://example.com/", Strategy: new(link.Random)})
			must.Value(b.Schedule.Add(t.Context(), b.Mine, l.ID, b.Now.Add(time.Hour), change))(t)
			for _, disabled := range []bool{true, false} {
				do := b.moderation.EnableHost
				if disabled {
					do = b.moderation.DisableHost
				}
				if n, err := do(t.Context(), "evil.example"); err != nil || n != i+1 {
					t.Errorf("%d links: %v", n, err)
				}
				if got := b.statusOf(t, l.ID); (got == routing.Disabled) != disabled {
					t.Errorf("the link is %s", got)
				}
			}
		}
	})
}

func TestStore_FindLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		title := "Ünïque summer sale"
		one := b.Make(t, creation.Input{URL: "https://example.com/One?b=2&a=1",
			Fields: linkfield.Change{Title: optional.Set(&title)}})
		promo := "promo"
		two := b.Make(t, creation.Input{URL: "https://example.com/two", CustomCode: &promo})
		theirs, _, err := b.Create(t.Context(), b.Foreign,
			creation.Input{URL: "https://example.com/two", CustomCode: &promo})
		must.NoError(t, err)
		for what, want := range map[string][]string{
			one.ID:                                {one.ID},
			one.Code:                              {one.ID},
			"SUMMER":                              {one.ID},
			"ünÏque":                              {one.ID},
			"HTTPS://EXAMPLE.com:443/One?a=1&b=2": {one.ID},
			"http://sho.rt/" + one.Code:           {one.ID},
			"http://sho.rt/mine/promo?utm=1":      {two.ID},
			"http://sho.rt/foreign/promo":         {theirs.ID},
			"promo":                               {theirs.ID, two.ID}, // newest first
			"https://example.com/two":             {theirs.ID, two.ID},
			"nothing of the kind":                 {},
			"50%":                                 {},
			"http://sho.rt/nothing":               {},
			id.New(id.Link):                       {},
		} {
			found, err := b.moderation.FindLinks(t.Context(), what, 10)
			ids := []string{}
			for _, f := range found {
				ids = append(ids, f.ID)
				if f.ShortURL != b.ShortURLBelow(f.Slug, &f.Link) || f.Slug == "" || f.OriginalURL == "" {
					t.Errorf("%s: %+v", what, f)
				}
			}
			must.NoError(t, err)
			wanttest.Equal(t, want, ids, "%s", what)
		}
		if found, err := b.moderation.FindLinks(t.Context(), "promo", 1); err != nil || len(found) != 1 {
			t.Errorf("of two at most one: %d: %v", len(found), err)
		}
		for _, what := range []string{"", " ", "a\nb", "\x00", "\xff"} {
			linktest.Refused(b.moderation.FindLinks(t.Context(), what, 10))(t, errs.InvalidInput, "%q", what)
		}
	})
}

func TestStore_CodeHolders(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Candidate = func(canonical, workspaceID string, salt int) string {
			switch salt {
			case 0:
				return "login"
			case 1:
				return "AtTheRoot2" // of every URL in every workspace
			}
			return shortcode.Deterministic(canonical, workspaceID, salt)
		}
		const url = "https://example.com/wanted"
		own := b.Make(t, creationtest.Custom("https://example.com/own", b.Candidate(url, b.Mine.ID(), 2)))
		foreign, _, err := b.Create(t.Context(), b.Foreign, creation.Input{URL: "https://example.com/foreign"})
		must.NoError(t, err)
		both := b.Make(t, creationtest.Custom("https://example.com/both", foreign.Code))
		if _, _, err := b.Create(t.Context(), b.Foreign,
			creationtest.Custom("https://example.com/other", own.Code)); err != nil {
			t.Fatal(err) // a custom code of another workspace holds nothing
		}
		purged := b.Make(t, creation.Input{URL: "https://example.com/purged"})
		b.Remove(t, purged.ID)
		b.Now = b.Now.Add(linktest.Tombstones)
		b.PurgeEnded(t)
		renamed := "UPDATE links SET code = ?, root_code = ? WHERE id = ?"
		code := b.Candidate(url, b.Mine.ID(), 3)
		must.Value(b.DB.ExecContext(db.AsSystem(t.Context()), renamed, code, code, purged.ID))(t)

		candidates, err := b.moderation.CodeHolders(t.Context(), b.Mine.ID(), strings.ToUpper("https")+
			url[len("https"):])
		must.NoError(t, err)
		var got []string
		for _, c := range candidates {
			line := c.Code
			if c.Reserved {
				line += " reserved"
			}
			for _, l := range c.Holders {
				line += " " + l.ID + " of " + l.Slug
				if l.PurgedAt != nil {
					line += " purged"
				}
			}
			got = append(got, line)
		}
		want := []string{
			"login reserved", foreign.Code + " " + both.ID + " of mine " + foreign.ID + " of foreign",
			own.Code + " " + own.ID +
				" of mine",
			code + " " + purged.ID + " of mine purged",
		}
		for salt := 4; salt < shortcode.Salts; salt++ {
			want = append(want, b.Candidate(url, b.Mine.ID(), salt))
		}
		wanttest.Equal(t, want, got, "difference")
		linktest.Refused(b.moderation.CodeHolders(t.Context(), b.Mine.ID(), "nothing"))(t, errs.InvalidURL, "no URL")
	})
}
