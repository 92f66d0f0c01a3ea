package dispatch_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestDispatcher_TakesTurns has webhooks of two workspaces due: those of the first have been due
// for longer.
func TestDispatcher_TakesTurns(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		other := *b
		other.m = workspacetest.New(t, b.DB, "other")
		var names, got []string
		for i, tenant := range []*bundle{b, b, b, &other, &other} {
			w, _ := tenant.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
			b.exec(t, "UPDATE webhooks SET due_at = ? WHERE id = ?", dbtest.Noon.Add(time.Duration(i-9)*time.Second),
				w.ID)
			names = append(names, w.ID)
		}
		due := func() []string { return must.Value(b.dispatcher.Due(t.Context()))(t) }
		want := []string{names[0], names[3], names[1], names[4], names[2]}
		if got = due(); !slices.Equal(got, want) {
			t.Errorf("due: %v, want %v", got, want)
		}
		must.Value(b.dispatcher.Occupy(t.Context(), names[0], 2))(t)
		want = []string{names[3], names[4], names[0], names[1], names[2]}
		if got = due(); !slices.Equal(got, want) {
			t.Errorf("due with two requests of the first workspace in flight: %v, want %v", got, want)
		}
	})
}

// TestDispatcher_BoundsShares uses up the requests of one subject after the other: others may send,
// and due leaves out the webhooks of the subject.
func TestDispatcher_BoundsShares(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		owner := workspacetest.Actor(t, b.DB)
		var hooks []string
		for _, slug := range []string{"one", "two", "three", "foreign"} {
			tenant := *b
			if tenant.m = workspacetest.New(t, b.DB, slug); slug != "foreign" {
				tenant.m = workspacetest.Of(t, b.DB, owner, slug+"-owned")
			}
			w, _ := tenant.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
			hooks = append(hooks, w.ID)
		}
		keyID := id.New(id.Key)
		b.exec(t, `INSERT INTO api_keys (id, workspace_id, name, prefix, hash, scopes, created_by, created_at)
			SELECT ?, workspace_id, 'key', '', ?, '', created_by, created_at FROM webhooks WHERE id = ?`,
			keyID, []byte(keyID), hooks[1])
		b.exec(t, "UPDATE webhooks SET created_by = ? WHERE id = ?", keyID, hooks[1])
		b.exec(t, "UPDATE webhooks SET due_at = ?, concurrency = 300", dbtest.Noon)
		occupy := func(i int) int64 { return must.Value(b.dispatcher.Occupy(t.Context(), hooks[i], 300))(t) }
		move := func(host string) { b.exec(t, "UPDATE webhooks SET host = ?", host) }
		for _, c := range []struct {
			name string
			do   func() int64
			want int64
			due  int
		}{
			{"a workspace and a host", func() int64 { return occupy(0) }, 4, 3},
			{"an account and a host", func() int64 { return occupy(1) + occupy(2) }, 4, 1},
			{"a foreign account at the host", func() int64 { return occupy(3) }, 4, 0},
			{"a workspace", func() (n int64) {
				for _, host := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
					move(host)
					n += occupy(0)
				}
				return n
			}, 28, 3},
			{"an account", func() (n int64) {
				for _, host := range []string{"i", "j", "k", "l", "m", "n", "o", "p"} {
					move(host)
					n += occupy(1)
				}
				return n
			}, 28, 1},
		} {
			if n := c.do(); n != c.want {
				t.Errorf("%s: %d requests, want %d", c.name, n, c.want)
			}
			if n := len(must.Value(b.dispatcher.Due(t.Context()))(t)); n != c.due {
				t.Errorf("%s: %d webhooks are due, want %d", c.name, n, c.due)
			}
		}
	})
}

// TestDispatcher_SlowReceiverGetsOneRequest lets a request time out, and then succeeds.
func TestDispatcher_SlowReceiverGetsOneRequest(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		for range 16 {
			b.write(t, audit.LinkUpdated, newLinkID())
		}
		until(t, "the events have deliveries", func() bool {
			must.NoError(t, b.dispatcher.ReadEvents(t.Context(), w.ID))
			return b.waiting(t, w) == 16
		})
		release := make(chan struct{})
		r.respond(func(http.ResponseWriter, int) { <-release })
		normal := b.dispatcher.Client.Timeout
		b.dispatcher.Client.Timeout = 50 * time.Millisecond
		b.send(t, w)
		close(release)
		b.dispatcher.Client.Timeout = normal
		r.respond(nil)
		sent := len(r.got())
		for i, want := range []int{1, 2, 4, 4} { // this node sends four to a host
			b.send(t, w)
			if n := len(r.got()) - sent; n != want {
				t.Errorf("round %d after a timeout: %d requests, want %d", i+1, n, want)
			}
			sent = len(r.got())
		}
		if got := b.reload(t, w.ID).Concurrency; got != 8 {
			t.Errorf("concurrency %d", got)
		}
	})
}
