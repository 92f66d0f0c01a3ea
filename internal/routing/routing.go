// Package routing decides the response of a link to a request at an instant. Routing is the value that
// members set (value.go, check.go, identity.go); Compile translates it for Decide (compile.go,
// match.go, target.go, location.go), and Explain reports each step (explain.go). The life cycle of
// links is in lifecycle.go.
//
// It is pure: it reads no clock, no database and no network. Package redirect calls it for each
// request; packages link and linklist use the life cycle, and the GraphQL resolvers explain and test.
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
	// Routing is how the link answers visitors otherwise; nil means a plain link.
	Routing *Routing
}

// Program is the part of a link that determines its answers.
type Program struct {
	Lifecycle
	// LinkID distinguishes the draws of links.
	LinkID string
	// Unknown means that no link has the address.
	Unknown bool
	// WorkspaceDeleted holds for all addresses of a deleted workspace.
	WorkspaceDeleted bool
	// Location is the destination, safe for a header.
	Location       string
	RedirectStatus int
	// MaxClicks is the number of redirects that the link ever answers; zero means no limit.
	MaxClicks int64
	// Compiled is the routing; empty for a plain link.
	Compiled Compiled
	// NotFoundURL and EndedURL are the fallback URLs of the domain or workspace; empty means none.
	NotFoundURL string
	EndedURL    string
}

// NewProgram returns the program of a link that is neither deleted, disabled nor exhausted.
func NewProgram(linkID string, s *Settings, location string) Program {
	return Program{
		Lifecycle: NewLifecycle(s.StartsAt, s.ExpiresAt), LinkID: linkID, Location: location,
		RedirectStatus: s.RedirectStatus, MaxClicks: optional.Value(s.MaxClicks), Compiled: Compile(s.Routing),
	}
}

// Request has the facts about one request. The handler sets the first ones at once, and the others when
// a decision depends on them: it obtains the fact that Decision.Needs names, and calls Decide again.
type Request struct {
	Now time.Time
	// Head means that the request is not counted.
	Head bool
	// Host and Code are as requested, for fallback URLs.
	Host, Code string
	// Path is the path after the code as requested, with its slash; Query the raw query.
	Path, Query string

	// The following are for links with routing only: what conditions see, the raw Cookie headers, the
	// key by which visitors are drawn, and a random seed.
	Visit    Visit
	Cookies  []string
	DrawKey  []byte
	DrawSeed uint64

	// When Decide returns a redirect, the handler checks the client's rate, and takes a grant and a hit.
	// If one is refused, it sets a field.
	Exhausted, OverQuota bool
	// Throttled is positive if the address network of the client has exceeded a rate: the time after
	// which it may try again.
	Throttled time.Duration
	// Failed means that a dependency was unavailable.
	Failed bool

	// VisitKind is set when a decision needs it.
	VisitKind VisitKind
	// Granted is the capped target that a grant was taken of; Unavailable are those without grants.
	Granted     string
	Unavailable []string
}

// NoKind is the kind of visits that are neither first nor returning, because nobody knows.
const NoKind VisitKind = "NONE"

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

// Need is a fact that a decision depends on.
type Need byte

// The facts.
const (
	// Nothing means that the decision is final.
	Nothing Need = iota
	// TheVisitKind is whether the visit is the first of its visitor on this day.
	TheVisitKind
	// AGrant is one of the clicks of the target.
	AGrant
)

// Decision is an answer: a redirect with a location and a status, or a page. A page with a location is
// a fallback: visitors are redirected there, and nothing is consumed.
type Decision struct {
	Page   Page
	Status int
	// Location is empty for pages, and for requests that may not learn it.
	Location string
	// Rule and Target are the ids of those that chose the location; empty means the link's own URL.
	Rule, Target string
	// Remember means that a cookie shall remember the target of the rule.
	Remember bool
	// Needs names a fact, without which the decision is not final. For AGrant, MaxClicks is the number
	// of clicks that the target ever has.
	Needs     Need
	MaxClicks int64
	// Reason is why it is this answer; empty for failures and rates.
	Reason Reason
}

// Replaces returns the status that the answer has or, being a fallback, stands for.
func (d *Decision) Replaces() int {
	if d.Page == Redirect {
		return d.Status
	}
	return statuses[d.Page]
}

func show(p Page, reason Reason) Decision {
	return Decision{Page: p, Status: statuses[p], Reason: reason}
}

// Decide returns the response of a link to a request. No other code decides it.
func Decide(p *Program, r *Request) Decision { return decide(p, r, nil) }

// decide is Decide; a trace that is not nil receives each step.
func decide(p *Program, r *Request, t *trace) Decision {
	switch {
	case r.Failed:
		return show(Unavailable, "")
	case r.Throttled > 0:
		return show(Throttled, "")
	case p.Unknown || r.Path != "" && !p.accepts(r.Path):
		return t.at(StepAddress, p.fallback(r, show(NotFound, PathRefused), "", p.NotFoundURL))
	case p.WorkspaceDeleted:
		return t.at(StepWorkspace, show(Gone, WorkspaceDeleted))
	}
	pendingURL, endedURL := p.Compiled.fallbackURLs()
	switch p.Status(r.Now) {
	case Disabled:
		return t.at(StepModeration, show(TakenDown, LinkDisabled))
	case Deleted:
		return t.at(StepDeletion, p.fallback(r, show(NotFound, LinkDeleted), "", p.NotFoundURL))
	case Scheduled:
		return t.at(StepPending, p.fallback(r, show(NotFound, Pending), pendingURL, p.NotFoundURL))
	case Expired:
		return t.at(StepEnded, p.fallback(r, show(Ended, LinkExpired), endedURL, p.EndedURL))
	}
	switch {
	case r.Exhausted:
		return t.at(StepLimits, p.fallback(r, show(UsedUp, LinkExhausted), endedURL, p.EndedURL))
	case r.OverQuota:
		return t.at(StepLimits, show(OverQuota, QuotaUsedUp))
	case p.Compiled == "":
		t.plain()
		return p.redirect(r)
	}
	return p.route(r, t)
}

// redirect returns a redirect to the link's own URL. A request that consumes no grant does not learn the
// destination of a link that has them.
func (p *Program) redirect(r *Request) Decision {
	d := Decision{Status: p.RedirectStatus, Reason: OwnURL}
	if !r.Head || p.MaxClicks == 0 {
		d.Location = p.Location
	}
	return d
}

// accepts reports whether the path after the code is forwarded.
func (p *Program) accepts(path string) bool {
	return p.Compiled != "" && p.Compiled[0]&forwardsPath != 0 && len(path) <= maxPath && PathAllowed(path)
}

// fallback returns a redirect to the first of the URLs that is not empty, else the page.
func (p *Program) fallback(r *Request, page Decision, urls ...string) Decision {
	for _, url := range urls {
		if url != "" {
			page.Status, page.Location = 302, Fill(url, r.Code, r.Host)
			return page
		}
	}
	return page
}
