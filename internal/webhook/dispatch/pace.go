package dispatch

import (
	"maps"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/ratelimit"
)

// pace bounds the attempts of this node, also without Redis, which bounds those of all nodes together.
type pace struct {
	now func() time.Time
	// off permits all attempts.
	off bool

	mu      sync.Mutex
	windows map[string]window // by id of a webhook or workspace
}

// window counts the attempts of a subject in a span of time, which starts with the first one.
type window struct {
	endsAt time.Time
	used   int64
}

func newPace(now func() time.Time, off bool) *pace {
	return &pace{now: now, off: off, windows: map[string]window{}}
}

// take consumes up to n attempts of the rates of a webhook and its workspace, and returns how many. Without any, it
// returns the time until there are more.
func (p *pace) take(t *target, n int64) (taken int64, wait time.Duration) {
	if p.off {
		return n, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	maps.DeleteFunc(p.windows, func(_ string, w window) bool { return !now.Before(w.endsAt) })
	ofWebhook, ofWorkspace := p.window(webhookRate, t.ID, now), p.window(workspaceRate, t.WorkspaceID, now)
	n = min(n, webhookRate.Attempts-ofWebhook.used, workspaceRate.Attempts-ofWorkspace.used)
	if n == 0 {
		if ofWebhook.used == webhookRate.Attempts {
			return 0, ofWebhook.endsAt.Sub(now)
		}
		return 0, ofWorkspace.endsAt.Sub(now)
	}
	ofWebhook.used += n
	ofWorkspace.used += n
	p.windows[t.ID], p.windows[t.WorkspaceID] = ofWebhook, ofWorkspace
	return n, 0
}

func (p *pace) window(rate ratelimit.Rate, subject string, now time.Time) window {
	if w, ok := p.windows[subject]; ok {
		return w
	}
	return window{endsAt: now.Add(rate.Window)}
}

// giveBack returns n attempts that were not made.
func (p *pace) giveBack(t *target, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, subject := range []string{t.ID, t.WorkspaceID} {
		if window, ok := p.windows[subject]; ok {
			window.used -= n
			p.windows[subject] = window
		}
	}
}
