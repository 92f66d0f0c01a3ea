package dispatch_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/dispatch"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/outbound"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// beforeQuery is called before each query. It returns the context of the query.
type beforeQuery func(ctx context.Context, query string) context.Context

func (f beforeQuery) BeforeQuery(ctx context.Context, e *bun.QueryEvent) context.Context {
	return f(ctx, e.Query)
}

func (f beforeQuery) AfterQuery(context.Context, *bun.QueryEvent) {}

// beforeRendering has a function called before the dispatcher reads links, which it does to render
// events and clicks.
func (b *bundle) beforeRendering(f beforeQuery) {
	links := *b.Links
	links.DB = &db.DB{DB: b.DB.WithQueryHook(f), Kind: b.DB.Kind}
	b.dispatcher.Links = &links
}

// clock is an injected clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// mails has the texts of emails.
type mails struct {
	mu    sync.Mutex
	texts []string
}

func (m *mails) Send(_ context.Context, _, _, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.texts = append(m.texts, text)
}

func (m *mails) sent() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.texts)
}

// request is a request that a receiver got.
type request struct {
	method string
	header http.Header
	body   string
}

// receiver is the server of a webhook.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	requests []request
	// answer writes the response; nil accepts all.
	answer func(w http.ResponseWriter, n int)
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.requests = append(r.requests, request{q.Method, q.Header, string(body)})
		n, answer := len(r.requests), r.answer
		r.mu.Unlock()
		if answer != nil {
			answer(w, n)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) respond(answer func(w http.ResponseWriter, n int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) got() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request{}, r.requests...)
}

// ids are the message ids in the order of arrival.
func (r *receiver) ids() (ids []string) {
	for _, request := range r.got() {
		ids = append(ids, request.header.Get("webhook-id"))
	}
	return ids
}

func status(code int) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, _ int) { w.WriteHeader(code) }
}

// bundle is a workspace with a dispatcher.
type bundle struct {
	*stores.Stores
	clock      *clock
	mails      *mails
	m          workspace.Membership
	dispatcher *dispatch.Dispatcher
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	c := must.Value(config.Parse(map[string]string{
		"LINKFORGE_PUBLIC_URL": "http://sho.rt", "LINKFORGE_OUTBOUND_ALLOW": "127.0.0.1",
		"LINKFORGE_RATE_LIMITS": "off", "LINKFORGE_JWT_SECRET": strings.Repeat("j", 32),
		"LINKFORGE_CODE_SECRET":    strings.Repeat("c", 32),
		"LINKFORGE_ENCRYPTION_KEY": strings.Repeat("0a", 32),
	}, config.Checks{}))(t)
	b := &bundle{clock: &clock{now: dbtest.Noon}, mails: &mails{}}
	log := slog.New(slog.NewTextHandler(testWriter{t}, nil))
	b.Stores = must.Value(stores.Open(stores.Options{Config: c, DB: d, Log: log, Now: b.clock.Now}))(t)
	b.m = workspacetest.New(t, d, "acme")
	b.dispatcher = b.newDispatcher(log)
	return b
}

// each runs a test in parallel with others, on both databases.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		test(t, setup(t, d))
	})
}

// eachReceiving runs a test as each does, with the receiver of a webhook.
func eachReceiving(t *testing.T, test func(t *testing.T, b *bundle, r *receiver)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		test(t, setup(t, d), newReceiver(t))
	})
}

// eachSending runs a test as eachReceiving does, with a webhook of LINK_UPDATED.
func eachSending(t *testing.T, test func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook)) {
	t.Helper()
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		test(t, b, r, w)
	})
}

// newDispatcher returns a dispatcher of another node.
func (b *bundle) newDispatcher(log *slog.Logger) *dispatch.Dispatcher {
	return dispatch.New(dispatch.Config{
		Store: b.Webhooks, Client: outbound.NewClient(dispatch.ClientConfig(outbound.Config{
			Allow: func(a netip.Addr) bool { return outbound.Public(a) || a == netip.MustParseAddr("127.0.0.1") },
		})),
		Workspaces: b.Workspaces, Links: b.Links, Mail: b.mails, Limits: b.Limits, Log: log,
	})
}

// testWriter logs to a test.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", p)
	}
	return len(p), nil
}

