package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/outbound"
	"github.com/linkforge/linkforge/internal/platform/outbound/outboundtest"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// checks is a checker with an internet of its own, and a world of links.
type checks struct {
	*Checker
	world  *creationtest.World
	net    *outboundtest.Network
	logged bytes.Buffer

	mu     sync.Mutex
	events []string
}

// setupChecks has a checker ask an internet whose public server is the handler.
func setupChecks(t *testing.T, d *db.DB, public http.HandlerFunc, names map[string][][]string) *checks {
	t.Helper()
	w := creationtest.New(t, d)
	w.Quota.Default = 1000
	b := &checks{world: w}
	b.net = outboundtest.Open(t, b.noting(public), names)
	log := slog.New(slog.NewTextHandler(&b.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.Checker = &Checker{Links: &Store{Store: w.Links}, Limits: ratelimit.Limiter{Off: true}, Log: log,
		Now: w.Links.Now, Sleep: b.sleeping}
	b.allow(b.net.Allow, 0)
	return b
}

// eachChecks runs the test on each kind of database, with a checker that asks site.
func eachChecks(t *testing.T, test func(t *testing.T, b *checks)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setupChecks(t, d, site, nil)) })
}

// allow gives the checker another client.
func (b *checks) allow(allow func(netip.Addr) bool, timeout time.Duration) {
	b.Client = outbound.NewClient(outbound.Config{
		UserAgent: UserAgent("http://sho.rt"), Resolver: b.net.Resolver, Allow: allow, Timeout: timeout,
	})
}

// noting notes the requests before they are answered.
func (b *checks) noting(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.note(r.Method + " " + r.URL.Path)
		h(w, r)
	})
}

// sleeping notes that the checker sleeps, and does not.
func (b *checks) sleeping(ctx context.Context, d time.Duration) error {
	b.note("sleep " + d.String())
	return ctx.Err()
}

func (b *checks) note(event string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, event)
}

// takeEvents returns the events since the last call.
func (b *checks) takeEvents() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}

// link creates a link to any URL, with a due check.
func (b *checks) link(t *testing.T, url string) *link.Link {
	t.Helper()
	l := b.world.Make(t, creation.Input{URL: "https://example.com/" + id.New(id.Link)})
	b.world.Set(t, l, "original_url = ?, check_at = ?", url, b.world.Now)
	return l
}

// linkTo creates a link to the path on the host, which is public.
func (b *checks) linkTo(t *testing.T, host, path string) *link.Link {
	t.Helper()
	return b.link(t, b.net.URL(host+outboundtest.PublicName, path))
}

func (b *checks) check(t *testing.T, l *link.Link) *link.Link {
	t.Helper()
	return must.Value(b.Check(t.Context(), b.world.Mine, l.ID))(t)
}

func (b *checks) run(t *testing.T) {
	t.Helper()
	must.NoError(t, b.Run(t.Context()))
}

// outcome returns the stored status of the link's destination.
func outcome(l *link.Link) string {
	if l.LastCheckedAt == nil {
		return "not requested"
	}
	if l.DestinationStatus == nil {
		return "nothing"
	}
	return fmt.Sprint(*l.DestinationStatus)
}

// site answers by the path: with a status, with one that HEAD gets and another that GET gets, or in
// a way of its own.
func site(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/loop":
		http.Redirect(w, r, "/loop", http.StatusFound)
	case "/moved":
		http.Redirect(w, r, "/201", http.StatusMovedPermanently)
	case "/lost":
		http.Redirect(w, r, "/404", http.StatusFound)
	case "/hangs-up":
		if r.Method == http.MethodHead {
			panic(http.ErrAbortHandler)
		}
	case "/cookie":
		if _, err := r.Cookie("seen"); err != nil {
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
			http.Redirect(w, r, "/cookie", http.StatusFound)
		}
	case "/challenge":
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("<title>Just a moment...</title>"))
	case "/stalls":
		http.Redirect(w, r, "/never", http.StatusFound)
	case "/never":
		<-r.Context().Done()
	default:
		statuses := strings.Split(r.URL.Path[1:], "-")
		if r.Method == http.MethodGet {
			slices.Reverse(statuses)
		}
		status := http.StatusOK
		_, _ = fmt.Sscan(statuses[0], &status)
		w.WriteHeader(status)
	}
}

