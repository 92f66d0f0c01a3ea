package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// load are visitors who follow a short URL in turn, each over a persistent connection, until the
// server has stopped.
type load struct {
	visitors sync.WaitGroup
	stopping atomic.Bool
	// answered counts complete redirects, unanswered requests whose fate their visitors do not know.
	answered, unanswered atomic.Int64
	// warm is closed when enough redirects have been answered.
	warm chan struct{}
}

const (
	visitors  = 32
	warmAfter = 10 * visitors
)

func hammer(t *testing.T, s *server, path string) *load {
	t.Helper()
	l := &load{warm: make(chan struct{})}
	for range visitors {
		l.visitors.Go(func() {
			for {
				a, err := s.get(path)
				if errors.Is(err, syscall.ECONNREFUSED) && l.stopping.Load() {
					return // the server has stopped, and this request was not sent
				}
				if err != nil {
					l.unanswered.Add(1)
					t.Logf("cut off: %v", err)
					if !l.stopping.Load() {
						t.Errorf("before the signal: %v", err)
					}
					return
				}
				if a.status != http.StatusFound {
					t.Errorf("status %d: %s", a.status, a.body)
					return
				}
				if l.answered.Add(1) == warmAfter {
					close(l.warm)
				}
				if a.header.Get("Connection") == "close" {
					return // the server stops, and the visitor's connection ends after this response
				}
				polltest.Elapse(breath)
			}
		})
	}
	return l
}

// TestShutdown_CompletesUnderLoad stops a server under load three times. Every redirect is counted after the
// restart, and nothing else.
func TestShutdown_CompletesUnderLoad(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		// Visitors of a busy machine may take longer from one request to the next than a node waits by itself.
		s := start(t, b, "LINKFORGE_HIT_QUOTA=1000000000", "LINKFORGE_DRAIN_DELAY=1s")
		who := s.tenant(t, "pressed")
		l := who.shorten(t, "https://example.com/busy").Link
		var answered, unanswered int64
		for round := range 3 {
			visits := hammer(t, s, l.path(s))
			select {
			case <-visits.warm:
			case <-time.After(patience):
				t.Fatal("the visitors do not get anywhere")
			}
			finish := halfway(t, who.client)
			visits.stopping.Store(true)
			s.terminate()
			s.awaitUnready()
			finish()
			visits.visitors.Wait()
			s.awaitExit()

			if cut := visits.unanswered.Load(); cut > 0 {
				t.Errorf("round %d: %d redirects were cut off", round, cut)
			}
			answered, unanswered = answered+visits.answered.Load(), unanswered+visits.unanswered.Load()
			s.again()
			got := who.getLink(t, l.ID)
			if got.ClickCount < answered || got.ClickCount > answered+unanswered {
				t.Errorf("round %d: %d clicks; %d redirects were seen, %d requests had no answer",
					round, got.ClickCount, answered, unanswered)
			}
			if got.HitQuota.Used != got.ClickCount {
				t.Errorf("round %d: %d hits used, %d clicks", round, got.HitQuota.Used, got.ClickCount)
			}
		}
	})
}

// awaitUnready waits until the server refuses to be ready, which it must do at once and for good.
func (s *server) awaitUnready() {
	s.t.Helper()
	began := time.Now()
	polltest.Until(s.t, "the server is not ready", func() bool { return !s.isReady() })
	if took := time.Since(began); took > 5*time.Second {
		s.t.Errorf("the server was ready for another %s after the signal", took)
	}
	if s.isReady() {
		s.t.Error("the server is ready again after the signal")
	}
}

// halfway sends a request whose body the server has begun to read, and returns a function that
// sends the rest and expects the response.
func halfway(t *testing.T, c client) (finish func()) {
	t.Helper()
	conn := must.Value(net.Dial("tcp", c.address))(t)
	t.Cleanup(func() { conn.Close() })
	must.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	body := `{"query": "{ me { id } }"}`
	fmt.Fprintf(conn, "POST /graphql HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Authorization: Bearer %s\r\nExpect: 100-continue\r\n\r\n%s", c.address, len(body), c.token, body[:5])
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("the server does not read on: %q: %v", line, err)
	}
	must.Value(answers.ReadString('\n'))(t)
	return func() {
		t.Helper()
		if _, err := io.WriteString(conn, body[5:]); err != nil {
			t.Error(err)
		}
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Errorf("a request in flight was not answered: %v", err)
			return
		}
		defer response.Body.Close()
		var got struct {
			Data struct{ Me struct{ ID string } }
		}
		err = json.NewDecoder(response.Body).Decode(&got)
		if err != nil || response.StatusCode != http.StatusOK || got.Data.Me.ID == "" {
			t.Errorf("a request in flight: status %d, %+v: %v", response.StatusCode, got, err)
		}
	}
}
