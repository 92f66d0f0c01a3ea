package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// toLoopback lets webhooks send to the receivers of a test.
var toLoopback = []string{"LINKFORGE_ENV=development", "LINKFORGE_OUTBOUND_ALLOW=127.0.0.0/8"}

// sink is a receiver of webhooks on all loopback addresses. It does not respond at /silent.
type sink struct {
	port int
	got  sync.Map // the numbers in the external ids of created links
}

var hookedID = regexp.MustCompile(`hooked/(\d+)`)

func newSink(t *testing.T) *sink {
	t.Helper()
	r := &sink{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/silent" {
			_, _ = io.Copy(io.Discard, q.Body)
			<-q.Context().Done()
			return
		}
		body, _ := io.ReadAll(q.Body)
		for _, found := range hookedID.FindAllSubmatch(body, -1) {
			r.got.Store(string(found[1]), true)
		}
	}))
	server.Listener = must.Value(net.Listen("tcp", "0.0.0.0:0"))(t)
	r.port = server.Listener.Addr().(*net.TCPAddr).Port
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return r
}

// url is an address of the sink; each host has its own.
func (r *sink) url(host, path string) string {
	return fmt.Sprintf("http://%s:%d/%s", host, r.port, path)
}

// receiveEvents makes the delivery of an event a part of the victim's work.
func (s *scene) receiveEvents(t *testing.T) *sink {
	t.Helper()
	r := newSink(t)
	s.victim.hook(t, r.url("127.0.0.1", "victim"), nil, "LINK_CREATED")
	var created atomic.Int64
	s.more = map[string]work{"webhook": {time.Second, func() error {
		n := fmt.Sprint(created.Add(1))
		if _, err := s.victim.create("https://example.com/"+n, "externalId", "hooked/"+n); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for {
			if _, ok := r.got.Load(n); ok {
				return nil
			}
			if err := poll.Wait(ctx, 5*time.Millisecond); err != nil {
				return fmt.Errorf("event %s was not received: %w", n, err)
			}
		}
	}}}
	return r
}

// silentHooks creates 20 webhooks in each of the attacker's workspaces, whose receivers never respond, and
// creates links.
func (s *scene) silentHooks(t *testing.T, workspaces int, url func(workspace, webhook int) string) attack {
	t.Helper()
	all := []tenant{s.attacker}
	for i := 1; i < workspaces; i++ {
		other := s.attacker
		other.workspaceID = s.attacker.newWorkspace(t, fmt.Sprint("attacker-", i))
		all = append(all, other)
	}
	for i, who := range all {
		for j := range 20 {
			who.hook(t, url(i, j), nil, "LINK_CREATED")
		}
	}
	var n atomic.Int64
	return attack{workers: 1, strike: func(ctx context.Context, _ int) (answer, error) {
		_ = poll.Wait(ctx, 100*time.Millisecond)
		i := n.Add(1)
		return all[int(i)%len(all)].run(createMany, map[string]any{"in": map[string]any{
			"workspaceId": all[int(i)%len(all)].workspaceID, "links": longLinks(2, fmt.Sprint("events/", i)),
		}})
	}}
}

// silentReceivers has 500 webhooks of one account, each with a host of its own.
func silentReceivers(t *testing.T, s *scene) attack {
	r := s.receiveEvents(t)
	return s.silentHooks(t, 25, func(i, j int) string { return r.url(fmt.Sprintf("127.1.%d.%d", i, j+1), "silent") })
}

// silentNeighbors has 60 webhooks in three workspaces with the host of the victim's receiver.
func silentNeighbors(t *testing.T, s *scene) attack {
	r := s.receiveEvents(t)
	return s.silentHooks(t, 3, func(int, int) string { return r.url("127.0.0.1", "silent") })
}

