// Package dispatch creates the deliveries of webhooks and sends them, by the Standard Webhooks
// specification, version 1.0.0. It reads the event log of package audit and the clicks of package
// clickstream. Any number of nodes run a Dispatcher.
package dispatch

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// interval is the longest time between two runs of a loop. Without news they find the work that
	// a dead node has left.
	interval = 30 * time.Second
	// clickInterval is the time between two reads of clicks, and so the longest span of a batch.
	clickInterval = time.Second
)

// The rates of attempts, over all nodes.
var (
	webhookRate   = ratelimit.Rate{Name: "webhook", Attempts: 20, Window: time.Second}
	workspaceRate = ratelimit.Rate{Name: "webhooks", Attempts: 100, Window: time.Second}
)

// Mailer is what this package needs of package mail.
type Mailer interface {
	// Send queues a message.
	Send(ctx context.Context, to, subject, text string)
}

// Config has the dependencies of a Dispatcher. All are required.
type Config struct {
	*webhook.Store
	// Client sends requests: see ClientConfig.
	Client     *http.Client
	Workspaces *workspace.Store
	Links      *link.Store
	Mail       Mailer
	Limits     ratelimit.Limiter
	Log        *slog.Logger
}

// Dispatcher creates deliveries and sends them.
type Dispatcher struct {
	Config

	// newEvents, newClicks, wake and disabled have its loops look for events, clicks, due
	// deliveries and disabled webhooks.
	newEvents, newClicks, wake, disabled chan struct{}
	// stopped says that the operator has stopped all webhooks.
	stopped atomic.Bool

	// sending are the requests in flight.
	sending admission.Queue
	// turns say whose turn it is to send.
	turns turns

	mu sync.Mutex
	// pausedUntil has the webhooks that wait for their rate.
	pausedUntil map[string]time.Time
	halt        context.CancelFunc
	running     context.Context
	flights     sync.WaitGroup
}

// New returns a dispatcher. Its Run must be running while webhooks are used.
func New(c Config) *Dispatcher {
	return &Dispatcher{
		Config: c, newEvents: make(chan struct{}, 1), newClicks: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		disabled:    make(chan struct{}, 1),
		pausedUntil: map[string]time.Time{},
	}
}

func (d *Dispatcher) now() time.Time { return db.Instant(d.Now()) }

// Wake has the dispatcher look for due deliveries at once.
func (d *Dispatcher) Wake() { poll.Signal(d.wake) }

// Follow interrupts requests if the operator has stopped all webhooks, and has the loops look for
// new work.
func (d *Dispatcher) Follow(_ context.Context, n feed.News) {
	if d.stopped.Store(n.IsStopped); n.IsStopped {
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

// Run works until the context ends, and waits for requests in flight, which it interrupts. Reading
// and sending do not wait for each other.
func (d *Dispatcher) Run(ctx context.Context) error {
	var all sync.WaitGroup
	every := func(signal <-chan struct{}, message string, f func(context.Context) error) {
		all.Go(func() { poll.OnSignal(ctx, signal, interval, poll.Failures{Log: d.Log, Message: message}, f) })
	}
	every(d.newEvents, "reading events for webhooks failed", func(ctx context.Context) error {
		return d.readLog(ctx, eventLog, d.nextEvents)
	})
	every(d.newClicks, "reading clicks for webhooks failed", func(ctx context.Context) error {
		err := d.readLog(ctx, clickLog, d.nextClicks)
		_ = poll.Wait(ctx, clickInterval)
		return err
	})
	every(d.wake, "dispatching webhooks failed", d.sendDue)
	every(nil, "doubting the instants of webhooks failed", d.doubt)
	every(d.disabled, "disabling webhooks failed", d.disable)
	<-ctx.Done()
	d.interrupt()
	all.Wait()
	d.flights.Wait()
	return nil
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
