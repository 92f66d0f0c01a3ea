// Package probe requests the destinations of links and records whether they respond. It owns the
// pace and the back-off per host; the link store chooses the links that are due and stores the
// results. The job runner and the GraphQL API call it.
package probe

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// wellInterval is when a destination that is well is asked again. One that is not is asked
	// after firstBackoff, which doubles with each failure in a row up to longestBackoff.
	wellInterval   = 24 * time.Hour
	firstBackoff   = time.Hour
	longestBackoff = 7 * 24 * time.Hour
	// checkDeadline bounds a check that somebody waits for. recordDeadline bounds the writing of
	// what was answered.
	checkDeadline  = 12 * time.Second
	recordDeadline = 5 * time.Second
)

// perWorkspace limits the checks that members ask for: they make the server send requests.
var perWorkspace = ratelimit.Rate{Name: "check-workspace", Attempts: 60, Window: time.Hour}

// Checker asks destinations, and records what they answer.
type Checker struct {
	// Links keeps the links.
	Links *link.Store
	// Client is outbound's: anybody can have it ask anything.
	Client *http.Client
	// Limits slows members down.
	Limits ratelimit.Limiter
	// Log is told why destinations do not answer.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
	// Sleep waits between two requests to a host, until the context ends; nil really does.
	Sleep func(ctx context.Context, d time.Duration) error
}

// UserAgent is the name that a client for a Checker goes by. It says where to complain.
func UserAgent(publicURL string) string { return "LinkforgeBot/1.0 (+" + publicURL + ")" }

// Check asks a link's destination now, and returns the link as it is then. A destination that does
// not answer is no error. It returns NotFound, Forbidden or RateLimited.
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
	d := link.Due{LinkID: l.ID, URL: l.OriginalURL, Failures: l.CheckFailures}
	a := c.askInTime(ctx, d)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("asking a destination: %w", err) // which has not had its time
	}
	if err := c.record(ctx, d, a); err != nil {
		return nil, err
	}
	return c.Links.Get(ctx, m, linkID)
}

func (c *Checker) askInTime(ctx context.Context, d link.Due) answer {
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	return c.ask(ctx, d)
}

// record writes down what a destination has answered, and when to ask it again.
func (c *Checker) record(ctx context.Context, d link.Due, a answer) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	now := c.Now()
	if a.isWell() {
		return c.Links.Checked(ctx, d.LinkID, d.URL, a.status, 0, now, now.Add(wellInterval))
	}
	failures := d.Failures + 1
	wait := max(backoff(failures), a.rest)
	return c.Links.Checked(ctx, d.LinkID, d.URL, a.status, failures, now, now.Add(wait))
}

// lasting is a context for writing down what is known, also when whoever asked is leaving.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordDeadline)
}

// backoff is how long a destination is left alone after so many failures in a row.
func backoff(failures int) time.Duration {
	wait := firstBackoff
	for range failures - 1 {
		if wait *= 2; wait >= longestBackoff {
			return longestBackoff
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
