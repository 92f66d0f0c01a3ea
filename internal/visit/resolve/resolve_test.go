package resolve

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

func open(t *testing.T, d *db.DB) *Resolver {
	t.Helper()
	r := must.Value(New(Config{
		DB: d, Feed: feed.New(d, slog.New(slog.DiscardHandler), time.Now), PublicURL: "http://sho.rt",
		CacheBytes: 1 << 20, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}))(t)
	return r
}

func TestParseShortURL_ReadsHostAndCode(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	for in, want := range map[string]Address{
		"http://sho.rt/abc":         {Code: "abc"},
		"HTTP://SHO.RT:80/abc":      {Code: "abc"},
		"http://sho.rt/promo/abc":   {Slug: "promo", Code: "abc"},
		"http://sho.rt/promo/a/b/c": {Slug: "promo", Code: "a", Path: "/b/c"},
		"http://sho.rt/promo/abc).": {Slug: "promo", Code: "abc"},
		"http://sho.rt/abc.":        {Code: "abc"},
		"http://sho.rt/abc&x=1/2":   {Code: "abc"},
		"http://other/abc%E2%80%9D": {Host: "other", Code: "abc", sent: "abc%E2%80%9D"},
		"http://other/a/b":          {Host: "other", Code: "a", Path: "/b", sent: "a/b"},
		"http://other/":             {Host: "other"},
		"http://sho.rt/abc?utm=1#x": {Code: "abc"},
		"http://sho.rt/%61bc/":      {Code: "abc"},
		"https://sho.rt/abc":        {Code: "abc"},
		"http://sho.rt:8080/abc":    {Code: "abc"},
		// Whose these are, Resolve finds out.
		"http://sho.rt.evil.com/abc":      {Host: "sho.rt.evil.com", Code: "abc", sent: "abc"},
		"https://LINKS.example.com/abc?x": {Host: "links.example.com", Code: "abc", sent: "abc"},
	} {
		if got, err := r.ParseShortURL(in); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "abc", "ftp://sho.rt/abc", "\x00"} {
		if got, err := r.ParseShortURL(in); !errs.Is(err, errs.NotFound) {
			t.Errorf("%q: %+v, %v; want NotFound", in, got, err)
		}
	}
}

// FuzzParsePasted: what a short URL leads to, a visitor's path does too, and however people copy it.
func FuzzParsePasted(f *testing.F) {
	for _, path := range []string{
		"promo", "own/promo", "OWN/Promo+", "promo).", "promo&x=1", "promo%26a%3Db", "own/promo/a", "%61bc/", "a\"b/c",
		"/", "é/ü", "a b", "own/..", "x:y", "a?b", "%", "\u202e", "own/promo%2Fa",
	} {
		f.Add(path, "own")
	}
	r := must.Value(New(Config{PublicURL: "http://sho.rt", CacheBytes: 1 << 20, Now: time.Now,
		Feed: feed.New(nil, slog.New(slog.DiscardHandler), time.Now), Log: slog.New(slog.DiscardHandler)}))(f)
	f.Fuzz(func(t *testing.T, path, slug string) {
		_, _ = r.ParsePasted(path, slug)
		u, err := url.Parse("http://sho.rt/" + path)
		if err != nil || u.Host != "sho.rt" || u.EscapedPath() != "/"+path || !IsClean(u.Path) {
			return // of no request that is served
		}
		want, ok := PathAddress(u, true)
		if !ok || !want.IsPlausible() || !shortcode.IsCode(want.Code) {
			return
		}
		want.Query, want.Path = "", strings.TrimSuffix(want.Path, "/")
		for _, text := range []string{
			u.String(), "sho.rt/" + path, "HTTPS://SHO.RT/" + path + "?utm_source=x#y", " //sho.rt/" + path + "\n",
			"<" + u.String() + ">", "“" + u.String() + "”",
		} {
			got, err := r.ParsePasted(text, slug)
			if got.Path = strings.TrimSuffix(got.Path, "/"); err != nil || got != want {
				t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
			}
		}
	})
}

// TestResolver_MemoryIsBounded: however many codes that do not exist are requested.
func TestResolver_MemoryIsBounded(t *testing.T) {
	t.Parallel()
	r := open(t, dbtest.MigratedSQLite(t))
	must.NoError(t, r.Feed.CatchUp(t.Context()))
	for i := range 20_000 {
		target, err := r.Resolve(t.Context(), Address{Code: fmt.Sprintf("unknown%d", i)}, time.Now(), nil)
		if err != nil || !target.Unknown {
			t.Fatal(target, err)
		}
	}
	r.entries.CleanUp()
	if at := r.CacheStats(); at.Bytes > 1<<20 || at.Misses != 20_000 {
		t.Errorf("%+v", at)
	}
}

