package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// pollInterval is the time between two reads of the event log and of due deliveries.
	pollInterval = 250 * time.Millisecond
	// rescanInterval is the time between two searches for webhooks behind the event log. They find the work of
	// a node that has died.
	rescanInterval = 30 * time.Second
	// endInterval is the time between two searches for webhooks of ended API keys.
	endInterval = 5 * time.Second
	// maxPositionLag is how long a position may be behind events that do not match.
	maxPositionLag = time.Minute
	// maxWritten is how many events of all workspaces one read returns.
	maxWritten = 5000
	// maxDue is how many due webhooks one read returns.
	maxDue = 200
	// maxReading is how many webhooks a node reads events for at once.
	maxReading = 4
	// maxPerHost is how many connections a node has to a host, maxInFlight how many deliveries of a webhook
	// all nodes send at once.
	maxPerHost  = 4
	maxInFlight = 8
	// maxSending bounds the requests of a node.
	maxSending = 256
)

// The rates of attempts, over all nodes.
var (
	webhookRate   = ratelimit.Rate{Name: "webhook", Attempts: 20, Window: time.Second}
	workspaceRate = ratelimit.Rate{Name: "webhooks", Attempts: 100, Window: time.Second}
)

// Renderer renders the data of bodies. It reads what LINKS_READ and STATS_READ permit, and no data of users.
type Renderer interface {
	// Events returns the data of each event. With problem, the selection is not valid any more, and the
	// default data was rendered.
	Events(ctx context.Context, m workspace.Membership, selection *string, events []*audit.Event) (
		data []json.RawMessage, problem string, err error)
	// Clicks returns the data of a batch of clicks.
	Clicks(ctx context.Context, m workspace.Membership, clicks []*click.Click) ([]json.RawMessage, error)
}

// Mailer is what this package needs of package mail.
type Mailer interface {
	// Send queues a message.
	Send(ctx context.Context, to, subject, text string)
}

// Config has the dependencies of a Dispatcher. All are required.
type Config struct {
	*Sender
	Workspaces *workspace.Store
	Links      Links
	Renderer   Renderer
	Mail       Mailer
	Limits     ratelimit.Limiter
	Log        *slog.Logger
}

// Dispatcher creates deliveries from the event log and sends them. Any number of nodes have one.
type Dispatcher struct {
	Config

	wake chan struct{}

	mu sync.Mutex
	// written is the position up to which the log of all workspaces was read; zero before the first read.
	written     audit.Position
	rescannedAt time.Time
	// endedAt is when the webhooks of ended keys were looked up.
	endedAt time.Time
	// behind are webhooks with events after their position, by id.
	behind map[string]bool
	// readAt is when the events of a webhook were read.
	readAt map[string]time.Time
	// hosts are the connections by host. pausedUntil has the webhooks that wait for their rate or after an error.
	hosts       map[string]int
	pausedUntil map[string]time.Time
	sending     int
	halt        context.CancelFunc
	running     context.Context
	flights     sync.WaitGroup
}

// Links is what this package needs of package link.
type Links interface {
	// TagsOf returns the tags of links of the workspace.
	TagsOf(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string][]string, error)
}

// NewDispatcher returns a dispatcher. Its Run must be running while webhooks are used.
func NewDispatcher(c Config) *Dispatcher {
	return &Dispatcher{
		Config: c, wake: make(chan struct{}, 1), behind: map[string]bool{}, readAt: map[string]time.Time{},
		hosts: map[string]int{}, pausedUntil: map[string]time.Time{},
	}
}

// Wake has the dispatcher look for work at once.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Rescan has the dispatcher search for webhooks behind the event log at once.
func (d *Dispatcher) Rescan() {
	d.mu.Lock()
	d.rescannedAt = time.Time{}
	d.mu.Unlock()
	d.Wake()
}

// Run works until the context ends, and waits for requests in flight, which it interrupts.
func (d *Dispatcher) Run(ctx context.Context) error {
	failures := poll.Failures{Log: d.Log, Message: "dispatching webhooks failed"}
	stops := poll.Failures{Log: d.Log, Message: "looking up whether webhooks are stopped failed"}
	var all sync.WaitGroup
	// A step can take long: this goroutine interrupts requests within pollInterval of a stop.
	all.Go(func() {
		poll.Every(ctx, pollInterval, stops, func(ctx context.Context) error { _, err := d.checkStop(ctx); return err })
	})
	all.Go(func() { d.clicksLoop(ctx) })
	timer := time.NewTicker(pollInterval)
	defer timer.Stop()
	for ctx.Err() == nil {
		failures.Report(ctx, d.step(ctx))
		select {
		case <-timer.C:
		case <-d.wake:
		case <-ctx.Done():
		}
	}
	d.interrupt()
	all.Wait()
	d.flights.Wait()
	return nil
}

