package domain

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/outbound/outboundtest"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

var wantError = errstest.Want

// zone is a store whose questions a name server answers, a clock, and a workspace each of Ada and
// Eve.
type zone struct {
	*Store
	spaces   *workspace.Store
	ada, eve account.Actor
	dns      *outboundtest.Names
	time     time.Time

	adas, eves workspace.Membership
}

func setupZone(t *testing.T, d *db.DB) *zone {
	t.Helper()
	z := &zone{
		dns: outboundtest.OpenNames(t), time: dbtest.Noon,
		spaces: &workspace.Store{DB: d, Log: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return dbtest.Noon }},
		ada: workspacetest.Actor(t, d), eve: workspacetest.Actor(t, d),
	}
	z.Store = &Store{
		DB: d, Resolver: z.dns.Resolver, Limits: ratelimit.Limiter{Off: true}, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return z.time },
	}
	z.own(t, "https://Go.sho.rt:8443", "localhost", "internal.example")
	z.adas, z.eves = workspacetest.Of(t, d, z.ada, "ada"), workspacetest.Of(t, d, z.eve, "eve")
	return z
}

// each runs a test in parallel with others, on both databases.
func each(t *testing.T, test func(t *testing.T, z *zone)) {
	t.Helper()
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		test(t, setupZone(t, d))
	})
}

// own has the instance be reached at a public URL and further names.
func (z *zone) own(t *testing.T, publicURL string, names ...string) {
	t.Helper()
	var err error
	if z.Own, err = destination.NewOwnHosts(publicURL, names...); err != nil {
		t.Fatal(err)
	}
}

func (z *zone) claim(t *testing.T, m workspace.Membership, host string) *Domain {
	t.Helper()
	return must.Value(z.Add(t.Context(), m, host, Codes{}))(t)
}

// prove puts the records of the domains, which have the same host, where they belong, among others.
func (z *zone) prove(domains ...*Domain) {
	texts := []string{"v=spf1 -all", "linkforge-verification=", "linkforge-verification=AAAAAAAAAAAAAAAAAAAAAAAAAA"}
	for _, d := range domains {
		texts = append(texts, d.RecordValue())
	}
	z.dns.SetTXT(domains[0].RecordName(), append(texts, "google-site-verification=1234")...)
}

func (z *zone) verified(t *testing.T, m workspace.Membership, host string) *Domain {
	t.Helper()
	d := z.claim(t, m, host)
	z.prove(d)
	return must.Value(z.Verify(t.Context(), m, d.ID))(t)
}

// kept is the domain as the database has it.
func (z *zone) kept(t *testing.T, d *Domain) *Domain {
	t.Helper()
	kept := &Domain{}
	must.NoError(t, z.DB.NewSelect().Model(kept).Where("id = ?", d.ID).Scan(db.AsSystem(t.Context())))
	return kept
}

// is complains of a domain that does not have the status.
func (z *zone) is(t *testing.T, d *Domain, want Status, when string) {
	t.Helper()
	if got := z.kept(t, d).Status(); got != want {
		t.Errorf("%s is %s %s, want %s", d.Host, got, when, want)
	}
}

// primary is the host that the workspace's short URLs are shown with; empty for the instance's.
func (z *zone) primary(t *testing.T, m workspace.Membership) string {
	t.Helper()
	w := &workspace.Workspace{}
	must.NoError(t, z.DB.NewSelect().Model(w).Where("id = ?", m.ID()).Scan(db.AsSystem(t.Context())))
	if w.PrimaryHost == nil {
		return ""
	}
	return *w.PrimaryHost
}

// choose makes a domain primary; nil selects the instance's own host.
func (z *zone) choose(t *testing.T, m workspace.Membership, domainID *string) (workspace.Membership, error) {
	t.Helper()
	return z.spaces.Update(t.Context(), m, workspace.Change{PrimaryHost: z.Primary(m, domainID)})
}

func (z *zone) makePrimary(t *testing.T, m workspace.Membership, d *Domain) {
	t.Helper()
	changed := must.Value(z.choose(t, m, &d.ID))(t)
	if got := changed.Workspace().PrimaryHost; got == nil || *got != d.Host || z.primary(t, m) != d.Host {
		t.Errorf("%s became primary: answered %v, kept %q", d.Host, got, z.primary(t, m))
	}
}

