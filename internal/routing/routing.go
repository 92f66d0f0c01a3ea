// Package routing decides the response of a link to a request at an instant, and states the life
// cycle of links: which states exist, and the status that each one responds with (lifecycle.go). It
// is pure: it reads no clock, no database and no network. Package redirect calls it for each
// request; packages link and linklist use the life cycle.
package routing

import (
	"time"

	"github.com/linkforge/linkforge/internal/optional"
)

// Settings are what members set of a link and redirects obey. Each field is a column of links, which
// package link writes and package resolve reads. NewProgram translates them.
type Settings struct {
	// RedirectStatus is 301, 302, 307 or 308.
	RedirectStatus int
	// StartsAt and ExpiresAt bound the time during which the link redirects; nil means unbounded.
	StartsAt  *time.Time
	ExpiresAt *time.Time
	// MaxClicks is the number of redirects that the link ever answers; nil means no limit.
	MaxClicks *int64
}

// Program is the part of a link that determines its answers.
type Program struct {
	Lifecycle
	// Unknown means that no link has the address.
	Unknown bool
	// WorkspaceDeleted holds for all addresses of a deleted workspace.
	WorkspaceDeleted bool
	// Location is the destination, safe for a header.
	Location       string
	RedirectStatus int
	// MaxClicks is the number of redirects that the link ever answers; zero means no limit.
	MaxClicks int64
}

// NewProgram returns the program of a link that is neither deleted, disabled nor exhausted.
func NewProgram(s *Settings, location string) Program {
	return Program{
		Lifecycle: NewLifecycle(s.StartsAt, s.ExpiresAt), Location: location, RedirectStatus: s.RedirectStatus,
		MaxClicks: optional.Value(s.MaxClicks),
	}
}

// Request has the facts about one request. Exhausted, OverQuota and Throttled are not set at first.
// When Decide returns a redirect, the handler checks the client's rate, and takes a grant and a hit.
// If one is refused, it sets the field and calls Decide again.
type Request struct {
	Now time.Time
	// Head means that the request is not counted.
	Head                 bool
	Exhausted, OverQuota bool
	// Throttled is positive if the address network of the client has exceeded a rate: the time after
	// which it may try again.
	Throttled time.Duration
	// Failed means that a dependency was unavailable.
	Failed bool
}

// Refused reports whether a fact forbids the redirect.
func (r *Request) Refused() bool { return r.Exhausted || r.OverQuota || r.Throttled > 0 || r.Failed }

// Page names an answer without a destination.
type Page int

// The pages. Redirect is the absence of a page.
const (
	Redirect Page = iota
	NotFound
	Ended
	UsedUp
	TakenDown
	Gone
	OverQuota
	Throttled
	Unavailable
)

// statuses are the HTTP statuses of the pages.
var statuses = [...]int{
	NotFound: 404, Ended: 410, UsedUp: 410, TakenDown: 410, Gone: 410, OverQuota: 429, Throttled: 429,
	Unavailable: 503,
}

// Decision is an answer: a redirect with a location and a status, or a page.
type Decision struct {
	Page   Page
	Status int
	// Location is empty for pages, and for requests that may not learn it.
	Location string
}

func show(p Page) Decision { return Decision{Page: p, Status: statuses[p]} }

// Decide returns the response of a link to a request. No other code decides it.
func Decide(p *Program, r Request) Decision {
	switch {
	case r.Failed:
		return show(Unavailable)
	case r.Throttled > 0:
		return show(Throttled)
	case p.WorkspaceDeleted:
		return show(Gone)
	case p.Unknown:
		return show(NotFound)
	}
	switch p.Status(r.Now) {
	case Disabled:
		return show(TakenDown)
	case Expired:
		return show(Ended)
	case Deleted, Scheduled:
		return show(NotFound)
	}
	switch {
	case r.Exhausted:
		return show(UsedUp)
	case r.OverQuota:
		return show(OverQuota)
	case r.Head && p.MaxClicks != 0: // a request that consumes no grant does not learn the destination
		return Decision{Status: p.RedirectStatus}
	}
	return Decision{Status: p.RedirectStatus, Location: p.Location}
}