// run runs the dispatcher until the test ends.
func (b *bundle) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	news := feed.New(b.DB, b.dispatcher.Log, b.clock.Now)
	news.Subscribe(b.dispatcher.Follow)
	must.NoError(t, news.CatchUp(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.dispatcher.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() { _ = news.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// create creates a webhook of the types.
func (b *bundle) create(t *testing.T, url string, types ...audit.Action) (*webhook.Webhook, string) {
	t.Helper()
	return b.createWith(t, hook(url, types...))
}

func (b *bundle) createWith(t *testing.T, c webhook.Change) (*webhook.Webhook, string) {
	t.Helper()
	w, secret, err := b.Webhooks.Create(t.Context(), b.m, c)
	must.NoError(t, err)
	return w, secret
}

// hook is the input of a webhook.
func hook(url string, types ...audit.Action) webhook.Change {
	return webhook.Change{Name: optional.Set("hook"), URL: optional.Set(url), Types: optional.Set(types)}
}

func (b *bundle) update(t *testing.T, w *webhook.Webhook, c webhook.Change) {
	t.Helper()
	must.Value(b.Webhooks.Update(t.Context(), b.m, w.ID, c))(t)
}

// write writes an event about a link and returns its id.
func (b *bundle) write(t *testing.T, action audit.Action, linkID string) string {
	t.Helper()
	e := audit.New(b.m.ID(), "", action, linkID, nil, b.clock.Now())
	b.writeEvents(t, e)
	return e.ID
}

// writeEvents writes events in one transaction.
func (b *bundle) writeEvents(t *testing.T, events ...*audit.Event) {
	t.Helper()
	must.NoError(t, b.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		return audit.Write(ctx, tx, events...)
	}))
}

// readEvents creates the deliveries of events that have been written, until n wait.
func (b *bundle) readEvents(t *testing.T, w *webhook.Webhook, n int64) {
	t.Helper()
	until(t, "the events have deliveries", func() bool {
		must.NoError(t, b.dispatcher.ReadEvents(t.Context(), w.ID))
		return b.waiting(t, w) >= n
	})
}

// pending writes an event, creates its delivery and returns its id.
func (b *bundle) pending(t *testing.T, w *webhook.Webhook) string {
	t.Helper()
	n, messageID := b.waiting(t, w), b.write(t, audit.LinkUpdated, newLinkID())
	b.readEvents(t, w, n+1)
	return messageID
}

// updates are n events, each about another link.
func (b *bundle) updates(n int) (events []*audit.Event) {
	for range n {
		events = append(events, audit.New(b.m.ID(), "", audit.LinkUpdated, newLinkID(), nil, b.clock.Now()))
	}
	return events
}

// send sends the due deliveries of a webhook, and waits for the responses.
func (b *bundle) send(t *testing.T, w *webhook.Webhook) {
	t.Helper()
	must.NoError(t, b.dispatcher.SendNext(t.Context(), w.ID, w.Host))
}

// recorder returns a function that records clicks of a workspace, each on another link, and stores
// them.
func (b *bundle) recorder(t *testing.T) func(n int, m workspace.Membership) {
	t.Helper()
	clicks := clicktest.New(t, b.DB, b.clock.Now)
	clicktest.Run(t, clicks.Recorder)
	return func(n int, m workspace.Membership) {
		t.Helper()
		for range n {
			clicks.Record(&click.Click{WorkspaceID: m.ID(), LinkID: newLinkID(), Status: 302, ClickedAt: b.clock.Now()})
		}
		must.NoError(t, clicks.Flush(t.Context()))
	}
}

// waiting is the number of waiting deliveries of a webhook.
func (b *bundle) waiting(t *testing.T, w *webhook.Webhook) int64 {
	t.Helper()
	return must.Value(b.DB.NewSelect().Table("webhook_deliveries").Where("webhook_id = ?", w.ID).
		Where("status = 'WAITING'").Count(db.AsSystem(t.Context())))(t)
}

func (b *bundle) reload(t *testing.T, webhookID string) *webhook.Webhook {
	t.Helper()
	rows, err := b.Webhooks.Rows().ByID(t.Context(), b.m, webhookID)
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	return rows[0]
}

func newLinkID() string { return id.New(id.Link) }

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	polltest.Until(t, what, holds)
}

func signature(key []byte, signed string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
