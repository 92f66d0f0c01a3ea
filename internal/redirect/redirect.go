// Package redirect answers short URLs.
package redirect

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/visitor"
	"github.com/linkforge/linkforge/internal/web"
	"github.com/linkforge/linkforge/internal/workspace"
)

// unavailableRetry is what Retry-After says when a dependency is away.
const unavailableRetry = 5 * time.Second

// Handler answers short URLs.
type Handler struct {
	// Links resolves addresses.
	Links *link.Store
	// Quotas limits monthly hits and MaxClicks. HitQuota is the monthly quota of workspaces without one of their own.
	Quotas   *hitquota.Quotas
	HitQuota int64
	// Clicks records what was answered, Visits reads who asked, and Keys tells visitors apart.
	Clicks *click.Recorder
	Visits *visitor.Reader
	Keys   *click.Keys
	// Orphans counts what led nowhere.
	Orphans *click.Orphans
	// Log is told what broke.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	month   atomic.Pointer[hitquota.Month]
	answers [len(statuses)]atomic.Int64
}

// AddressOf is the address that a path asks for, and false when the path can be none: it has one segment or two, the
// second of which is the code.
func AddressOf(path string) (link.Address, bool) {
	if len(path) < 2 || path[0] != '/' {
		return link.Address{}, false
	}
	code := path[1:]
	if i := strings.IndexByte(code, '/'); i >= 0 {
		at := link.Address{Slug: code[:i], Code: code[i+1:]}
		return at, isSegment(at.Slug) && isSegment(at.Code) && strings.IndexByte(at.Code, '/') < 0
	}
	return link.Address{Code: code}, isSegment(code)
}

// isSegment reports whether a segment of a path stands for itself.
func isSegment(s string) bool { return s != "" && s != "." && s != ".." }

// Serve tells the whole story of a redirect: resolve, decide, take quota, record the click, answer. Every GET that is
// answered with a redirect takes quota and is one click. HEAD only looks.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, at link.Address) {
	arrived := h.Now()
	defer web.Recovered(h.Log, w, r)
	target, err := h.Links.Resolve(r.Context(), at, arrived)
	if err != nil {
		h.fail(w, r, err)
		h.orphan(r, target.WorkspaceID, at.Code, answerOf(err).status, arrived)
		return
	}
	answer := decide(&target, arrived)
	if answer.isRedirect() {
		if r.Method == http.MethodGet {
			answer, err = h.follow(r, &target, answer, arrived)
		} else {
			answer, err = h.look(r.Context(), &target, answer)
		}
		if err != nil {
			h.fail(w, r, err)
			return
		}
	}
	h.write(w, r, answer)
	if !answer.isRedirect() {
		h.orphan(r, target.WorkspaceID, at.Code, answer.status, arrived)
	}
}

// orphan counts a visit that led nowhere, where it is known whose address it was.
func (h *Handler) orphan(r *http.Request, workspaceID, code string, status int, arrived time.Time) {
	if workspaceID != "" && workspaceID != workspace.PublicID && r.Method == http.MethodGet && status < http.StatusInternalServerError {
		h.Orphans.Add(workspaceID, strings.Clone(code), status, arrived)
	}
}

// look answers without counting. Where a link leads that only so many may follow, whoever asks by HEAD does not learn.
func (h *Handler) look(ctx context.Context, t *link.Target, redirect answer) (answer, error) {
	if t.MaxClicks == 0 {
		return redirect, nil
	}
	redirect.location = ""
	if none, err := h.Quotas.Exhausted(ctx, t.ID); none || err != nil {
		return exhausted, err
	}
	return redirect, nil
}

// follow consumes what a redirect costs, one of the link's own clicks and one monthly hit, and records the click. The
// link's own clicks come first: a link that is exhausted consumes no monthly hit. Whatever was taken for a visitor who does
// not receive the destination is released.
func (h *Handler) follow(r *http.Request, t *link.Target, redirect answer, arrived time.Time) (answer, error) {
	ctx := r.Context()
	month, limit := h.monthOf(arrived), h.HitQuota
	if t.HitQuota >= 0 {
		limit = t.HitQuota
	}
	grant, ok, err := h.takeGrant(ctx, t, arrived)
	if err != nil || !ok {
		return exhausted, err
	}
	defer grant.Release()
	hit, ok, err := h.Quotas.Hits.Take(ctx, t.ID, *month, limit, arrived)
	if err != nil || !ok {
		return overQuota(month.End.Sub(arrived)), err
	}
	defer hit.Release()
	c := click.Click{
		WorkspaceID: t.WorkspaceID, LinkID: t.ID, ClickedAt: arrived, Status: redirect.status,
		HitLease: hit.LeaseNumber(), ClickLease: grant.LeaseNumber(),
	}
	h.visit(r, t, &c)
	c.LatencyMs = float64(h.Now().Sub(arrived)) / float64(time.Millisecond)
	h.Clicks.Record(&c)
	grant.Commit()
	hit.Commit()
	return redirect, nil
}

