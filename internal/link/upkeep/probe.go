package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// healthyInterval is the time between checks of a working destination. A failing one is checked
	// again after firstBackoff, which doubles with each consecutive failure up to maxBackoff.
	healthyInterval = 24 * time.Hour
	firstBackoff    = time.Hour
	maxBackoff      = healthyInterval
	// checkDeadline bounds a check on request of a member, recordDeadline the storing of a result.
	checkDeadline  = 12 * time.Second
	recordDeadline = 5 * time.Second
)

// perWorkspace limits checks on request of members, because they make the server send requests.
var perWorkspace = ratelimit.Rate{Name: "check-workspace", Attempts: 60, Window: time.Hour}

// Checker requests the destinations of links, and records whether they respond. It owns the pace
// and the back-off per host; Store chooses the URLs that are due, and stores the results.
type Checker struct {
	// Links keeps the links and their checks.
	Links *Store
	// Client is that of package outbound, because members choose the destinations.
	Client *http.Client
	// Limits slows members down.
	Limits ratelimit.Limiter
	// Log receives the reasons of failed checks.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
	// Sleep waits between two requests to a host, until the context ends; nil really does.
	Sleep func(ctx context.Context, d time.Duration) error

	// isNetworkDown is the last verdict on the server's own network.
	isNetworkDown atomic.Bool
}

// UserAgent is the name that a client for a Checker goes by. It says where to complain.
func UserAgent(publicURL string) string { return "LinkforgeBot/1.0 (+" + publicURL + ")" }

// Check requests a link's destination now, and returns the link as it is then. The URLs in its
// routing become due for the job, which spares their hosts. A destination that does not respond is
// no error. It returns NotFound, Forbidden or RateLimited.
func (c *Checker) Check(ctx context.Context, m workspace.Membership, linkID string) (*link.Link, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	l, err := c.Links.Get(ctx, m, linkID)
	if err != nil {
		return nil, err
	}
	if err := c.Limits.Charge(ctx, perWorkspace, m.ID()); err != nil {
		return nil, err
	}
	d := Due{LinkID: l.ID, URL: l.OriginalURL, Failures: l.CheckFailures}
	a := c.askInTime(ctx, d)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("checking a destination: %w", err) // which has not had its time
	}
	if err := c.record(ctx, result{d, a, c.Now()}, false); err != nil {
		return nil, err
	}
	if err := c.Links.RequestChecks(ctx, l.ID); err != nil {
		return nil, err
	}
	return c.Links.Get(ctx, m, linkID)
}

func (c *Checker) askInTime(ctx context.Context, d Due) answer {
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	return c.ask(ctx, d)
}

// result is the answer of a destination that was due.
type result struct {
	due Due
	answer
	at time.Time
}

// record stores a result and the time of the next check. isDoubtful suppresses the events.
func (c *Checker) record(ctx context.Context, r result, isDoubtful bool) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	d, wait := r.due, healthyInterval
	check := CheckResult{Status: r.status, At: r.at, IsDoubtful: isDoubtful}
	if check.State() == link.DestinationOK {
		d.Failures = 0
	} else {
		d.Failures++
		wait = max(backoff(d.Failures), r.rest)
	}
	check.Next = r.at.Add(wait)
	return c.Links.RecordCheck(ctx, d, check)
}

// lasting returns a context that stores known results even after the caller has gone.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordDeadline)
}

// backoff returns the pause after a number of consecutive failures.
func backoff(failures int) time.Duration {
	wait := firstBackoff
	for range failures - 1 {
		if wait *= 2; wait >= maxBackoff {
			return maxBackoff
		}
	}
	return wait
}

// sleep waits between two requests to a host.
func (c *Checker) sleep(ctx context.Context, d time.Duration) error {
	if c.Sleep != nil {
		return c.Sleep(ctx, d)
	}
	return poll.Wait(ctx, d)
}