// events returns the workspace's audit log, oldest first: actor, action and details.
func (z *zone) events(t *testing.T, m workspace.Membership) []string {
	t.Helper()
	var rows []*audit.Event
	must.NoError(t,
		z.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID()).Where("action <> ?", audit.WorkspaceCreated).
			Order("id").Scan(db.AsSystem(t.Context())))
	lines := []string{}
	for _, e := range rows {
		actor := map[string]string{z.ada.AccountID: "ada", z.eve.AccountID: "eve", "": "server"}[e.ActorID]
		lines = append(lines, fmt.Sprintf("%s %s %s", actor, e.Action, e.Details))
	}
	return lines
}

func (z *zone) wantEvents(t *testing.T, m workspace.Membership, want ...string) {
	t.Helper()
	wanttest.Equal(t, want, z.events(t, m), "the audit log of %s", m.Slug())
}

func TestHost_IsValidated(t *testing.T) {
	t.Parallel()
	z := setupZone(t, dbtest.MigratedSQLite(t))
	name242 := strings.Repeat(strings.Repeat("a", 59)+".", 4) + "ab"
	for name, c := range map[string]struct{ host, want string }{
		"two labels":             {"example.com", "example.com"},
		"upper case":             {"Go.EXAMPLE.com", "go.example.com"},
		"a dot at the end":       {"go.example.com.", "go.example.com"},
		"spaces around":          {" go.example.com\n", "go.example.com"},
		"international":          {"Bücher.example", "xn--bcher-kva.example"},
		"in punycode":            {"XN--bcher-kva.example", "xn--bcher-kva.example"},
		"as long as can be":      {name242, name242},
		"above the own":          {"sho.rt", "sho.rt"},
		"the own as a beginning": {"go.sho.rt.example.com", "go.sho.rt.example.com"},
		"the own as an ending":   {"logo.sho.rt", "logo.sho.rt"},
		"longer":                 {name242 + "c", ""},
		"a long label":           {strings.Repeat("a", 64) + ".com", ""},
		"the own":                {"go.sho.rt", ""},
		"the own, disguised":     {"GO.sho.RT.", ""},
		"below the own":          {"a.b.go.sho.rt", ""},
		"a configured name":      {"Internal.example.", ""},
		"below a configured one": {"go.internal.example", "go.internal.example"},
		"below localhost":        {"go.LOCALHOST", ""},
		"empty":                  {"", ""},
		"one label":              {"localhost", ""},
		"an empty label":         {"go..example.com", ""},
		"an IPv4 address":        {"192.0.2.1", ""},
		"an address in hex":      {"0x7f.1", ""},
		"an IPv6 address":        {"2001:db8::1", ""},
		"a port":                 {"example.com:8080", ""},
		"a scheme":               {"https://example.com", ""},
		"a path":                 {"example.com/a", ""},
		"a backslash":            {`example.com\a`, ""},
		"a wildcard":             {"*.example.com", ""},
		"NUL inside":             {"exa\x00mple.com", ""},
		"not UTF-8":              {"exa\xffmple.com", ""},
	} {
		d, err := z.Add(t.Context(), z.adas, c.host, Codes{})
		if c.want == "" {
			if e := errs.From(err); e.Kind != errs.InvalidInput || !cmp.Equal(e.Field, []string{"host"}) ||
				len(e.Public()) > 600 {
				t.Errorf("%s: %.40q became %+v: %v", name, c.host, d, err)
			}
			continue
		}
		if err != nil || d.Host != c.want || d.Status() != Pending || len(d.RecordName()) > 253 {
			t.Errorf("%s: %.40q became %+v, want %s: %v", name, c.host, d, c.want, err)
		}
	}
}

func TestHosts_InstanceWithoutName(t *testing.T) {
	t.Parallel()
	z := setupZone(t, dbtest.MigratedSQLite(t))
	for _, own := range []string{"http://localhost:8080", "http://127.0.0.1:8080", "http://[::1]"} {
		z.own(t, own)
		z.claim(t, z.adas, "go.sho.rt")
	}
}

func TestClaim_CreatesDomain(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		first := z.claim(t, z.adas, "go.example.com")
		if !id.Valid(id.Domain, first.ID) || first.WorkspaceID != z.adas.ID() || first.VerifiedAt != nil ||
			!first.CreatedAt.Equal(dbtest.Noon) {
			t.Errorf("claimed: %+v", first)
		}
		if first.RecordName() != "_linkforge.go.example.com" ||
			first.RecordValue() != "linkforge-verification="+first.Token || len(first.Token) != 26 {
			t.Errorf("its record is %s with %s", first.RecordName(), first.RecordValue())
		}
		z.time = dbtest.Noon.Add(time.Hour)
		if again := z.claim(t, z.adas, "GO.example.com."); again.ID != first.ID || again.Token != first.Token ||
			!again.CreatedAt.Equal(dbtest.Noon) {
			t.Errorf("claimed again: %+v, before: %+v", again, first)
		}
		if other := z.claim(t, z.eves, "go.example.com"); other.ID == first.ID || other.Token == first.Token {
			t.Errorf("another's claim has what the first one has: %+v", other)
		}
		z.wantEvents(t, z.adas, `ada DOMAIN_ADDED {"host":"go.example.com"}`)
		z.wantEvents(t, z.eves, `eve DOMAIN_ADDED {"host":"go.example.com"}`)
	})
}

