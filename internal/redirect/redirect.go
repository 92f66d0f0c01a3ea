// Package redirect is the HTTP handler of short URLs: it consumes quotas, records clicks and writes
// responses. Package routing decides the response, package resolve finds the target. The server
// calls it for every short URL.
package redirect

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/ingest"
	"github.com/linkforge/linkforge/internal/resolve"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/throttle"
	"github.com/linkforge/linkforge/internal/unmatched"
	"github.com/linkforge/linkforge/internal/visitor"
	"github.com/linkforge/linkforge/internal/web"
	"github.com/linkforge/linkforge/internal/workspace"
)

// unavailableRetry is the value of Retry-After while a dependency is unavailable.
const unavailableRetry = 5 * time.Second

// Handler answers short URLs.
type Handler struct {
	Resolver *resolve.Resolver
	// Quotas limits monthly hits and MaxClicks. HitQuota is the monthly quota of workspaces without
	// one of their own.
	Quotas   *hitquota.Quotas
	HitQuota int64
	// Clicks records redirects. Visits reads properties of the request. Keys derives the visitor keys
	// that identify visits.
	Clicks *ingest.Recorder
	Visits *visitor.Reader
	Keys   *ingest.Keys
	// LinkRate limits the visits of one link by an address network, UnknownCodes the requests of a
	// network for codes without a link. Nil limits nothing.
	LinkRate, UnknownCodes *throttle.Limiter
	// Unmatched counts requests without a destination.
	Unmatched *unmatched.Recorder
	// Log receives failures of dependencies, and panics.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	month   atomic.Pointer[hitquota.Month]
	answers [len(statuses)]atomic.Int64
}

// Serve answers a request: it resolves the address, decides, consumes quotas, records the
// click and writes the response. Every GET that receives a destination is one click.
// HEAD consumes nothing, but counts for the rates of its network.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, at resolve.Address) {
	arrived := h.Now()
	defer web.Recovered(h.Log, w, r)
	from := web.Peer(r)
	request := routing.Request{Now: arrived, Head: r.Method != http.MethodGet}
	target, answer, err := h.find(r, at, from, &request)
	if answer.Page == routing.Redirect {
		if err = h.consume(r, &target, answer, &request, from); request.Refused() {
			answer = routing.Decide(&target.Program, &request)
		}
	}
	if err != nil && r.Context().Err() == nil { // a disconnected client is no failure
		web.NameRequest(w, r)
		h.Log.ErrorContext(r.Context(), "redirect failed", "error", err, "request_id", r.Header.Get("X-Request-Id"))
	}
	h.write(w, r, answer, &request)
	if answer.Page != routing.Redirect && answer.Page != routing.Throttled {
		h.recordUnmatched(r, target.WorkspaceID, at.Code, answer.Status, arrived)
	}
}

// find resolves the address, and decides without quotas. It counts requests that need the database
// or lead to no link for the address network. A network above the rate of UnknownCodes causes no
// query and does not learn whether a code is unknown; links in memory still redirect it.
func (h *Handler) find(
	r *http.Request, at resolve.Address, from netip.Addr, request *routing.Request,
) (target resolve.Target, answer routing.Decision, err error) {
	isCounted := false
	count := func() bool { // before the query, so that concurrent guesses cannot exceed the rate
		if !isCounted {
			request.Throttled = h.UnknownCodes.Take("", from, request.Now)
			isCounted = request.Throttled == 0
		}
		return isCounted
	}
	target, err = h.Resolver.Resolve(r.Context(), at, request.Now, count)
	if errors.Is(err, resolve.ErrNotAdmitted) {
		return target, routing.Decide(&target.Program, request), nil
	}
	request.Failed = err != nil
	answer = routing.Decide(&target.Program, request)
	isUnknown := err == nil && (target.Unknown || answer.Page == routing.NotFound)
	switch {
	case isUnknown && !count():
		answer = routing.Decide(&target.Program, request)
	case isCounted && !isUnknown && r.Context().Err() == nil: // the query of a disconnected client goes on
		h.UnknownCodes.Release("", from, request.Now)
	}
	return target, answer, err
}

// recordUnmatched counts a request without a destination, if the address belongs to a workspace.
func (h *Handler) recordUnmatched(r *http.Request, workspaceID, code string, status int, arrived time.Time) {
	if workspaceID != "" && workspaceID != workspace.PublicID && r.Method == http.MethodGet &&
		status < http.StatusInternalServerError {
		h.Unmatched.Add(workspaceID, strings.Clone(code), status, arrived)
	}
}

// consume consumes the quotas of a redirect and records the click, or sets in the request why the
// redirect is refused. It checks the rate of the network first: a throttled visitor consumes
// nothing.
func (h *Handler) consume(
	r *http.Request, t *resolve.Target, redirect routing.Decision, request *routing.Request, from netip.Addr,
) (err error) {
	request.Throttled = h.LinkRate.Take(t.ID, from, request.Now)
	switch {
	case request.Throttled > 0:
	case !request.Head:
		err = h.follow(r, t, redirect, request, from)
	case t.MaxClicks != 0:
		request.Exhausted, err = h.Quotas.Exhausted(r.Context(), t.ID)
	}
	request.Failed = err != nil
	return err
}

