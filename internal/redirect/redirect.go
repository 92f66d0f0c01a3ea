// Package redirect answers short URLs.
package redirect

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/quota"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/web"
)

// deadline bounds one redirect with everything it asks for.
const deadline = 10 * time.Second

// unavailableRetry is what Retry-After says when a dependency is away.
const unavailableRetry = 5 * time.Second

// Handler answers GET /{code} and GET /{slug}/{code}, and GET /{code} at the host of a workspace, which is the path value
// host then.
type Handler struct {
	// Links resolves addresses.
	Links *link.Store
	// Hits keeps the monthly quota, HitQuota is that of workspaces without one of their own.
	Hits     quota.Hits
	HitQuota int64
	// Clicks records what was answered, Counts what the database knows of it.
	Clicks *click.Recorder
	Counts *click.Store
	// Log is told what broke.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// ServeHTTP tells the whole story of a redirect: resolve, decide, take quota, record the click, answer. Every
// GET that is answered with a redirect takes quota and is one click. HEAD only looks.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived := h.Now()
	ctx, cancel := context.WithTimeout(r.Context(), deadline)
	defer cancel()

	target, err := h.Links.Resolve(ctx, link.Address{Host: r.PathValue("host"), Slug: r.PathValue("slug"), Code: r.PathValue("code")})
	if err != nil {
		h.fail(w, r, err)
		return
	}
	answer := decide(target, arrived)
	switch {
	case !answer.isRedirect():
	case r.Method == http.MethodGet:
		if answer, err = h.follow(ctx, target, answer, arrived); err != nil {
			h.fail(w, r, err)
			return
		}
	case target.MaxClicks != nil:
		answer.location = "" // else whoever asks by HEAD learns what only so many may
	}
	answer.write(w, r)
}

// follow takes what a redirect costs, the monthly hit and one of the link's own clicks, and counts it. What was
// taken for a redirect that is not answered in the end is given back.
func (h *Handler) follow(ctx context.Context, t *link.Target, redirect answer, arrived time.Time) (answer, error) {
	month := quota.MonthOf(arrived)
	ok, err := h.takeHit(ctx, t, month)
	if err != nil {
		return answer{}, err
	}
	if !ok {
		return overQuota(month.End.Sub(arrived)), nil
	}
	granted, err := h.Links.Grant(ctx, t)
	if err == nil && granted {
		if err = h.record(t, arrived); err == nil {
			return redirect, nil
		}
		h.giveBack(ctx, "grant", func(ctx context.Context) error { return h.Links.Revoke(ctx, t) })
	}
	h.giveBack(ctx, "hit", func(ctx context.Context) error { return h.Hits.Return(ctx, t.ID, month) })
	return exhausted, err
}

// giveBack returns what was taken for nothing, also when the visitor has gone.
func (h *Handler) giveBack(ctx context.Context, what string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if err := do(ctx); err != nil {
		h.Log.WarnContext(ctx, what+" not given back", "error", err)
	}
}

// takeHit takes one hit of the link's monthly quota. When Redis has no counter, the database says how many there
// were, after what this node still holds has been written.
func (h *Handler) takeHit(ctx context.Context, t *link.Target, month quota.Month) (bool, error) {
	limit := h.HitQuota
	if t.HitQuota != nil {
		limit = *t.HitQuota
	}
	return h.Hits.Take(ctx, t.ID, month, limit, func(ctx context.Context) (int64, error) {
		if err := h.Clicks.Flush(ctx); err != nil {
			return 0, err
		}
		return h.Counts.CountSince(ctx, t.ID, month.Start)
	})
}

// record counts the click before it is answered. A click that cannot be counted is not answered.
func (h *Handler) record(t *link.Target, arrived time.Time) error {
	return h.Clicks.Record(click.Click{
		WorkspaceID: t.WorkspaceID,
		LinkID:      t.ID,
		ClickedAt:   arrived,
		LatencyMs:   float64(h.Now().Sub(arrived)) / float64(time.Millisecond),
	})
}

// fail answers when there is no link, or when something broke: then trying again helps.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errs.Is(err, errs.NotFound) {
		unknown.write(w, r)
		return
	}
	if errs.Is(err, errs.Expired) {
		gone.write(w, r)
		return
	}
	if r.Context().Err() == nil { // a visitor who has gone is nobody's failure
		h.Log.ErrorContext(r.Context(), "redirect failed", "error", err, "request_id", r.Header.Get("X-Request-Id"))
	}
	unavailable.write(w, r)
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
	if t.Gone() {
		return gone
	}
	switch t.Status(now) {
	case link.Active:
		return answer{status: t.RedirectStatus, location: urlnorm.Location(t.OriginalURL)}
	case link.Expired:
		return expired
	case link.Exhausted:
		return exhausted
	case link.Disabled:
		return disabled
	}
	return unknown // deleted, and not yet started: nothing to see
}

func (a answer) isRedirect() bool { return a.status/100 == 3 }

// write sends the answer. A redirect is never cached, whatever its status: the next visit is a click too.
func (a answer) write(w http.ResponseWriter, r *http.Request) {
	if a.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(a.retryAfter.Seconds()))))
	}
	if !a.isRedirect() {
		web.Page(w, r, a.status, a.title, a.text)
		return
	}
	head := w.Header()
	if a.location != "" {
		head.Set("Location", a.location)
	}
	head.Set("Cache-Control", "private, no-store")
	head.Set("Referrer-Policy", "strict-origin-when-cross-origin")
	head.Set("X-Robots-Tag", "noindex")
	head.Set("Content-Length", "0")
	w.WriteHeader(a.status)
}
