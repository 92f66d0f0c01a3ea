package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// hookReceiver verifies requests by the specification, and fails some of them.
type hookReceiver struct {
	*httptest.Server

	mu      sync.Mutex
	secrets []string
	// fails is how many of ten requests fail.
	fails    int
	requests int
	invalid  int
	accepted map[string]bool
	// order has the ids of accepted requests, each once.
	order []string
}

func newHookReceiver(t *testing.T, fails int) *hookReceiver {
	t.Helper()
	r := &hookReceiver{fails: fails, accepted: map[string]bool{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *hookReceiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return // the sender was killed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	messageID := q.Header.Get("webhook-id")
	signed := messageID + "." + q.Header.Get("webhook-timestamp") + "." + string(body)
	if !slices.ContainsFunc(r.secrets, func(secret string) bool {
		return slices.Contains(strings.Fields(q.Header.Get("webhook-signature")), webhookSignature(secret, signed))
	}) {
		r.invalid++
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.requests%10 < r.fails {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if !r.accepted[messageID] {
		r.accepted[messageID], r.order = true, append(r.order, messageID)
	}
}

// trust sets the secrets of requests.
func (r *hookReceiver) trust(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = secrets
}

func (r *hookReceiver) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.accepted))
}

func webhookSignature(secret, signed string) string {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// hook creates a webhook and returns its id and secret.
func (w tenant) hook(t *testing.T, url string, more map[string]any, types ...string) (webhookID, secret string) {
	t.Helper()
	in := map[string]any{"workspaceId": w.workspaceID, "name": "hook", "url": url, "types": types}
	maps.Copy(in, more)
	got := w.ask(t, `mutation ($in: CreateWebhookInput!) { createWebhook(input: $in) { webhook { id } secret
		errors { code message field } } }`, map[string]any{"in": in})
	if got.text("createWebhook.secret") == "" {
		t.Fatalf("%v", got)
	}
	return got.text("createWebhook.webhook.id"), got.text("createWebhook.secret")
}

// testHook sends a test to a webhook, and returns the status of its answer; empty if there is none.
func (w tenant) testHook(t *testing.T, webhookID string) (status string) {
	t.Helper()
	return w.ask(t, `mutation ($id: ID!) { testWebhook(input: {id: $id}) { attempt { status } } }`,
		map[string]any{"id": webhookID}).text("testWebhook.attempt.status")
}

// TestFault_WebhooksSurviveKills changes links on all nodes, kills a node from time to time, and compares
// the accepted requests with the feed.
func TestFault_WebhooksSurviveKills(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	changes, kills := suitetest.Size(60, 120), suitetest.Size(1, 2)
	eachBackend(t, func(t *testing.T, b backend) {
		r := newHookReceiver(t, 3)
		nodes := startAll(t, b.inProcesses(), b.nodes, "LINKFORGE_OUTBOUND_ALLOW=127.0.0.1")
		who := nodes[0].tenant(t, "acme")
		_, secret := who.hook(t, r.URL, nil, "LINK_CREATED", "LINK_UPDATED", "LINK_DELETED")
		r.trust(secret)
		for i := range changes {
			if i%(changes/kills) == changes/kills/2 {
				nodes[len(nodes)-1].killAndRestart()
			}
			who.onServer(nodes[i%len(nodes)]).shorten(t, fmt.Sprintf("https://example.com/%d", i))
		}
		d := must.Value(b.open())(t)
		defer d.Close()
		enough := time.Minute + time.Duration(changes)*20*time.Millisecond
		polltest.Within(t, enough, "the receiver has all events", func() bool {
			hasten(t, d)
			return len(r.ids()) >= changes
		})
		want := who.feed(t, "")
		slices.Sort(want)
		same(t, "events", r.ids(), want)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.invalid > 0 {
			t.Errorf("%d requests with an invalid signature", r.invalid)
		}
	})
}

// hasten makes retries due, so that the test does not wait for the schedule, and returns the claims of nodes that
// were killed.
func hasten(t *testing.T, d *db.DB) {
	t.Helper()
	ctx, now := db.AsSystem(t.Context()), db.Instant(time.Now())
	for statement, before := range map[string]time.Time{
		"UPDATE webhook_deliveries SET due_at = ?0 WHERE status = 'WAITING' AND due_at > ?1": now,
		"UPDATE webhooks SET due_at = ?0 WHERE due_at > ?1":                                  now,
		"UPDATE webhook_deliveries SET claimed_until = NULL WHERE claimed_until < ?1":        now.Add(90 * time.Second),
	} {
		must.Value(d.NewRaw(statement, now, before).Exec(ctx))(t)
	}
}

// TestWebhooks_StopEverywhere stops and starts by the command.
func TestWebhooks_StopEverywhere(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		r := newHookReceiver(t, 0)
		nodes := startAll(t, b, b.nodes, "LINKFORGE_OUTBOUND_ALLOW=127.0.0.1")
		who := nodes[0].tenant(t, "acme")
		webhookID, secret := who.hook(t, r.URL, nil, "LINK_CREATED")
		r.trust(secret)
		succeed(t, nodes[0].env, "webhooks", "stop")
		for _, node := range nodes {
			polltest.Until(t, "tests are refused", func() bool { // within a second, if the machine is not busy
				a, err := who.onServer(node).
					run(`mutation ($id: ID!) { testWebhook(input: {id: $id}) { attempt { status } } }`,
						map[string]any{"id": webhookID})
				return err == nil && a.code() == "FORBIDDEN"
			})
		}
		who.shorten(t, "https://example.com/while-stopped")
		var events []string
		polltest.Until(t, "the event is listed", func() bool { // on PostgreSQL after transactions of all tests
			events = who.feed(t, "")
			return len(events) > 0
		})
		hasArrived := func() bool {
			return slices.ContainsFunc(r.ids(), func(id string) bool { return slices.Contains(events, id) })
		}
		polltest.Elapse(time.Second)
		if hasArrived() {
			t.Errorf("an event of %q was sent while stopped", events)
		}
		succeed(t, nodes[0].env, "webhooks", "start")
		polltest.Until(t, "the event arrives", hasArrived)
		rows := rowsOf(t, nodes[0].env, "webhooks", "list", "--json")
		if len(rows) != 1 || rows[0]["id"] != webhookID || rows[0]["status"] != "ACTIVE" {
			t.Errorf("the list: %v", rows)
		}
		succeed(t, nodes[0].env, "webhooks", "disable", "--host", "127.0.0.1")
		refuses(t, "ACTIVE", who.refusal(t, "updateWebhook", "UpdateWebhookInput",
			map[string]any{"id": webhookID, "status": "ACTIVE"}), "UNSAFE_URL")
	})
}