// ownSlowReceivers has five silent webhooks beside a fast one of the same workspace and host, and with the victim's
// work 16 events a second: a webhook receives 20 at most.
func ownSlowReceivers(t *testing.T, s *scene) attack {
	r := s.receiveEvents(t)
	for range 5 {
		s.victim.hook(t, r.url("127.0.0.1", "silent"), nil, "LINK_CREATED")
	}
	quick := 0
	polltest.Until(t, "the silent ones have timed out once", func() bool {
		began := time.Now()
		if err := s.more["webhook"].once(); err != nil || time.Since(began) > time.Second {
			quick = 0
		}
		quick++
		return quick > 5
	})
	const first = 1_000_000
	var n atomic.Int64
	return attack{
		workers: 1,
		strike: func(ctx context.Context, _ int) (answer, error) {
			_ = poll.Wait(ctx, 200*time.Millisecond)
			i := fmt.Sprint(first + n.Add(1))
			_, err := s.victim.create("https://example.com/"+i, "externalId", "hooked/"+i)
			return answer{status: http.StatusOK, header: http.Header{}}, err
		},
		check: func(t *testing.T) {
			polltest.Until(t, "the fast webhook has received each event", func() bool {
				got := int64(0)
				for i := int64(1); i <= n.Load(); i++ {
					if _, ok := r.got.Load(fmt.Sprint(first + i)); ok {
						got++
					}
				}
				return got == n.Load()
			})
			t.Logf("%d events were received", n.Load())
		},
	}
}

// manyLogos requests QR codes with a logo of the largest size, each in a style of its own.
func manyLogos(t *testing.T, s *scene) attack {
	l := s.attacker.shorten(t, "https://example.com/logo").Link
	var logo bytes.Buffer
	must.NoError(t, png.Encode(&logo, image.NewNRGBA(image.Rect(0, 0, 1024, 1024))))
	text := base64.StdEncoding.EncodeToString(logo.Bytes())
	return attack{workers: 40, strike: func(context.Context, int) (answer, error) {
		style := map[string]any{"level": "HIGH", "logo": text,
			"foreground": fmt.Sprintf("#%06x", rand.IntN(0x400000)&0x3f3f3f)}
		return s.attacker.run(`query ($id: ID!, $style: QrStyleInput) { link(by: {id: $id}) { qrCode(style: $style) {
			svg } } }`,
			map[string]any{"id": l.ID, "style": style})
	}}
}

// largeRoutings explains visits with routings of 90,000 values, and creates links with large ones.
func largeRoutings(t *testing.T, s *scene) attack {
	l := s.attacker.shorten(t, "https://example.com/routed").Link
	rules := func(n, conditions, values int) (all []any) {
		for i := range n {
			var when []any
			for range conditions {
				hosts := make([]string, values)
				for j := range hosts {
					hosts[j] = fmt.Sprintf(".host-%d-%d.example.com", i, j)
				}
				when = append(when, map[string]any{"referrer": hosts})
			}
			all = append(all, map[string]any{"when": when,
				"targets": []any{map[string]any{"url": fmt.Sprint("https://example.com/", i)}}})
		}
		return all
	}
	explain := encoded(t, `query ($id: ID!, $r: LinkRoutingInput) { explainRedirect(by: {id: $id}, routing: $r) {
		status } }`,
		map[string]any{"id": l.ID, "r": map[string]any{"rules": rules(45, 20, 100)}})
	var tests, links []any
	for range 50 {
		tests = append(tests, map[string]any{"status": 302, "visit": map[string]any{"country": "US"}})
	}
	for i := range 50 { // more would cost more than an operation may, and more values would not be stored
		links = append(links, map[string]any{"url": fmt.Sprint("https://example.com/large/", i), "strategy": "RANDOM",
			"routing": map[string]any{"rules": rules(50, 1, 9), "tests": tests}})
	}
	create := encoded(t, createMany, map[string]any{
		"in": map[string]any{"workspaceId": s.attacker.workspaceID, "links": links}})
	return attack{workers: 16, strike: func(_ context.Context, worker int) (answer, error) {
		if worker%2 == 0 {
			return s.attacker.post(create)
		}
		return s.attacker.post(explain)
	}}
}