func TestCheck_SendsHEADThenGET(t *testing.T) {
	eachChecks(t, func(t *testing.T, b *checks) {
		const head, get, sleep = "HEAD ", "GET ", "sleep 1s"
		for path, c := range map[string]struct {
			status   string
			happened []string
		}{
			"/200":       {"200", []string{head + "/200"}},
			"/204":       {"204", []string{head + "/204"}},
			"/304":       {"304", []string{head + "/304"}},
			"/404":       {"404", []string{head + "/404", sleep, get + "/404"}},
			"/405-200":   {"200", []string{head + "/405-200", sleep, get + "/405-200"}},
			"/500-404":   {"404", []string{head + "/500-404", sleep, get + "/500-404"}},
			"/503-200":   {"200", []string{head + "/503-200", sleep, get + "/503-200"}},
			"/429-200":   {"429", []string{head + "/429-200"}},
			"/hangs-up":  {"200", []string{head + "/hangs-up", sleep, get + "/hangs-up"}},
			"/cookie":    {"200", []string{head + "/cookie", head + "/cookie"}},
			"/challenge": {"403", []string{head + "/challenge", sleep, get + "/challenge"}},
			"/503":       {"503", []string{head + "/503", sleep, get + "/503"}},
			"/moved":     {"201", []string{head + "/moved", head + "/201"}},
			"/lost":      {"404", []string{head + "/lost", head + "/404", sleep, get + "/lost", get + "/404"}},
		} {
			t.Run(path, func(t *testing.T) {
				got := b.check(t, b.linkTo(t, "a", path))
				if outcome(got) != c.status || !got.LastCheckedAt.Equal(noon) {
					t.Errorf("said %s, want %s", outcome(got), c.status)
				}
				wanttest.Equal(t, c.happened, b.takeEvents(), "difference")
			})
		}
		if got := outcome(b.check(t, b.linkTo(t, "a", "/loop"))); got != "nothing" {
			t.Errorf("a loop said %s", got)
		}
	})
}

// TestCheck_StopsReadingAnEndlessBody has a server that writes until the connection ends.
func TestCheck_StopsReadingAnEndlessBody(t *testing.T) {
	t.Parallel()
	written := make(chan int, 1)
	b := setupChecks(t, dbtest.MigratedSQLite(t), func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		sum := 0
		for {
			n, err := w.Write(make([]byte, maxBody))
			if sum += n; err != nil {
				written <- sum
				return
			}
		}
	}, nil)
	if got := outcome(b.check(t, b.linkTo(t, "a", "/"))); got != "200" {
		t.Errorf("said %s", got)
	}
	if got, most := <-written, 64<<20; got > most { // more than the buffers of a connection
		t.Errorf("%d bytes were written, want no more than %d", got, most)
	}
}

// TestCheck_TimesOutWithoutAnswer costs one deadline, however many links lead to its host.
func TestCheck_TimesOutWithoutAnswer(t *testing.T) {
	eachChecks(t, func(t *testing.T, b *checks) {
		b.allow(b.net.Allow, 500*time.Millisecond)
		l := b.linkTo(t, "a", "/never?secret")
		if got := b.check(t, l); outcome(got) != "nothing" || !got.CheckAt.Equal(noon.Add(time.Hour)) {
			t.Errorf("got %s, due again %s", outcome(got), got.CheckAt)
		}
		if got := b.logged.String(); !strings.Contains(got, l.ID) || strings.Contains(got, "secret") {
			t.Errorf("logged %q", got)
		}
		b.takeEvents()
		for range 3 {
			b.linkTo(t, "a", "/never")
		}
		b.run(t)
		wanttest.Equal(t, []string{"HEAD /never"}, b.takeEvents(), "difference")
	})
}

// TestCheck_TimesOutWhenStalled answers with a redirect that leads to no answer. That is not its
// host's fault, and GET would wait just as long.
func TestCheck_TimesOutWhenStalled(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	b := setupChecks(t, d, site, nil)
	b.allow(b.net.Allow, 500*time.Millisecond)
	if got := outcome(b.check(t, b.linkTo(t, "a", "/stalls"))); got != "nothing" {
		t.Errorf("said %s", got)
	}
	wanttest.Equal(t, []string{"HEAD /stalls", "HEAD /never"}, b.takeEvents(), "difference")
	stalling := []*link.Link{b.linkTo(t, "a", "/stalls"), b.linkTo(t, "a", "/stalls")}
	b.run(t)
	for _, l := range stalling {
		if got := outcome(b.world.Reload(t, l)); got != "nothing" {
			t.Errorf("in the job: said %s", got)
		}
	}
}

// TestCheck_RequestsTheRedirectTarget has nothing of the URL be lost on the way.
func TestCheck_RequestsTheRedirectTarget(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	var requested []string
	b := setupChecks(t, d, func(_ http.ResponseWriter, r *http.Request) {
		requested = append(requested, r.RequestURI)
		if got, want := r.UserAgent(), "LinkforgeBot/1.0 (+http://sho.rt)"; got != want {
			t.Errorf("got user agent %s, want %s", got, want)
		}
	}, nil)
	for path, want := range map[string]string{
		"/a//b/../c/?b=2&a=1&&c#top": "/a//b/../c/?b=2&a=1&&c",
		"/%7euser/%2F":               "/%7euser/%2F",
		"/ä b?ü":                     "/%C3%A4%20b?%C3%BC",
		"/100%":                      "/100%25", // net/http does not send it as it is
		"":                           "/",
	} {
		t.Run(fmt.Sprintf("%q", path), func(t *testing.T) {
			requested = nil
			if b.check(t, b.linkTo(t, "a", path)); !slices.Equal(requested, []string{want}) {
				t.Errorf("requested %s, want %s", requested, want)
			}
		})
	}
	if got := outcome(b.check(t, b.link(t, "no URL"))); got != "nothing" {
		t.Errorf("no URL: got %s, want nothing", got)
	}
}