// TestResolve_SharesStatements: visitors of different links share a statement, and none fails
// because of another one's link.
func TestResolve_SharesStatements(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const links = 20
		system := db.AsSystem(t.Context())
		exec := func(statement string, args ...any) {
			t.Helper()
			must.Value(d.NewRaw(statement, args...).Exec(system))(t)
		}
		for i := range 2 {
			exec(`INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES (?0, ?0, 'A', ?1, ?1)`,
				fmt.Sprint("ws_", i), dbtest.Noon)
		}
		for i := range links {
			exec(
				`INSERT INTO links (id, workspace_id, code, root_code, strategy, original_url, canonical_url,
				canonical_hash, redirect_status, created_at, updated_at)
				VALUES (?0, ?1, ?2, ?2, 'RANDOM', ?3, ?3, ?4, 302, ?5, ?5)`,
				fmt.Sprint("lnk_", i), fmt.Sprint("ws_", i%2), fmt.Sprint("code-", i),
				fmt.Sprint("https://example.com/", i),
				[]byte{byte(i)}, dbtest.Noon)
		}
		// the counter of link 1 may lack clicks, so that its row is no floor
		exec(`INSERT INTO click_totals (subject_id, workspace_id, clicks, latency_mean, latency_m2, _month, _outage)
			VALUES ('lnk_1', 'ws_1', 3, 0, 0, ?, 1)`,
			click.MonthOf(time.Now()))
		var counted dbtest.Counter
		r := open(t, &db.DB{DB: d.WithQueryHook(&counted), Kind: d.Kind})
		r.lookups.Serial = true // else a call that takes long does not hold the next one
		must.NoError(t, r.Feed.CatchUp(t.Context()))
		lookUpAll := func(isRoot, isBroken bool) {
			held, release := make(chan struct{}), make(chan struct{})
			var visitors sync.WaitGroup
			visitors.Go(func() {
				_, _ = r.lookups.Do(t.Context(), isRoot, subject{},
					func(context.Context, []subject) (map[subject]*row, error) {
						close(held)
						<-release
						return nil, nil
					})
			})
			<-held
			counted.Store(0)
			for i := range links + 1 { // the last one does not exist
				visitors.Go(func() {
					at := subject{root, fmt.Sprint("code-", i)}
					if !isRoot {
						at.space = fmt.Sprint("ws_", i%2)
					}
					got, err := r.queryLink(db.AsResolver(t.Context()), at)
					kind, fields, _ := got.open(at)
					switch {
					case i == 0 && isBroken:
						if err == nil || errors.Is(err, sql.ErrNoRows) {
							t.Errorf("a broken link: %v", err)
						}
					case i == links && !errors.Is(err, sql.ErrNoRows):
						t.Errorf("an unknown code: %v", err)
					case i < links && (err != nil || kind != entryLink):
						t.Errorf("link %d: %v", i, err)
					case i < links && readTarget(fields).Location != fmt.Sprint("https://example.com/", i):
						t.Errorf("link %d: %+v, %v", i, readTarget(fields), err)
					case i == 1 && (readTarget(fields).MonthClicks >= 0 || readTarget(fields).ReadAt == 0):
						t.Errorf("clicks with hits of outage leases: %+v", readTarget(fields))
					}
				})
			}
			polltest.Until(t, "all lookups wait", func() bool { return r.lookups.Waiting(isRoot) == links+1 })
			close(release)
			visitors.Wait()
			if n := counted.Load(); n != 1 && !isBroken {
				t.Errorf("%d statements, want 1", n)
			}
		}
		lookUpAll(true, false)
		lookUpAll(false, false)
		exec("UPDATE links SET routing = '[1]' WHERE id = 'lnk_0'")
		lookUpAll(true, true)
		lookUpAll(false, true)
	})
}

// TestResolver_SlowQueryIsNoOutage: one query that meets its deadline fails no other one, unless
// the change feed cannot be polled either.
func TestResolver_SlowQueryIsNoOutage(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		d := dbtest.MigratedPostgres(t)
		r := open(t, d)
		whileLocked := func(tables string, f func()) {
			t.Helper()
			must.NoError(t, d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				_, err := tx.ExecContext(ctx, "LOCK TABLE "+tables)
				f()
				return err
			}))
		}
		whileLocked("links", func() {
			if _, err := r.query(t.Context(), subject{root, "code"}); !errs.IsTimeout(err) {
				t.Errorf("a link of the locked table: %v", err)
			}
			if _, err := r.query(t.Context(), subject{slugs, "slug"}); err != nil {
				t.Errorf("a slug: %v", err)
			}
		})
		first := make(chan error, 1)
		whileLocked("changes", func() {
			go func() { first <- r.Feed.CatchUp(t.Context()) }() // as a node does before it serves
			time.Sleep(2500 * time.Millisecond)                  // which later reads do not wait
		})
		must.NoError(t, <-first)
		whileLocked("changes", func() {
			if err := r.Feed.CatchUp(t.Context()); !errs.IsTimeout(err) {
				t.Errorf("polling the locked table: %v", err)
			}
			if _, err := r.query(t.Context(), subject{slugs, "slug"}); !errors.Is(err, errDown) {
				t.Errorf("while the feed cannot be polled: %v", err)
			}
		})
		if err := r.Feed.CatchUp(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := r.query(t.Context(), subject{slugs, "slug"}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
