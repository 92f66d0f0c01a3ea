package transport

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// pipes is a listener for connections within the process.
type pipes struct {
	conns chan net.Conn
	ended context.Context
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended.Done():
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// TestSocket_EndsWhenIdle: a connection without an operation ends after a minute, and one with an operation does not.
func TestSocket_EndsWhenIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		listener := pipes{make(chan net.Conn), ended}
		server := &http.Server{Handler: setup(t)}
		go func() { _ = server.Serve(listener) }()
		conn, _, err := websocket.Dial(ended, "ws://pipe/graphql", &websocket.DialOptions{
			Subprotocols: []string{protocol},
			HTTPClient:   &http.Client{Transport: &http.Transport{DialContext: listener.dial}},
		})
		must.NoError(t, err)
		send := func(text string) {
			if err := conn.Write(ended, websocket.MessageText, []byte(text)); err != nil {
				t.Error(err)
			}
		}
		lasted := make(chan error, 1)
		go func() {
			for {
				if _, _, err := conn.Read(ended); err != nil {
					lasted <- err
					return
				}
			}
		}()
		send(`{"type": "connection_init"}`)
		send(`{"id": "1", "type": "subscribe", "payload": {"query": "subscription { wait }"}}`)
		time.Sleep(10 * time.Minute)
		select {
		case err := <-lasted:
			t.Fatalf("the connection of a subscription ended: %v", err)
		default:
		}
		send(`{"id": "1", "type": "complete"}`)
		began := time.Now()
		if err := <-lasted; websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("the idle connection ended with %v", err)
		}
		if after := time.Since(began); after < idleTimeout-time.Second || after > idleTimeout+5*time.Second {
			t.Errorf("it ended after %s, want %s", after, idleTimeout)
		}
		end()
		server.Close()
	})
}
