package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// recorder is a proxy of PostgreSQL that counts the round trips of all connections: how often Linkforge sends
// something after a response of PostgreSQL.
type recorder struct {
	address string
	trips   atomic.Int64
}

// record starts a recorder of the run's database, and returns it with the URL to use instead.
func record(r *rig.Run) (*recorder, string) {
	u := rig.Must(url.Parse(r.DatabaseURL))
	rec := &recorder{address: u.Host}
	listener := rig.Must(net.Listen("tcp", "127.0.0.1:0"))
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
	return rec, u.String()
}

// relay copies both directions of a connection until one of them ends.
func (rec *recorder) relay(client net.Conn) {
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
			rec.trips.Add(1)
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

// reportRoundTrips prints the round trips of creations by a client that sends one at a time to two workspaces in turn.
func reportRoundTrips(r *rig.Run, name, binary string) {
	const n = 200
	r.OpenServices()
	rec, databaseURL := record(r)
	p := r.Serve(name+"-recorded", binary, append(r.ServicesEnv(), "LINKFORGE_DATABASE_URL="+databaseURL)...)
	defer p.Stop()
	tenant := r.NewTenant(p.Address, "recorded", &http.Transport{})
	spaces := []string{tenant.Workspace, tenant.CreateWorkspace("recorded-too")}
	send := func(what string, describe func(i int) string) {
		for i := range 10 { // statements are prepared
			rig.Must(tenant.Post(createLink(spaces[i%2], fmt.Sprint("https://www.example.com/prepared/", what, i))))
		}
		r.Rest([]int{p.PID}, time.Minute)
		before := rec.trips.Load()
		for i := range n {
			rig.Must(tenant.Post(createLink(spaces[i%2], describe(i))))
		}
		fmt.Printf("- Round trips of createLink, %s, %s: %.2f\n", what, name, float64(rec.trips.Load()-before)/n)
	}
	path := func(i int) string { return fmt.Sprint("https://www.example.com/trip/", i) }
	send("new URL", path)
	send("known URL", path)
	rig.ReportWarnings(p)
}
