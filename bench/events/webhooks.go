package main

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// notifier is a server of the present version with two webhooks: of events about links, and of
// clicks. They are paused.
type notifier struct {
	*version
	run                *rig.Run
	receiver           *rig.Process
	ofEvents, ofClicks string
}

func startNotifier(r *rig.Run) *notifier {
	n := &notifier{run: r, receiver: r.Helper("receiver", nil, "receive")}
	n.version = start(r, "webhooks", r.Server, "LINKFORGE_ENV=development", "LINKFORGE_OUTBOUND_ALLOW=127.0.0.0/8",
		"LINKFORGE_ENCRYPTION_KEY="+strings.Repeat("5a", 32), "LINKFORGE_MAX_WORKSPACES=100000",
		// With the rates of webhooks, and without bounds of requests.
		"LINKFORGE_RATE_LIMITS=on", "LINKFORGE_REQUEST_RATE=1000000000", "LINKFORGE_COST_RATE=1000000000000",
		"LINKFORGE_LINK_RATE=0")
	n.ofEvents = n.create(n.tenant,
		map[string]any{"types": []string{"LINK_CREATED", "LINK_UPDATED", "LINK_DELETED", "LINK_EXPIRED"}})
	n.ofClicks = n.create(n.tenant, map[string]any{"types": []string{"LINK_CLICKED"}})
	n.pause()
	return n
}

// create returns the id of a new webhook; without a URL it is that of the receiver.
func (n *notifier) create(t *rig.Tenant, settings map[string]any) string {
	in := map[string]any{"workspaceId": t.Workspace, "name": "Receiver", "url": "http://" + n.receiver.Address}
	maps.Copy(in, settings)
	var data struct {
		CreateWebhook struct{ Webhook struct{ ID string } }
	}
	rig.Check(t.Do(&data, `mutation ($in: CreateWebhookInput!) { createWebhook(input: $in) { webhook { id }
		errors { code message } } }`, map[string]any{"in": in}))
	return data.CreateWebhook.Webhook.ID
}

func (n *notifier) setStatus(webhookID, status string) {
	rig.Check(n.tenant.Do(&struct{}{}, `mutation ($in: UpdateWebhookInput!) { updateWebhook(input: $in) {
		webhook { id } errors { code message } } }`, map[string]any{"in": map[string]any{
		"id": webhookID, "status": status, "skipBacklog": status == "ACTIVE",
	}}))
}

// pause pauses both webhooks, and waits until the server is at rest.
func (n *notifier) pause() {
	n.setStatus(n.ofEvents, "PAUSED")
	n.setStatus(n.ofClicks, "PAUSED")
	n.run.Rest(n.PIDs(), time.Minute)
}

// pairs returns loads with a webhook and the same loads without one. A webhook sends at most 20
// requests a second, so the deliveries that wait after a burst are not awaited.
func (n *notifier) pairs() (pairs []*rig.Pair) {
	for _, l := range loads() {
		webhookID := map[string]string{"createLinks of 100": n.ofEvents, "redirect": n.ofClicks}[l.name]
		if webhookID == "" {
			continue
		}
		pairs = append(pairs, &rig.Pair{
			Name:     l.name + " with a webhook, beside without",
			Baseline: func() rig.Figures { return n.measureBurst(l) },
			Target: func() rig.Figures {
				n.setStatus(webhookID, "ACTIVE")
				return n.measureBurst(l)
			},
		})
	}
	return pairs
}

// measureBurst measures a load without its deferred work, and pauses the webhooks.
func (n *notifier) measureBurst(l load) rig.Figures {
	defer n.pause()
	requests := n.load(l)
	requests.Burst = warmUp
	requests.First = n.run.Drive(n.Name, requests).Next
	requests.Burst = *burst
	before := rig.Used(n.Target)
	outcome := n.run.Drive(n.Name, requests)
	used := rig.Used(n.Target).Since(before)
	n.next = max(n.next, outcome.Next)
	return rig.FiguresOf(outcome, used)
}

const (
	// webhooksPerWorkspace is the maximum of a workspace.
	webhooksPerWorkspace = 20
	idleTime             = 30 * time.Second
	// creationInterval is the time between two links, in workspaces in turn.
	creationInterval = 100 * time.Millisecond
)

// reportIdle measures a server at rest, and with a few creations, before and after it has webhooks
// that receive none of the events.
func (n *notifier) reportIdle() {
	tenants := make([]*rig.Tenant, (*webhooks+webhooksPerWorkspace-1)/webhooksPerWorkspace)
	for i := range tenants {
		tenants[i] = n.tenant.In(n.tenant.CreateWorkspace(fmt.Sprint("idle-", i)))
	}
	n.pause()
	without := []float64{n.share(tenants, false), n.share(tenants, true)}
	rig.InBatches(*webhooks, webhooksPerWorkspace, 4, func(from, to int) {
		for range to - from {
			n.create(tenants[from/webhooksPerWorkspace], map[string]any{"types": []string{"DOMAIN_LOST"}})
		}
	})
	n.run.Rest(n.PIDs(), time.Minute)
	with := []float64{n.share(tenants, false), n.share(tenants, true)}
	rows := [][]string{{fmt.Sprintf("%d webhooks that match no event", *webhooks), "% of a core with", "without",
		"difference"}}
	for i, name := range []string{"at rest", fmt.Sprintf("a link every %s", creationInterval)} {
		rows = append(rows, []string{name, fmt.Sprintf("%.2f", with[i]), fmt.Sprintf("%.2f", without[i]),
			fmt.Sprintf("%.2f", with[i]-without[i])})
	}
	rig.Table(rows...)
}

// share returns how much of a core the server and its services use, in percent.
func (n *notifier) share(tenants []*rig.Tenant, creates bool) float64 {
	before, began := rig.Used(n.Target), time.Now()
	for i := 0; time.Since(began) < idleTime; i++ {
		if creates {
			n.next++
			rig.Must(tenants[i%len(tenants)].CreateLink(fmt.Sprint("https://www.example.com/idle/", n.next)))
		}
		n.run.Pause(creationInterval)
	}
	used := rig.Used(n.Target).Since(before)
	return 100 * (used.Own + used.Beside).Seconds() / used.At.Seconds()
}