// TestWebhooks_VerifyWithOfficialLibraries sends to the receivers of examples/webhooks.
func TestWebhooks_VerifyWithOfficialLibraries(t *testing.T) {
	t.Parallel()
	proctest.SkipShort(t)
	who := start(t, embedded(t), "LINKFORGE_OUTBOUND_ALLOW=127.0.0.1").tenant(t, "acme")
	for name, prepare := range map[string]func(t *testing.T) *exec.Cmd{"Go": goReceiver, "TypeScript": nodeReceiver} {
		t.Run(name, func(t *testing.T) {
			process := prepare(t)
			address := proctest.FreeAddress()
			webhookID, secret := who.hook(t, "http://"+address+"/", nil, "LINK_CREATED")
			process.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret, "ADDRESS="+address)
			must.NoError(t, process.Start())
			t.Cleanup(func() {
				_ = process.Process.Kill()
				_ = process.Wait()
			})
			polltest.Until(t, "the receiver accepts a test", func() bool { return who.testHook(t, webhookID) == "204" })
			who.do(t, "rotateWebhookSecret", map[string]any{"id": webhookID})
			same(t, "with the old secret during the rotation", who.testHook(t, webhookID), "204")
			who.do(t, "rotateWebhookSecret", map[string]any{"id": webhookID, "overlapSeconds": 0})
			same(t, "with the old secret after the rotation", who.testHook(t, webhookID), "401")
		})
	}
}

func goReceiver(t *testing.T) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	path := filepath.Join(t.TempDir(), "receiver")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, ".")
	build.Dir = "../examples/webhooks/go"
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("the library cannot be downloaded: %s", out)
	}
	return exec.Command(path)
}

func nodeReceiver(t *testing.T) *exec.Cmd {
	t.Helper()
	const dist = "../examples/webhooks/typescript/dist/receiver.js"
	if _, err := os.Stat(dist); err != nil {
		t.Skip("not built: cd examples/webhooks/typescript && npm ci && npm run build")
	}
	return exec.Command("node", dist)
}
