// Package routing decides the response of a link to a request at an instant. Routing is the value
// that members set (value.go); Compile translates it for Decide (compile.go, match.go, network.go,
// weekly.go, target.go, stickiness.go, forwarding.go). The life cycle of links is in lifecycle.go. Package check
// validates changes of a routing, and package explain reports the steps of a decision.
//
// Decide uses no clock, database or network: the Request contains all facts. Package redirect calls
// it for each request. Packages link and linklist use the life cycle.
package routing

import (
	"time"

	"github.com/linkforge/linkforge/internal/platform/optional"
)

// Settings are what members set of a link and redirects obey. Each field is a column of links,
// which package link writes and package resolve reads. NewProgram translates them.
type Settings struct {
	// RedirectStatus is 301, 302, 307 or 308.
	RedirectStatus int `json:"redirectStatus"`
	// StartsAt and ExpiresAt bound the time during which the link redirects; nil means unbounded.
	StartsAt  *time.Time `json:"startsAt,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// MaxClicks is the number of redirects that the link ever answers; nil means no limit.
	MaxClicks *int64 `json:"maxClicks,omitempty"`
	// Routing is how the link answers visitors otherwise; nil means a plain link.
	Routing *Routing `json:"routing,omitempty"`
	// PasswordHash is the hash of the gate's password; nil if the gate has none. It must not be
	// shown or logged.
	PasswordHash *string `json:"-"`
}

// Program is the part of a link that determines its responses. Decide ignores Lifecycle.Exhausted:
// the Request states it.
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
		RedirectStatus: s.RedirectStatus, MaxClicks: optional.Value(s.MaxClicks),
		Compiled: compile(s.Routing, s.PasswordHash),
	}
}

// Request has the facts about one request. If a decision depends on another fact, Decision.Needs
// names it: the handler obtains it, sets it here, and calls Decide again.
type Request struct {
	Now time.Time
	// Head means that the request is not counted. Post means POST, and Writes this or PUT, PATCH or
	// DELETE. SentForm means that the body is the form of a page, which must not reach the
	// destination.
	Head, Post, Writes, SentForm bool
	// Host and Code are as requested, for fallback URLs.
	Host, Code string
	// Path is the path after the code as requested, with its slash; Query the raw query.
	Path, Query string

	// The following are for links with routing only: the values of conditions, the raw Cookie
	// headers, the key that draws a variant for a visitor, and a random seed.
	Visit    Visit
	Cookies  []string
	DrawKey  []byte
	DrawSeed uint64

	// Prefetch means that a browser sent the request before its user followed the link, Confirmed
	// that the visitor has pressed the button of a page of this host. Prefetch and
	// Visit.PreviewCrawler are for links with MaxClicks, and the latter for those with a card.
	Prefetch, Confirmed bool
	// Gate is whether the request has passed the gate of the link; GateRetryAfter is for
	// GateThrottled.
	Gate           GateState
	GateRetryAfter time.Duration

	// AssumeGrants lets a decision choose targets with a limit without a grant, for explanations.
	AssumeGrants bool

	// The handler sets the following once a redirect was decided and something is refused: the
	// link's grant, the monthly hit, or the client's rate. Of these, a card needs the grant and the
	// rate.
	Exhausted, OverQuota bool
	// IsAvailable means that the link has not reached its MaxClicks; NeedExhausted requests this
	// fact.
	IsAvailable bool
	// Throttled is positive if the address network of the client has exceeded a rate: the time
	// after which it may try again.
	Throttled time.Duration
	// Failed means that a dependency was unavailable.
	Failed bool

	// Granted is the capped target that a grant was taken of, ExhaustedTargets are those without grants.
	Granted          string
	ExhaustedTargets []string
}

// Refused reports whether a fact forbids the redirect.
func (r *Request) Refused() bool { return r.Exhausted || r.OverQuota || r.Throttled > 0 || r.Failed }

// Page names an answer without a destination.
type Page int

// The pages. Redirect is the absence of a page.
const (
	Redirect Page = iota
	PageNotFound
	// PagePending is never shown: the pendingUrl of a link replaces it, and reveals that the link
	// exists.
	PagePending
	PageExpired
	PageExhausted
	PageDisabled
	PageWorkspaceDeleted
	PageOverQuota
	PageThrottled
	PageUnavailable
	// PageCard is the card of the routing, for preview crawlers.
	PageCard
	// PageGate and PageConfirm have a form, and nothing of the destination. PagePrefetch is empty.
	PageGate
	PageWrongPassword
	PageManyAttempts
	PageBusy
	PageConfirm
	PagePrefetch
	PageBlocked
	// PageMethod is the answer to a method that the link does not accept.
	PageMethod
)

// pageStatuses are the HTTP statuses of the pages.
var pageStatuses = [...]int{
	PageNotFound: 404, PagePending: 404, PageExpired: 410, PageExhausted: 410, PageDisabled: 410,
	PageWorkspaceDeleted: 410,
	PageOverQuota:        429, PageThrottled: 429, PageUnavailable: 503, PageCard: 200,
	PageGate: 200, PageWrongPassword: 403, PageManyAttempts: 429, PageBusy: 503, PageConfirm: 200, PagePrefetch: 403,
	PageBlocked: 403, PageMethod: 405,
}

// IsHeld reports whether the page holds back a visitor of an active link: such a request is neither
// a click nor one without a link.
func (p Page) IsHeld() bool { return p >= PageGate }

// Need is a fact that a decision depends on.
type Need byte

// The facts.
const (
	// NeedNone means that the decision is final.
	NeedNone Need = iota
	// NeedGrant is one of the clicks of the target.
	NeedGrant
	// NeedExhausted is whether the link has reached its MaxClicks: an exhausted link shows no form.
	NeedExhausted
)

// Decision is an answer: a redirect with a location and a status, a card, or another page. A page
// with a location is a fallback: visitors are redirected there, and nothing is consumed.
type Decision struct {
	Page   Page
	Status int
	// Location is the header. It is empty for a page without a fallback URL, and for a HEAD request
	// whose redirect would consume a grant.
	Location string
	// Rule and Target are the ids of the rule and the target that chose the location; empty means
	// the link's own URL.
	Rule, Target string
	// Source is the name of the scanned QR code; empty: none that the link declares.
	Source string
	// SetsCookie means that the response sets a cookie, which remembers the target of the rule.
	SetsCookie bool
	// Needs names a missing fact, without which the decision is not final.
	Needs Need
	// Reason is why it is this answer; empty for failures and rates.
	Reason Reason
}

// Reason is why a link answers as it does. Its text is the name in the GraphQL schema.
type Reason string

// The reasons.
const (
	OwnURL           Reason = "URL"
	ByRule           Reason = "RULE"
	Pending          Reason = "PENDING"
	LinkExpired      Reason = "EXPIRED"
	LinkExhausted    Reason = "EXHAUSTED"
	QuotaUsedUp      Reason = "OVER_QUOTA"
	GateNotPassed    Reason = "GATE"
	BotHeld          Reason = "BOT"
	PathRefused      Reason = "PATH"
	LinkDeleted      Reason = "DELETED"
	LinkDisabled     Reason = "DISABLED"
	WorkspaceDeleted Reason = "WORKSPACE_DELETED"
	ShowsCard        Reason = "CARD"
)

// StatusBeforeFallback returns the status of the response, or the one that a fallback replaces.
func (d *Decision) StatusBeforeFallback() int {
	if d.Page == Redirect {
		return d.Status
	}
	return pageStatuses[d.Page]
}

func show(p Page, reason Reason) Decision {
	return Decision{Page: p, Status: pageStatuses[p], Reason: reason}
}

// Decide returns the response of a link to a request. No other code decides it.
func Decide(p *Program, r *Request) Decision { return decide(p, r, nil) }

// decide is Decide; a trace that is not nil records how the rules are tried.
func decide(p *Program, r *Request, t *Trace) Decision {
	switch {
	case r.Failed:
		return show(PageUnavailable, "")
	case r.Throttled > 0:
		return show(PageThrottled, "")
	case p.Unknown || r.Path != "" && !p.accepts(r.Path):
		return fallback(r, show(PageNotFound, PathRefused), "", p.NotFoundURL)
	case p.WorkspaceDeleted:
		return show(PageWorkspaceDeleted, WorkspaceDeleted)
	}
	pendingURL, endedURL := p.Compiled.fallbackURLs()
	switch p.Status(r.Now) {
	case Disabled:
		return show(PageDisabled, LinkDisabled)
	case Deleted:
		return fallback(r, show(PageNotFound, LinkDeleted), "", p.NotFoundURL)
	case Scheduled:
		if pendingURL != "" {
			return fallback(r, show(PagePending, Pending), pendingURL)
		}
		return fallback(r, show(PageNotFound, Pending), p.NotFoundURL)
	case Expired:
		return fallback(r, show(PageExpired, LinkExpired), endedURL, p.EndedURL)
	}
	// of an active link only: a hidden one is not disclosed
	if r.Writes && !p.KeepsMethod() && !(r.Post && p.HasForm()) {
		return show(PageMethod, "")
	}
	held := p.holdBack(r)
	switch {
	case held == PagePrefetch || held == PageBlocked:
		return show(held, BotHeld)
	case r.Exhausted:
		return fallback(r, show(PageExhausted, LinkExhausted), endedURL, p.EndedURL)
	case held == PageCard:
		return show(PageCard, ShowsCard)
	case held != Redirect:
		return p.showForm(r, held, BotHeld)
	case p.Compiled.has(hasGate) && r.Gate != GatePassed:
		return p.showForm(r, gatePages[r.Gate], GateNotPassed)
	case r.OverQuota:
		return show(PageOverQuota, QuotaUsedUp)
	case p.Compiled == "":
		return p.redirect(r)
	}
	return p.route(r, t)
}

// showForm returns a page with a form. That of a link with MaxClicks needs to know that it is not
// exhausted.
func (p *Program) showForm(r *Request, page Page, reason Reason) Decision {
	d := show(page, reason)
	if p.MaxClicks != 0 && !r.IsAvailable {
		d.Needs = NeedExhausted
	}
	return d
}

// KeepsMethod reports whether clients repeat the method and the body of a request at the
// destination, so that the link accepts every method.
func (p *Program) KeepsMethod() bool { return p.RedirectStatus == 307 || p.RedirectStatus == 308 }

// redirectStatus returns the status of a redirect: after a form, 303 makes the browser use GET.
func (p *Program) redirectStatus(r *Request) int {
	if r.SentForm || r.Post && !p.KeepsMethod() {
		return 303
	}
	return p.RedirectStatus
}

// redirect returns a redirect to the link's own URL.
func (p *Program) redirect(r *Request) Decision {
	d := Decision{Status: p.redirectStatus(r), Reason: OwnURL}
	if !p.hidesDestination(r) {
		d.Location = p.Location
	}
	return d
}

// hidesDestination reports whether a HEAD request must not learn the destination, because a GET
// request would consume a grant, or the link has a gate.
func (p *Program) hidesDestination(r *Request) bool {
	return r.Head && (p.MaxClicks != 0 || p.Compiled.has(hasCappedTarget|hasGate))
}

// accepts reports whether the path after the code is forwarded, or only a slash.
func (p *Program) accepts(path string) bool {
	return path == "/" || p.ForwardsPath() && len(path) <= MaxPath && PathAllowed(path)
}

// ForwardsPath reports whether the path after the code becomes a part of the destination's.
func (p *Program) ForwardsPath() bool { return p.Compiled.has(forwardsPath) }

// fallback returns a redirect to the first of the URLs that is not empty, else the page.
func fallback(r *Request, page Decision, urls ...string) Decision {
	for _, url := range urls {
		if url != "" {
			page.Status, page.Location = 302, Fill(url, r.Code, r.Host)
			return page
		}
	}
	return page
}