func TestClaim_IsIdempotentConcurrently(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		ids := make([]string, 20)
		got := errstest.AtOnce(len(ids), func(i int) error {
			claimed, err := z.Add(t.Context(), z.adas, "go.example.com", Codes{})
			if err == nil {
				ids[i] = claimed.ID
			}
			return err
		})
		wanttest.Equal(t, map[string]int{"OK": 20}, got, "answers")
		if slices.Sort(ids); len(slices.Compact(ids)) != 1 {
			t.Errorf("several domains: %v", ids)
		}
		z.wantEvents(t, z.adas, `ada DOMAIN_ADDED {"host":"go.example.com"}`)
	})
}

// TestClaim_QuotaIsExactConcurrently: however many ask at once, a workspace has no more domains
// than it may have.
func TestClaim_QuotaIsExactConcurrently(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		first := z.claim(t, z.adas, "0.example.com")
		rows := make([]*Domain, 0, maxPerWorkspace)
		for i := range maxPerWorkspace - 2 {
			rows = append(rows,
				&Domain{ID: id.New(id.Domain), WorkspaceID: z.adas.ID(), Host: fmt.Sprintf("%d.example.org", i),
					Token: "x", CreatedAt: dbtest.Noon})
		}
		must.Value(z.DB.NewInsert().Model(&rows).Exec(db.AsSystem(t.Context())))(t)
		got := errstest.AtOnce(10, func(i int) error {
			return errstest.Of(z.Add(t.Context(), z.adas, fmt.Sprintf("%d.example.net", i), Codes{}))
		})
		wanttest.Equal(t, map[string]int{"OK": 1, "QUOTA_EXCEEDED": 9}, got, "answers")
		if n := len(z.events(t, z.adas)); n != 2 {
			t.Errorf("%d events tell of claims, want 2", n)
		}
		if again := z.claim(t, z.adas, first.Host); again.ID != first.ID {
			t.Errorf("one's own again is %+v", again)
		}
		z.claim(t, z.eves, "0.example.com") // another workspace has places of its own
	})
}

func TestDomains_FollowPermissions(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		own := z.verified(t, z.adas, "go.example.com")
		as := func(role workspace.Role) workspace.Membership { return workspacetest.Join(t, z.DB, z.adas.ID(), role) }
		key := func(scopes ...string) workspace.Membership { return workspacetest.Key(t, z.DB, z.adas.ID(), scopes...) }
		for name, c := range map[string]struct {
			m           workspace.Membership
			read, write bool
		}{
			"an admin":                {as(workspace.Admin), true, true},
			"an editor":               {as(workspace.Editor), true, false},
			"a viewer":                {as(workspace.Viewer), true, false},
			"a key that writes":       {key("DOMAINS_WRITE"), true, true},
			"a key that reads":        {key("DOMAINS_READ"), true, false},
			"a key for other things":  {key("LINKS_WRITE", "AUDIT_READ"), false, false},
			"a membership of nothing": {workspace.Membership{}, false, false},
		} {
			allowed := func(did string, want bool, err error) {
				t.Helper()
				if want && err != nil || !want && !errs.Is(err, errs.Forbidden) {
					t.Errorf("%s %s: %v", name, did, err)
				}
			}
			_, err := z.Rows().List(t.Context(), c.m, page.Request{Size: 1})
			allowed("lists", c.read, err)
			allowed("adds", c.write, errstest.Of(z.Add(t.Context(), c.m, "go.example.com", Codes{})))
			allowed("verifies", c.write, errstest.Of(z.Verify(t.Context(), c.m, own.ID)))
			allowed("makes primary", c.write, errstest.Of(z.choose(t, c.m, &own.ID)))
			allowed("clears the primary", c.write, errstest.Of(z.choose(t, c.m, nil)))
			_, err = z.spaces.Update(t.Context(), c.m,
				workspace.Change{Name: new("Ada"), PrimaryHost: z.Primary(c.m, nil)})
			allowed("clears it and renames the workspace", c.m.May(workspace.WriteSettings), err)
			if !c.write {
				allowed("removes", false, errstest.Of(z.Remove(t.Context(), c.m, own.ID)))
			}
		}
	})
}