// takeGrant takes one of the clicks that a link with MaxClicks may still answer. Other links need none.
func (h *Handler) takeGrant(ctx context.Context, t *link.Target, arrived time.Time) (grant hitquota.Hit, ok bool, err error) {
	if t.MaxClicks == 0 {
		return hitquota.Hit{}, true, nil
	}
	return h.Quotas.Grants.Take(ctx, t.ID, hitquota.Month{}, t.MaxClicks, arrived)
}

// visit reads what is kept of who asked. Whoever asked not to be told from others is not.
func (h *Handler) visit(r *http.Request, t *link.Target, c *click.Click) {
	address := web.Peer(r)
	c.Visit = h.Visits.Read(r, address, t.Location)
	if key := h.Keys.Of(c.ClickedAt); key != nil && !c.Bot && !visitor.IsPrivate(r.Header) {
		c.Visitor = key.Visitor(t.ID, address.String(), r.UserAgent())
	}
}

// monthOf is the month that an instant lies in, which is nearly always that of the last redirect.
func (h *Handler) monthOf(t time.Time) *hitquota.Month {
	if m := h.month.Load(); m != nil && !t.Before(m.Start) && t.Before(m.End) {
		return m
	}
	m := hitquota.MonthOf(t)
	h.month.Store(&m)
	return &m
}

// fail answers when there is no link, or when something broke: then trying again helps.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	answer := answerOf(err)
	if answer.status == http.StatusServiceUnavailable && r.Context().Err() == nil { // a visitor who has gone is nobody's failure
		web.NameRequest(w, r)
		h.Log.ErrorContext(r.Context(), "redirect failed", "error", err, "request_id", r.Header.Get("X-Request-Id"))
	}
	h.write(w, r, answer)
}

// answerOf is what there is to say of an error.
func answerOf(err error) answer {
	switch {
	case errs.Is(err, errs.NotFound):
		return unknown
	case errs.Is(err, errs.Expired):
		return gone
	}
	return unavailable
}

// answer is what a visitor gets: a redirect, or a page that says why not.
type answer struct {
	status int
	// location is where a redirect leads.
	location    string
	title, text string
	retryAfter  time.Duration
}

var (
	unknown = answer{status: http.StatusNotFound, title: "There is no such link",
		text: "Check the address for a typing mistake. If it is right, the link has been taken down or does not work yet: ask whoever gave it to you."}
	expired = answer{status: http.StatusGone, title: "This link has expired",
		text: "It worked only until a certain time. Ask whoever gave it to you for a new one."}
	exhausted = answer{status: http.StatusGone, title: "This link has been used up",
		text: "It could be followed only a certain number of times. Ask whoever gave it to you for a new one."}
	disabled = answer{status: http.StatusGone, title: "This link has been disabled",
		text: "The operator of this service has taken it down. There is nothing you need to do."}
	gone = answer{status: http.StatusGone, title: "This link is gone",
		text: "Those who made it have given it up, with all their others."}
	unavailable = answer{status: http.StatusServiceUnavailable, title: "Please try again in a moment",
		text: "The link is fine; a part of this service is not.", retryAfter: unavailableRetry}
)

func overQuota(wait time.Duration) answer {
	return answer{status: http.StatusTooManyRequests, title: "This link has been followed too often this month",
		text: "It works again when the next month begins.", retryAfter: wait}
}

// decide is pure: what a link answers at an instant.
func decide(t *link.Target, now time.Time) answer {
	if t.Gone {
		return gone
	}
	switch t.Status(now) {
	case link.Active:
		return answer{status: t.RedirectStatus, location: t.Location}
	case link.Expired:
		return expired
	case link.Disabled:
		return disabled
	}
	return unknown // deleted, and not yet started: nothing to see
}

func (a answer) isRedirect() bool { return a.status/100 == 3 }

// What redirects say beside where they lead. A redirect is never cached, whatever its status: the next visit is a click
// too. The slices are shared between all answers, and never written to.
var (
	cacheControl   = []string{"private, no-store"}
	referrerPolicy = []string{"strict-origin-when-cross-origin"}
	robotsTag      = []string{"noindex"}
	noContent      = []string{"0"}
)

func (h *Handler) write(w http.ResponseWriter, r *http.Request, a answer) {
	h.count(a.status)
	head := w.Header()
	if !a.isRedirect() {
		web.NameRequest(w, r)
		if a.retryAfter > 0 {
			head.Set("Retry-After", strconv.Itoa(int(math.Ceil(a.retryAfter.Seconds()))))
		}
		web.Page(w, r, a.status, a.title, a.text)
		return
	}
	if a.location != "" {
		head["Location"] = []string{a.location}
	}
	head["Cache-Control"], head["Referrer-Policy"], head["X-Robots-Tag"], head["Content-Length"] = cacheControl, referrerPolicy, robotsTag, noContent
	w.WriteHeader(a.status)
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
