package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// hooksPerWorkspace webhooks are in a workspace; one of them hangs.
	hooksPerWorkspace = 10
	// workspacesPerUser is how many of the workspaces a user has.
	workspacesPerUser = 10
	// hang is longer than a request of a webhook may take.
	hang = 20 * time.Second
	// wanted is how late a delivery may be.
	wanted = 5 * time.Second
)

// serveReceiver is the helper that accepts requests of webhooks, and hangs at /hang. Its /late
// responds with the times from events to their arrival in milliseconds.
func serveReceiver(ctx context.Context, args []string) {
	var mu sync.Mutex
	late := []int64{}
	_, port, _ := strings.Cut(args[0], ":")
	rig.ServeHTTP(ctx, ":"+port, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		arrived := time.Now()
		var body struct{ Timestamp time.Time }
		text, _ := io.ReadAll(q.Body)
		_ = json.Unmarshal(text, &body)
		mu.Lock()
		defer mu.Unlock()
		switch q.URL.Path {
		case "/hang":
			mu.Unlock()
			select {
			case <-time.After(hang):
			case <-q.Context().Done():
			}
			mu.Lock()
		case "/late":
			_ = json.NewEncoder(w).Encode(late)
			late = late[:0]
			return
		default:
			late = append(late, arrived.Sub(body.Timestamp).Milliseconds())
		}
		w.WriteHeader(http.StatusNoContent)
	}))
}

// reportDeliveries creates links for webhooks of many users and hosts, by calls that create an
// event for each webhook of a workspace. It reports how late deliveries arrive at the webhooks that
// respond.
func (n *notifier) reportDeliveries() {
	tenants := make([]*rig.Tenant, *webhooks/hooksPerWorkspace)
	_, port, _ := strings.Cut(n.receiver.Address, ":")
	for i := range tenants {
		if i%workspacesPerUser == 0 {
			tenants[i] = n.tenant.As(fmt.Sprintf("user-%d@example.com", i), fmt.Sprint("late-", i))
		} else {
			tenants[i] = tenants[i-1].In(tenants[i-1].CreateWorkspace(fmt.Sprint("late-", i)))
		}
	}
	rig.InBatches(*webhooks, hooksPerWorkspace, 4, func(from, to int) {
		for i := from; i < to; i++ {
			path := ""
			if i%hooksPerWorkspace == 0 {
				path = "hang"
			}
			n.create(tenants[i/hooksPerWorkspace], map[string]any{
				"types": []string{"LINK_CREATED"}, "tags": []string{fmt.Sprint("tag-", i%hooksPerWorkspace)},
				"url": fmt.Sprintf("http://127.%d.%d.%d:%s/%s", 1+i/65536, i/256%256, i%256, port, path),
			})
		}
	})
	n.run.Rest(n.PIDs(), time.Minute)
	rest := rig.RSS(n.process.PID)
	before, began := rig.Used(n.Target), time.Now()
	var next, sent atomic.Int64
	callers := slices.Repeat([]func(){func() {
		for {
			i := int(next.Add(hooksPerWorkspace)) - hooksPerWorkspace
			at := began.Add(time.Duration(i) * time.Second / time.Duration(*rate))
			if at.Sub(began) > *lasting {
				return
			}
			n.run.Pause(time.Until(at))
			var links []any
			for tag := range hooksPerWorkspace {
				links = append(links, map[string]any{
					"url":  fmt.Sprintf("https://www.example.com/late/%d", i+tag),
					"tags": []string{fmt.Sprint("tag-", tag)},
				})
			}
			// workspaces in turn, far from each other
			rig.Must(tenants[i/hooksPerWorkspace*79%len(tenants)].CreateLinks(links))
			sent.Add(hooksPerWorkspace - 1)
		}
	}}, 16)
	rig.Parallel(callers...)
	took := time.Since(began)
	used := rig.Used(n.Target).Since(before)
	memory := rig.RSS(n.process.PID)
	n.run.Pause(2 * wanted)
	response := rig.Must(http.Get("http://" + n.receiver.Address + "/late"))
	var late []int64
	rig.Check(json.NewDecoder(response.Body).Decode(&late))
	response.Body.Close()
	slices.Sort(late)
	if len(late) == 0 {
		rig.Check(fmt.Errorf("nothing was delivered of %d", sent.Load()))
	}
	overdue := 0
	for _, ms := range late {
		if ms > wanted.Milliseconds() {
			overdue++
		}
	}
	at := func(share float64) int64 { return late[min(int(share*float64(len(late))), len(late)-1)] }
	fmt.Printf("\n%d webhooks in %d workspaces, one in %d hangs; %d events in %s (%.0f a second)\n", *webhooks,
		len(tenants), hooksPerWorkspace,
		next.Load(), took.Round(time.Second), float64(next.Load())/took.Seconds())
	fmt.Printf("- %d of %d deliveries to the others arrived within %s; %d later than %s\n", len(late), sent.Load(),
		2*wanted, overdue, wanted)
	fmt.Printf("- ms from an event to its arrival: median %d, p95 %d, p99 %d, at most %d\n", at(0.5), at(0.95),
		at(0.99), late[len(late)-1])
	fmt.Printf("- memory %d MiB, at rest %d; CPU %.2f of a core, of which PostgreSQL and Redis %.2f\n", memory>>20,
		rest>>20,
		(used.Own+used.Beside).Seconds()/used.At.Seconds(), used.Beside.Seconds()/used.At.Seconds())
}
