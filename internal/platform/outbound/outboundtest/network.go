// Package outboundtest is a small internet on loopback, for tests of outgoing requests: a public
// server, a canary that no request may reach, and a name server with false answers.
package outboundtest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// The addresses. On Linux all of 127.0.0.0/8 is loopback.
const (
	// Public is the server's that stands in for a public one, Silent is as public, and nothing
	// listens there.
	Public = "127.0.0.2"
	Silent = "127.0.0.3"
	// Private and Private6 are the canary's.
	Private  = "127.0.0.1"
	Private6 = "::1"
)

// PublicName ends the names that lead to the public server.
const PublicName = ".public.test"

// ports is how many ports are tried until one is free on every address.
const ports = 20

// Network is the internet of one test.
type Network struct {
	// Resolver asks the name server.
	Resolver *net.Resolver
	// Port is the one port on which both the public server and the canary listen, so that a name
	// leads to either.
	Port string
	// IPv6 says that the canary listens there too.
	IPv6 bool

	names   *nameServer
	canary  []string // its origins
	reached atomic.Int64
}

// Open starts a network with the handler as its public server, and closes it after the test.
//
// names lists the addresses that the name server returns to the first query of a name, to the
// second and so on; the last ones repeat. Other names that end in PublicName resolve to the public
// server, and all others to the canary.
func Open(t testing.TB, public http.Handler, names map[string][][]string) *Network {
	t.Helper()
	n := &Network{}
	n.listen(t, public)
	n.names = serveNames(t, names)
	n.Resolver = n.names.resolver()
	return n
}

// Allow lets connections to the public addresses through.
func (n *Network) Allow(a netip.Addr) bool { return a.String() == Public || a.String() == Silent }

// URL is an address of the host, at the network's port.
func (n *Network) URL(host, path string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return "http://" + host + ":" + n.Port + path
}

// Lookups returns the number of queries for the IPv4 addresses of the name.
func (n *Network) Lookups(name string) int { return n.names.lookups(name) }

// Reached is how many connections the canary has been sent since it was last asked. It connects to
// the canary itself: once that is answered, all earlier connections have been counted.
func (n *Network) Reached(t testing.TB) int64 {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, origin := range n.canary {
		answer, err := client.Get(origin)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	return n.reached.Swap(0) - int64(len(n.canary))
}

func (n *Network) listen(t testing.TB, public http.Handler) {
	t.Helper()
	for range ports {
		private, err := net.Listen("tcp", net.JoinHostPort(Private, "0"))
		if err != nil {
			t.Fatal(err)
		}
		_, n.Port, _ = net.SplitHostPort(private.Addr().String())
		open, err := net.Listen("tcp", net.JoinHostPort(Public, n.Port))
		if err != nil {
			private.Close()
			continue // the port is taken, or the system has no such address
		}
		serve(t, open, public)
		n.serveCanary(t, private)
		if private6, err := net.Listen("tcp", net.JoinHostPort(Private6, n.Port)); err == nil {
			n.IPv6 = true
			n.serveCanary(t, private6)
		}
		return
	}
	if runtime.GOOS != "linux" {
		t.Skipf("%s is no address of this system", Public)
	}
	t.Fatal("no port is free")
}

func (n *Network) serveCanary(t testing.TB, l net.Listener) {
	t.Helper()
	n.canary = append(n.canary, "http://"+l.Addr().String())
	serve(t, counted{l, &n.reached}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a secret")
	}))
}

// counted counts connections.
type counted struct {
	net.Listener
	count *atomic.Int64
}

// Accept implements net.Listener.
func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.count.Add(1)
	}
	return conn, err
}

func serve(t testing.TB, l net.Listener, h http.Handler) {
	t.Helper()
	server := &http.Server{Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		server.Close()
		serving.Wait()
	})
}