// TestDomains_HideForeign: a foreign domain and a random ID have the same response.
func TestDomains_HideForeign(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		adas := z.verified(t, z.adas, "go.example.com")
		z.makePrimary(t, z.adas, adas)
		do := map[string]func(domainID string) error{
			"verified":     func(domainID string) error { return errstest.Of(z.Verify(t.Context(), z.eves, domainID)) },
			"removed":      func(domainID string) error { return errstest.Of(z.Remove(t.Context(), z.eves, domainID)) },
			"made primary": func(domainID string) error { return errstest.Of(z.choose(t, z.eves, &domainID)) },
		}
		for what, f := range do {
			unknown := f(id.New(id.Domain))
			if !errs.Is(unknown, errs.NotFound) {
				t.Fatalf("unknown, %s: %v", what, unknown)
			}
			for name, domainID := range map[string]string{
				"foreign": adas.ID, "empty": "", "a host": "go.example.com", "upper case": strings.ToUpper(adas.ID),
				"NUL":       adas.ID + "\x00",
				"not UTF-8": "dom_\xff", "SQL": "' OR 1=1 --", "long": strings.Repeat("dom_", 10_000),
			} {
				errstest.Same(t, unknown, f(domainID), "%s, %s", name, what)
				if name != "foreign" && what != "made primary" {
					_, err := z.Rows().WorkspaceOf(t.Context(), domainID)
					errstest.Same(t, unknown, err, "the workspace of %s", name)
				}
			}
		}
		if got, err := z.Rows().WorkspaceOf(t.Context(), adas.ID); err != nil || got != z.adas.ID() {
			t.Errorf("the workspace is %s: %v", got, err)
		}
		z.is(t, adas, Verified, "after a stranger has tried")
		if got := z.primary(t, z.adas); got != adas.Host {
			t.Errorf("primary is %q after a stranger has tried", got)
		}
	})
}

func TestSetPrimary_ChangesShortURLs(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		one, two := z.verified(t, z.adas, "one.example.com"), z.verified(t, z.adas, "two.example.com")
		pending := z.claim(t, z.adas, "three.example.com")
		z.makePrimary(t, z.adas, one)
		z.makePrimary(t, z.adas, two)
		_, err := z.spaces.Update(t.Context(), z.adas, workspace.Change{
			Name: new("Renamed"), PrimaryHost: z.Primary(z.adas, &pending.ID),
		})
		if m := must.Value(z.spaces.Require(t.Context(), z.ada, z.adas.ID()))(t); m.Workspace().Name == "Renamed" {
			t.Error("the workspace was renamed, although its primary domain was refused")
		}
		if !errs.Is(err, errs.InvalidInput) || !cmp.Equal(errs.From(err).Field, []string{"primaryDomainId"}) ||
			z.primary(t, z.adas) != two.Host {
			t.Errorf("a domain that is not verified: primary is %q, %v", z.primary(t, z.adas), err)
		}
		for range 2 {
			m, err := z.choose(t, z.adas, nil)
			if err != nil || m.Workspace().PrimaryHost != nil || z.primary(t, z.adas) != "" || m.ID() != z.adas.ID() ||
				m.Role() != workspace.Owner {
				t.Errorf("cleared: %+v, kept %q, %v", m, z.primary(t, z.adas), err)
			}
		}
		want := []string{
			`ada DOMAIN_MADE_PRIMARY {"host":"one.example.com"}`, `ada DOMAIN_MADE_PRIMARY {"host":"two.example.com"}`,
			`ada WORKSPACE_UPDATED {"primaryHost":null}`,
		}
		wanttest.Equal(t, want, z.events(t, z.adas)[5:], "the audit log")
	})
}