// follow consumes one of the link's own clicks and one monthly hit, and records the click. The
// link's own clicks come first: a link that is exhausted consumes no monthly hit. A unit that was
// consumed for a visitor who does not receive the destination is released.
func (h *Handler) follow(
	r *http.Request, t *resolve.Target, redirect routing.Decision, request *routing.Request, from netip.Addr,
) error {
	ctx, arrived := r.Context(), request.Now
	month, limit := h.monthOf(arrived), h.HitQuota
	if t.HitQuota >= 0 {
		limit = t.HitQuota
	}
	grant, ok, err := h.takeGrant(ctx, t, arrived)
	if err != nil || !ok {
		request.Exhausted = !ok
		return err
	}
	defer grant.Release()
	hit, ok, err := h.Quotas.Hits.Take(ctx, t.ID, *month, limit, arrived)
	if err != nil || !ok {
		request.OverQuota = !ok
		return err
	}
	defer hit.Release()
	c := click.Click{
		WorkspaceID: t.WorkspaceID, LinkID: t.ID, ClickedAt: arrived, Status: redirect.Status,
		HitLease: hit.LeaseNumber(), ClickLease: grant.LeaseNumber(),
	}
	h.visit(r, t, from, &c)
	c.LatencyMs = float64(h.Now().Sub(arrived)) / float64(time.Millisecond)
	h.Clicks.Record(&c)
	grant.Commit()
	hit.Commit()
	return nil
}

// takeGrant consumes one of the remaining clicks of a link with MaxClicks. Other links need no
// grant.
func (h *Handler) takeGrant(
	ctx context.Context, t *resolve.Target, arrived time.Time,
) (grant hitquota.Hit, ok bool, err error) {
	if t.MaxClicks == 0 {
		return hitquota.Hit{}, true, nil
	}
	return h.Quotas.Grants.Take(ctx, t.ID, hitquota.Month{}, t.MaxClicks, arrived)
}

// visit sets the properties of the visit. A visitor who opted out by a privacy header gets no
// visitor key.
func (h *Handler) visit(r *http.Request, t *resolve.Target, from netip.Addr, c *click.Click) {
	c.Visit = h.Visits.Read(r, from, t.Location)
	if key := h.Keys.Of(c.ClickedAt); key != nil && !c.Bot && !visitor.IsPrivate(r.Header) {
		c.Visitor = key.Visitor(t.ID, from.String(), r.UserAgent())
	}
}

// monthOf returns the month of an instant. It caches the last month.
func (h *Handler) monthOf(t time.Time) *hitquota.Month {
	if m := h.month.Load(); m != nil && !t.Before(m.Start) && t.Before(m.End) {
		return m
	}
	m := hitquota.MonthOf(t)
	h.month.Store(&m)
	return &m
}

// page is the text of a response without a destination.
type page struct{ title, text string }

var pages = [...]page{
	routing.NotFound: {"Link not found",
		"Check the address for typos, or contact the sender. The link may have been deleted, or may not be active yet."},
	routing.Ended: {"This link has expired",
		"Contact the sender for a new link."},
	routing.UsedUp: {"This link reached its click limit",
		"Contact the sender for a new link."},
	routing.TakenDown: {"This link has been disabled",
		"The operator of this service has disabled it. You do not need to do anything."},
	routing.Gone: {"This link is no longer available",
		"The owner has closed the workspace of this link."},
	routing.OverQuota: {"This link reached its monthly click limit",
		"It works again from the first day of next month."},
	routing.Throttled: {"Too many requests",
		"Your network has sent too many requests. Wait a minute, then try again."},
	routing.Unavailable: {"Try again in a moment",
		"This service is temporarily unavailable."},
}

// retryAfter returns the value of Retry-After; zero means none.
func (h *Handler) retryAfter(p routing.Page, request *routing.Request) time.Duration {
	switch p {
	case routing.OverQuota:
		return h.monthOf(request.Now).End.Sub(request.Now)
	case routing.Throttled:
		return request.Throttled
	case routing.Unavailable:
		return unavailableRetry
	}
	return 0
}

// Headers of redirects. They forbid caching for every status, because the next visit is a click
// too. All responses share the slices, which are read-only.
var (
	cacheControl   = []string{"private, no-store"}
	referrerPolicy = []string{"strict-origin-when-cross-origin"}
	robotsTag      = []string{"noindex"}
	noContent      = []string{"0"}
)

func (h *Handler) write(w http.ResponseWriter, r *http.Request, a routing.Decision, request *routing.Request) {
	h.count(a.Status)
	head := w.Header()
	if a.Page != routing.Redirect {
		web.NameRequest(w, r)
		if wait := h.retryAfter(a.Page, request); wait > 0 {
			head.Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		}
		web.Page(w, r, a.Status, pages[a.Page].title, pages[a.Page].text)
		return
	}
	if a.Location != "" {
		head["Location"] = []string{a.Location}
	}
	head["Cache-Control"], head["Referrer-Policy"] = cacheControl, referrerPolicy
	head["X-Robots-Tag"], head["Content-Length"] = robotsTag, noContent
	w.WriteHeader(a.Status)
}

// statuses are all that a short URL answers.
var statuses = [...]int{301, 302, 307, 308, 404, 410, 429, 503}

func (h *Handler) count(status int) {
	for i, s := range statuses {
		if s == status {
			h.answers[i].Add(1)
			return
		}
	}
}

// Answers is how often each status was answered since the process began.
func (h *Handler) Answers() map[int]int64 {
	counts := make(map[int]int64, len(statuses))
	for i, status := range statuses {
		counts[status] = h.answers[i].Load()
	}
	return counts
}
