package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/admission"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/feed"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// rescanInterval is the time between two searches for webhooks behind the event log. They find the work of
	// a node that has died.
	rescanInterval = 30 * time.Second
	// maintenanceInterval is the time between two searches for webhooks of ended API keys, and for emails to send.
	maintenanceInterval = 30 * time.Second
	// maxWritten is how many events of all workspaces one read returns.
	maxWritten = 5000
)

// The rates of attempts, over all nodes.
var (
	webhookRate   = ratelimit.Rate{Name: "webhook", Attempts: 20, Window: time.Second}
	workspaceRate = ratelimit.Rate{Name: "webhooks", Attempts: 100, Window: time.Second}
)

// Renderer renders the data of bodies. It reads what LINKS_READ and STATS_READ permit, and no data of users.
type Renderer interface {
	// Events returns the data of each event; nil if it has more than MaxBody bytes. With problem, the selection is not
	// valid any more, and the default data was rendered. After an error, rendering again can succeed.
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

// Config has the dependencies of a Dispatcher, all of which are required.
type Config struct {
	*Sender
	Workspaces *workspace.Store
	Links      Links
	Renderer   Renderer
	Mail       Mailer
	Limits     ratelimit.Limiter
	// NoRates permits any number of attempts a second.
	NoRates bool
	Log     *slog.Logger
}

// Dispatcher creates deliveries from the event log and sends them. Any number of nodes have one.
type Dispatcher struct {
	Config

	// newEvents, newClicks and wake have its loops look for events, clicks, and due deliveries.
	newEvents, newClicks, wake chan struct{}

	// events and clicks are the readings of both logs. Their searches know how far the node has read.
	events, clicks *readings
	eventSearch    eventSearch
	clickSearch    clickSearch

	pace *pace
	// sending are the requests in flight.
	sending admission.Shares

	// maintainedAt is when sendLoop called maintain.
	maintainedAt time.Time

	mu sync.Mutex
	// rescannedAt is when the node searched for webhooks behind the event log; zero has it search again.
	rescannedAt time.Time
	// pausedUntil has the webhooks that wait for their rate or after an error.
	pausedUntil map[string]time.Time
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
	d := &Dispatcher{
		Config: c, newEvents: make(chan struct{}, 1), newClicks: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		pausedUntil: map[string]time.Time{},
	}
	d.pace = newPace(c.Now, c.NoRates)
	d.events = newReadings(c.Log, c.Now, d.readEvents)
	d.clicks = newReadings(c.Log, c.Now, d.readClicks)
	return d
}

// Wake has the dispatcher look for due deliveries at once.
func (d *Dispatcher) Wake() { poll.Signal(d.wake) }

// Rescan has the dispatcher search for webhooks behind the event log at once.
func (d *Dispatcher) Rescan() {
	d.mu.Lock()
	d.rescannedAt = time.Time{}
	d.mu.Unlock()
	poll.Signal(d.newEvents)
}

// Follow interrupts requests if the operator has stopped all webhooks, and has the loops look for what is new.
func (d *Dispatcher) Follow(_ context.Context, n feed.News) {
	if n.IsStopped {
		d.interrupt()
	}
	if n.HasEvents {
		poll.Signal(d.newEvents)
	}
	if n.HasClicks {
		poll.Signal(d.newClicks)
	}
	if n.HasDeliveries && !n.IsStopped {
		d.Wake()
	}
}

// Run works until the context ends, and waits for requests in flight, which it interrupts. Reading and sending do not
// wait for each other.
func (d *Dispatcher) Run(ctx context.Context) error {
	var all sync.WaitGroup
	every := func(signal <-chan struct{}, interval time.Duration, message string, f func(context.Context) error) {
		all.Go(func() { poll.OnSignal(ctx, signal, interval, poll.Failures{Log: d.Log, Message: message}, f) })
	}
	every(d.newEvents, rescanInterval, "searching for events for webhooks failed", d.findEvents)
	every(d.newClicks, rescanInterval, "searching for clicks for webhooks failed", func(ctx context.Context) error {
		err := d.findClicks(ctx)
		_ = poll.Wait(ctx, clickInterval) // the span of a batch
		return err
	})
	every(d.wake, maintenanceInterval, "dispatching webhooks failed",
		func(ctx context.Context) error { return errors.Join(d.maintain(ctx), d.sendUnlessStopped(ctx)) })
	all.Go(func() { d.events.run(ctx) })
	all.Go(func() { d.clicks.run(ctx) })
	<-ctx.Done()
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

const statementTimeout = 5 * time.Second

// maintain disables the webhooks of ended API keys from time to time, and sends emails that no node has sent. Deliveries
// of ended keys are not sent anyway.
func (d *Dispatcher) maintain(ctx context.Context) error {
	if d.Now().Sub(d.maintainedAt) <= maintenanceInterval {
		return nil
	}
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), 2*statementTimeout)
	defer cancel()
	if err := errors.Join(d.disableEnded(ctx), d.announce(ctx)); err != nil {
		return err
	}
	d.maintainedAt = d.Now()
	return nil
}
