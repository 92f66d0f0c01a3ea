package rig

import (
	"io"
	"net"
	"net/url"
	"sync/atomic"
)

// Recorder is a proxy of PostgreSQL or Redis that counts the round trips of all connections: how
// often Linkforge sends something after a response of the server.
type Recorder struct {
	// URL is that of the server through the proxy.
	URL   string
	Trips atomic.Int64

	address string
}

// Record starts a recorder in front of the server of a URL, until the end of the run.
func (r *Run) Record(serverURL string) *Recorder {
	u := Must(url.Parse(serverURL))
	rec := &Recorder{address: u.Host}
	listener := Must(net.Listen("tcp", "127.0.0.1:0"))
	r.Cleanup(listener.Close)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go rec.relay(client)
		}
	}()
	u.Host = listener.Addr().String()
	rec.URL = u.String()
	return rec
}

// relay copies both directions of a connection until one of them ends.
func (rec *Recorder) relay(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", rec.address)
	if err != nil {
		return
	}
	defer server.Close()
	var isWaiting atomic.Bool // for an answer
	go func() {
		_, _ = io.Copy(&observed{client, func() { isWaiting.Store(false) }}, server)
		client.Close()
	}()
	_, _ = io.Copy(&observed{server, func() {
		if isWaiting.CompareAndSwap(false, true) {
			rec.Trips.Add(1)
		}
	}}, client)
}

// observed is a writer that reports each write before it.
type observed struct {
	io.Writer
	report func()
}

// Write implements io.Writer.
func (o *observed) Write(p []byte) (int, error) {
	o.report()
	return o.Writer.Write(p)
}
