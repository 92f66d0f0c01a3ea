// Package faulttest injects faults between processes and the servers that they depend on: a TCP
// proxy with latency, cuts and black holes. Tests of failures use it.
package faulttest

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Mode determines how a Proxy handles bytes.
type Mode int

// The modes of a Proxy.
const (
	Pass      Mode = iota // forward them
	Refuse                // reset all connections, and accept no others
	BlackHole             // accept connections, and neither forward nor answer anything
)

// Proxy forwards TCP connections to a server.
type Proxy struct {
	// Address is where the proxy listens.
	Address string

	target string
	mu     sync.Mutex
	mode   Mode
	delay  time.Duration
	change chan struct{} // closed at the next change
	conns  map[net.Conn]bool
}

// NewProxy listens in front of the server at target until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		Address: listener.Addr().String(), target: target, change: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.Set(Refuse)
		running.Wait()
	})
	return p
}

// ForURL is NewProxy for the server of a URL. It also returns the URL of the proxy.
func ForURL(t testing.TB, serverURL string) (*Proxy, string) {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	p := NewProxy(t, u.Host)
	u.Host = p.Address
	return p, u.String()
}

// Set changes the mode. Refuse resets the existing connections.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	close(p.change)
	p.change = make(chan struct{})
	if m == Refuse {
		for conn := range p.conns {
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset, after which writes fail
			conn.Close()
		}
	}
}

// SetTarget has new connections lead to another server, as a fixed address does after a failover.
// Existing ones stay.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// SetDelay delays every chunk of bytes in both directions.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

func (p *Proxy) state() (Mode, time.Duration, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.delay, p.change
}

// add registers a connection, and reports the target and whether it is refused.
func (p *Proxy) add(conn net.Conn) (target string, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = true
	return p.target, p.mode == Refuse
}

func (p *Proxy) remove(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	conn.Close()
}

func (p *Proxy) serve(client net.Conn) {
	defer p.remove(client)
	target, refused := p.add(client)
	if refused {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer p.remove(server)
	if _, refused := p.add(server); refused {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client) })
	p.copy(client, server)
	both.Wait()
}

// copy forwards bytes according to the mode until either end closes.
func (p *Proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		for {
			mode, delay, change := p.state()
			if mode == BlackHole {
				<-change
				continue
			}
			if delay > 0 {
				time.Sleep(delay)
			}
			break
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