// checkStop reads whether the operator has stopped all webhooks. If so, it ends all requests.
func (d *Dispatcher) checkStop(ctx context.Context) (stopped bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if stopped, err = d.Stopped(ctx); err != nil {
		return false, err
	}
	if stopped {
		d.interrupt()
	}
	return stopped, nil
}

// interrupt ends all requests of this node.
func (d *Dispatcher) interrupt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.halt != nil {
		d.halt()
		d.halt, d.running = nil, nil
	}
}

// attemptContext returns a context for requests, which ends when the operator stops all webhooks.
func (d *Dispatcher) attemptContext(ctx context.Context) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		d.running, d.halt = context.WithCancel(context.WithoutCancel(ctx))
	}
	return d.running
}

// step creates deliveries of new events and sends due deliveries. A part that fails does not keep the
// others from working: one webhook whose events cannot be rendered must not stop all. The event log is read
// also while webhooks are stopped.
func (d *Dispatcher) step(ctx context.Context) error {
	return errors.Join(d.endKeys(ctx), d.findBehind(ctx), d.readAll(ctx), d.sendUnlessStopped(ctx))
}

const statementTimeout = 5 * time.Second

// endKeys disables the webhooks of ended API keys from time to time. Their deliveries are not sent anyway.
func (d *Dispatcher) endKeys(ctx context.Context) error {
	d.mu.Lock()
	isDue := d.Now().Sub(d.endedAt) > endInterval
	d.mu.Unlock()
	if !isDue {
		return nil
	}
	if err := d.disableEnded(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endedAt = d.Now()
	return nil
}

// findBehind marks the active webhooks with new events of their types. It reads the workspaces and types of all
// events, and the webhooks of these workspaces.
func (d *Dispatcher) findBehind(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), 2*statementTimeout)
	defer cancel()
	d.mu.Lock()
	after, isDue := d.written, d.rescannedAt.IsZero() || d.Now().Sub(d.rescannedAt) > rescanInterval
	d.mu.Unlock()
	if isDue {
		return d.rescan(ctx, after)
	}
	rows, err := audit.WrittenAfter(ctx, d.DB, after, maxWritten)
	if err != nil || len(rows) == 0 {
		return err
	}
	actions := map[string]map[audit.Action]bool{}
	for _, row := range rows {
		if actions[row.WorkspaceID] == nil {
			actions[row.WorkspaceID] = map[audit.Action]bool{}
		}
		actions[row.WorkspaceID][row.Action] = true
	}
	webhooks, err := d.activeIn(ctx, slices.Collect(maps.Keys(actions)))
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range webhooks {
		seen := actions[w.WorkspaceID]
		matches := slices.ContainsFunc(w.Types, func(t audit.Action) bool { return seen[t] })
		if matches || d.Now().Sub(d.readAt[w.ID]) > maxPositionLag {
			d.behind[w.ID] = true
		}
	}
	d.written = rows[len(rows)-1].Position
	if len(rows) == maxWritten {
		d.Wake()
	}
	return nil
}

// rescan marks all webhooks with events after their position.
func (d *Dispatcher) rescan(ctx context.Context, after audit.Position) error {
	head, err := audit.Horizon(ctx, d.DB)
	if err != nil {
		return err
	}
	ids, err := d.behindLog(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, webhookID := range ids {
		d.behind[webhookID] = true
	}
	d.rescannedAt = d.Now()
	if after == (audit.Position{}) {
		d.written = head
	}
	d.forget()
	return nil
}

// forget drops old entries, so that deleted webhooks take no memory.
func (d *Dispatcher) forget() {
	now := d.Now()
	maps.DeleteFunc(d.readAt, func(_ string, at time.Time) bool { return now.Sub(at) > time.Hour })
	maps.DeleteFunc(d.pausedUntil, func(_ string, until time.Time) bool { return now.After(until) })
}

// readAll creates deliveries for the webhooks that are behind.
func (d *Dispatcher) readAll(ctx context.Context) error {
	d.mu.Lock()
	ids := slices.Collect(maps.Keys(d.behind))
	d.mu.Unlock()
	var reading errgroup.Group
	reading.SetLimit(maxReading)
	for _, webhookID := range ids {
		reading.Go(func() error { return d.readNext(ctx, webhookID) })
	}
	return reading.Wait()
}

// readNext creates deliveries of the next events of a webhook. While more may follow, or after an error, the
// webhook stays behind.
func (d *Dispatcher) readNext(ctx context.Context, webhookID string) error {
	more, err := d.read(ctx, webhookID)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readAt[webhookID] = d.Now()
	if err != nil {
		return err
	}
	if more {
		d.Wake()
	} else {
		delete(d.behind, webhookID)
	}
	return nil
}
