package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// gatedLinks is the number of links with a password. Together they allow more guesses than a
	// run makes.
	gatedLinks = 40
	// guessRate is the number of wrong passwords a second.
	guessRate = 100
	// passwordsPerCall is the most that a call may set.
	passwordsPerCall = 20
)

// gates is a server with rate limits, plain links, and links with a password.
type gates struct {
	version
	gated []string // paths
	// statuses counts the responses to guesses.
	statuses [600]atomic.Int64
}

// startGates starts a server, and restarts it with rate limits once its links are created.
func startGates(r *rig.Run) *gates {
	first := r.Serve("gates", r.Server)
	tenant := r.NewTenant(first.Address, "bench", &http.Transport{})
	g := &gates{}
	r.Timed("creating the links of gates", func() {
		g.plain = paths(tenant.Fill(routedLinks, routedLinks, 1, func(i int) map[string]any {
			return map[string]any{"url": rig.URLOf(i), "strategy": "RANDOM"}
		}))
		g.gated = paths(tenant.Fill(gatedLinks, passwordsPerCall, 1, func(i int) map[string]any {
			gate := map[string]any{"password": fmt.Sprintf("a right password %d", i)}
			return map[string]any{"url": rig.URLOf(i) + "/gated", "strategy": "RANDOM",
				"routing": map[string]any{"gate": gate}}
		}))
	})
	first.Stop()
	g.process = r.Serve("gates", r.Server, "LINKFORGE_RATE_LIMITS=on", "LINKFORGE_LINK_RATE=0",
		"LINKFORGE_TRUSTED_PROXIES=127.0.0.0/8")
	g.Target = rig.Target{Name: "gates", Own: []int{g.process.PID}}
	return g
}

// pairs are visits of plain links during wrong passwords, and undisturbed ones.
func (g *gates) pairs(r *rig.Run) []*rig.Pair {
	undisturbed := g.visit(r, g.plain)
	return []*rig.Pair{
		{
			Name: "plain link during 100 wrong passwords a second for a link", Baseline: undisturbed,
			Target: g.visitDuring(r, 1, false),
		},
		{
			Name: "the same for 40 links, each from another network", Baseline: undisturbed,
			Target: g.visitDuring(r, gatedLinks, true),
		},
	}
}

// visitDuring measures visits of plain links while wrong passwords are sent to a number of gated
// links, from one network, or each from another one.
func (g *gates) visitDuring(r *rig.Run, links int, ownNetworks bool) func() rig.Figures {
	const warmUp = time.Second
	return func() rig.Figures {
		ctx, cancel := context.WithTimeout(r, warmUp+*burst)
		defer cancel()
		var guessing sync.WaitGroup
		guessing.Go(func() { g.guess(ctx, links, ownNetworks) })
		figures, _, _ := r.Measure(g.Target, warmUp, g.load(g.plain))
		guessing.Wait()
		return figures
	}
}

// guess sends wrong passwords until the context ends, and waits for the responses.
func (g *gates) guess(ctx context.Context, links int, ownNetworks bool) {
	tick := time.NewTicker(time.Second / guessRate)
	defer tick.Stop()
	var sent sync.WaitGroup
	defer sent.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		from := "198.51.100.1"
		if ownNetworks {
			from = fmt.Sprintf("10.%d.%d.1", i>>8&255, i&255)
		}
		sent.Go(func() { g.statuses[g.send(g.gated[i%links], "a wrong password", from)].Add(1) })
	}
}

// send sends a password by the form, and returns the status of the response.
func (g *gates) send(path, password, from string) int {
	form := url.Values{"password": {password}}.Encode()
	request := rig.Must(http.NewRequest(http.MethodPost, "http://"+g.process.Address+path, strings.NewReader(form)))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("X-Forwarded-For", from)
	response := rig.Must(http.DefaultTransport.RoundTrip(request))
	response.Body.Close()
	return response.StatusCode
}

// report prints how the guesses were answered, and how long right and wrong passwords take.
func (g *gates) report() {
	fmt.Print("- Responses to wrong passwords:")
	for status := range g.statuses {
		if n := g.statuses[status].Load(); n > 0 {
			fmt.Printf(" %d × status %d", n, status)
		}
	}
	fmt.Println(".")
	var right, wrong []float64 // ms
	for i := range 20 {
		takes := func(password string) float64 {
			began := time.Now()
			g.send(g.gated[i], password, fmt.Sprintf("192.0.2.%d", i))
			return rig.Millis(time.Since(began))
		}
		right = append(right, takes(fmt.Sprintf("a right password %d", i)))
		wrong = append(wrong, takes("a wrong password"))
	}
	fmt.Printf("- A right password takes %s ms, a wrong one %s ms.\n",
		rig.Spread(right, "%.1f", rig.Same), rig.Spread(wrong, "%.1f", rig.Same))
}