func TestCheck_BacksOff(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		status := "404"
		b := setupChecks(t, d, func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/" + status
			site(w, r)
		}, nil)
		l := b.linkTo(t, "a", "/")
		step := func(wait time.Duration, failures int) {
			t.Helper()
			b.run(t)
			got := b.world.Reload(t, l)
			if outcome(got) != status || got.CheckFailures != failures || !got.CheckAt.Equal(b.world.Now.Add(wait)) {
				t.Errorf("said %s, %d failures, due in %s; want %s, %d, %s",
					outcome(got), got.CheckFailures, got.CheckAt.Sub(b.world.Now), status, failures, wait)
			}
			b.takeEvents()
			b.world.Now = b.world.Now.Add(wait - time.Second)
			b.run(t)
			if early := b.takeEvents(); len(early) > 0 {
				t.Errorf("requested too early: %s", early)
			}
			b.world.Now = b.world.Now.Add(time.Second)
		}
		for i, hours := range []time.Duration{1, 2, 4, 8, 16, 24, 24} {
			step(hours*time.Hour, i+1)
		}
		status = "200"
		step(24*time.Hour, 0)
		step(24*time.Hour, 0)
		status = "500"
		step(time.Hour, 1)
	})
	if got := backoff(1 << 30); got != maxBackoff {
		t.Errorf("after very many failures: %s", got)
	}
}

func TestCheck_RequiresEditor(t *testing.T) {
	eachChecks(t, func(t *testing.T, b *checks) {
		l := b.linkTo(t, "a", "/200")
		viewer := workspacetest.Join(t, b.Links.DB, b.world.Mine.ID(), workspace.Viewer)
		linktest.Refused(b.Check(t.Context(), viewer, l.ID))(t, errs.Forbidden, "a viewer")
		linktest.Refused(b.Check(t.Context(), b.world.Foreign, l.ID))(t, errs.NotFound, "a stranger")
		linktest.Refused(b.Check(t.Context(), b.world.Mine, "no id"))(t, errs.NotFound, "no link")
		if got := b.takeEvents(); len(got) > 0 || outcome(b.world.Reload(t, l)) != "not requested" {
			t.Errorf("got requests %s, want none", got)
		}
	})
}

func TestCheck_IsRateLimited(t *testing.T) {
	t.Parallel()
	b := setupChecks(t, dbtest.MigratedSQLite(t), site, nil)
	b.Limits = ratelimit.New(dbtest.Redis(t, ""), b.Log, time.Now)
	l := b.linkTo(t, "a", "/200")
	for range perWorkspace.Attempts {
		b.check(t, l)
	}
	b.takeEvents()
	if _, err := b.Check(t.Context(), b.world.Mine, l.ID); !errs.Is(err, errs.RateLimited) ||
		errs.From(err).RetryAfter <= 0 {
		t.Errorf("one check more: %v", err)
	}
	if got := b.takeEvents(); len(got) > 0 {
		t.Errorf("got requests %s, want none", got)
	}
}

// TestCheck_CancelledRecordsNothing cancels the request and the run during a request to the
// destination: a missing response must not count as a failure.
func TestCheck_CancelledRecordsNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		leave := make(chan context.CancelFunc, 1)
		b := setupChecks(t, d, func(_ http.ResponseWriter, r *http.Request) {
			(<-leave)()
			<-r.Context().Done()
		}, nil)
		l := b.linkTo(t, "a", "/")
		leaving := func() context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			leave <- cancel
			return ctx
		}
		if _, err := b.Check(leaving(), b.world.Mine, l.ID); err == nil {
			t.Error("a cancelled check returned no error")
		}
		if err := b.Run(leaving()); !errors.Is(err, context.Canceled) {
			t.Errorf("a run that was interrupted: %v", err)
		}
		if got := b.world.Reload(t, l); outcome(got) != "not requested" || got.CheckFailures != 0 ||
			!got.CheckAt.Equal(noon.Add(CheckLease)) {
			t.Errorf("got %s, due again %s", outcome(got), got.CheckAt)
		}
	})
}

// TestRun_StopsAtDeadline ends a run during a check. The next run starts with that check.
func TestRun_StopsAtDeadline(t *testing.T) {
	t.Parallel()
	b := setupChecks(t, dbtest.MigratedSQLite(t), site, nil)
	l := b.linkTo(t, "a", "/never")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := b.Run(ctx); err != nil || outcome(b.world.Reload(t, l)) != "not requested" {
		t.Errorf("got %s: %v", outcome(b.world.Reload(t, l)), err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	b.Links.DB = &db.DB{DB: b.Links.DB.WithQueryHook(stuck{}), Kind: b.Links.DB.Kind}
	if err := b.Run(ctx); err != nil {
		t.Errorf("during a database query: %v", err)
	}
}

// stuck has queries begin when their time is up.
type stuck struct{}

// BeforeQuery implements bun.QueryHook.
func (stuck) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	<-ctx.Done()
	return ctx
}

// AfterQuery implements bun.QueryHook.
func (stuck) AfterQuery(context.Context, *bun.QueryEvent) {}