func TestRemove_StopsServing(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		primary, other := z.verified(t, z.adas, "one.example.com"), z.verified(t, z.adas, "two.example.com")
		z.makePrimary(t, z.adas, primary)
		if removed, err := z.Remove(t.Context(), z.adas, other.ID); err != nil || removed.Host != other.Host ||
			z.primary(t, z.adas) != primary.Host {
			t.Errorf("removed %+v: %v; primary is %q", removed, err, z.primary(t, z.adas))
		}
		if _, err := z.Remove(t.Context(), z.adas, primary.ID); err != nil || z.primary(t, z.adas) != "" {
			t.Errorf("removed the primary domain: %v; primary is %q", err, z.primary(t, z.adas))
		}
		wantError(t, errs.NotFound, "removed again")(z.Remove(t.Context(), z.adas, primary.ID))
		want := []string{`ada DOMAIN_REMOVED {"host":"two.example.com"}`,
			`ada DOMAIN_REMOVED {"host":"one.example.com"}`}
		wanttest.Equal(t, want, z.events(t, z.adas)[5:], "the audit log")
		z.verified(t, z.eves, primary.Host) // it is free
		if again := z.claim(t, z.adas, primary.Host); again.Token == primary.Token {
			t.Error("what once proved the domain proves it again")
		}
	})
}

// TestSetPrimary_ConcurrentWithLoss: making a domain primary waits for its concurrent loss, and
// is refused then.
func TestSetPrimary_ConcurrentWithLoss(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		own := z.verified(t, z.adas, "go.example.com")
		chosen := make(chan error, 1)
		must.NoError(t, z.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			if err := z.lose(ctx, tx, own, records{queriedAt: dbtest.Noon}); err != nil {
				return err
			}
			waits := waiting(t, z.DB)
			go func() {
				_, err := z.choose(t, z.adas, &own.ID)
				chosen <- err
			}()
			for len(chosen) == 0 && !waits() {
				runtime.Gosched()
			}
			return nil
		}))
		if err := <-chosen; !errs.Is(err, errs.InvalidInput) || z.primary(t, z.adas) != "" {
			t.Errorf("chosen: %v; primary is %q", err, z.primary(t, z.adas))
		}
	})
}

// waiting returns a function that reports whether a transaction waits for another.
func waiting(t *testing.T, d *db.DB) func() bool {
	if d.Kind == db.SQLite {
		return func() bool { return d.WaitingTransactions() > 0 }
	}
	return func() bool {
		q := d.NewSelect().Table("pg_stat_activity").Where("datname = current_database()").
			Where("wait_event_type = 'Lock'")
		locked, err := q.Exists(db.AsOwner(t.Context()))
		if err != nil {
			t.Error(err)
		}
		return locked || err != nil
	}
}

// TestRemove_RefusesPrimary: in any order of concurrent changes, no short URL is displayed with a
// removed host.
func TestRemove_RefusesPrimary(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		for i := range 20 {
			own := z.verified(t, z.adas, fmt.Sprintf("%d.example.com", i))
			var both sync.WaitGroup
			both.Go(func() {
				if _, err := z.choose(t, z.adas, &own.ID); err != nil && !errs.Is(err, errs.NotFound) {
					t.Error(err)
				}
			})
			both.Go(func() {
				if _, err := z.Remove(t.Context(), z.adas, own.ID); err != nil {
					t.Error(err)
				}
			})
			both.Wait()
			if got := z.primary(t, z.adas); got != "" {
				t.Fatalf("primary is %s, which was removed", got)
			}
		}
	})
}

func TestHosts_AreKnown(t *testing.T) {
	each(t, func(t *testing.T, z *zone) {
		known := func(host string) bool {
			got, err := z.IsVerified(t.Context(), host)
			if err != nil {
				t.Errorf("%.40q: %v", host, err)
			}
			return got
		}
		z.verified(t, z.adas, "bücher.example")
		z.claim(t, z.adas, "pending.example.com")
		for _, host := range []string{"xn--bcher-kva.example", "XN--BCHER-KVA.example.", "bücher.example"} {
			if !known(host) {
				t.Errorf("%s is not known", host)
			}
		}
		for _, host := range []string{
			"", "example", "a.xn--bcher-kva.example", "pending.example.com", "go.sho.rt", "192.0.2.1",
			"xn--bcher-kva.example:443", "xn--bcher-kva.example/",
			"xn--bcher-kva.example\x00", "\xff.example", "xn--\x80.example", "' OR 1=1 --", "%", "*.example",
			strings.Repeat("a.", 100_000) + "com",
		} {
			if known(host) {
				t.Errorf("%.40q is known", host)
			}
		}
		must.Value(z.spaces.Delete(t.Context(), z.adas))(t)
		if known("xn--bcher-kva.example") {
			t.Error("the host of a deleted workspace is known")
		}
		must.Value(z.spaces.Restore(t.Context(), z.ada, z.adas.ID()))(t)
		if !known("xn--bcher-kva.example") {
			t.Error("the host of a restored workspace is not known")
		}
	})
}
