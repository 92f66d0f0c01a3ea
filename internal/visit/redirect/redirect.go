// Package redirect is the HTTP handler of short URLs: it consumes quotas, records clicks and writes
// responses. Package routing decides the response, package resolve finds the target. The server
// calls it for every short URL.
package redirect

import (
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
	"github.com/linkforge/linkforge/internal/visit/resolve"
	"github.com/linkforge/linkforge/internal/visit/unmatched"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
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
	// Clicks records redirects. Visits reads properties of the request. Keys derives the visitor
	// keys that identify visits.
	Clicks *ingest.Recorder
	Visits *visitor.Reader
	Keys   *ingest.DailyKeys
	// LinkRate limits the visits of one link by an address network, UnknownCodes the requests of a
	// network for codes without a link. Nil limits nothing.
	LinkRate, UnknownCodes *ratelimit.Throttle
	// DrawKey distinguishes visitors in draws, see routing.DrawKey.
	DrawKey []byte
	// Gates lets visitors pass gates.
	Gates Gates
	// IsHTTPS means that visitors reach the instance by https.
	IsHTTPS bool
	// Unmatched counts requests without a destination.
	Unmatched *unmatched.Recorder
	// Log receives failures of dependencies, and panics.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	undecided undecided
	answers   [len(statuses)]atomic.Int64
}

// Serve answers a request by GET, HEAD, POST, PUT, PATCH or DELETE: it resolves the address,
// decides, consumes quotas, records the click and writes the response. Every request but HEAD that
// receives a destination is one click. HEAD and cards consume nothing, but count for the rates of
// their network.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, at resolve.Address) {
	defer web.Recovered(h.Log, w, r, visitorpage.WriteInternalError)
	v := visit{Handler: h, http: r, from: web.Peer(r)}
	v.request = routing.Request{
		Now: h.Now(), Head: r.Method == http.MethodHead, Post: r.Method == http.MethodPost,
		Writes: r.Method != http.MethodGet && r.Method != http.MethodHead,
	}
	answer, err := v.find(w, at)
	if answer.Page.IsHeld() {
		if !utf8.ValidString(v.password()) {
			web.NameRequest(w, r)
			h.count(http.StatusBadRequest)
			visitorpage.WriteNotUTF8(w, r)
			return
		}
		answer, err = v.hold(answer)
	}
	if answer.Page == routing.Redirect || answer.Page == routing.PageCard {
		answer, err = v.consume(answer)
	}
	if err != nil && r.Context().Err() == nil { // a disconnected client is no failure
		web.NameRequest(w, r)
		h.Log.Log(r.Context(), errs.LogLevel(err), "redirect failed", "error", err, "request_id",
			r.Header.Get("X-Request-Id"))
	}
	h.write(w, r, &answer, &v)
	status := answer.StatusBeforeFallback()
	if status >= 400 && answer.Page != routing.PageThrottled && !answer.Page.IsHeld() {
		v.recordUnmatched(status)
	}
}

// query returns the query of the request, with the parameters that follow the code in place of it.
func (v *visit) query() string {
	if v.target.At.Query == "" {
		return v.http.URL.RawQuery
	}
	return strings.TrimSuffix(v.target.At.Query+"&"+v.http.URL.RawQuery, "&")
}

// recordUnmatched counts a request without a destination, if the address belongs to a workspace.
// Texts that cannot be codes are counted together.
func (v *visit) recordUnmatched(status int) {
	code, workspaceID := v.target.At.Code, v.target.WorkspaceID
	if _, isOwn := shortcode.OwnKey(code, true); !shortcode.IsCode(code) && (!isOwn || !v.target.At.IsOwn) {
		code = ""
	}
	if workspaceID != "" && workspaceID != id.PublicWorkspace && v.http.Method == http.MethodGet &&
		status < http.StatusInternalServerError {
		v.Unmatched.Add(workspaceID, strings.Clone(code), status, v.request.Now)
	}
}

// isSecure reports whether the visitor's connection is encrypted, here or by a trusted proxy:
// web.Forwarding has removed the header of others.
func (v *visit) isSecure() bool {
	return v.http.TLS != nil || v.IsHTTPS || strings.EqualFold(v.http.Header.Get("X-Forwarded-Proto"), "https")
}

// messages are the pages of responses without a destination.
var messages = [...]visitorpage.Message{
	routing.PageNotFound:         visitorpage.NotFound,
	routing.PageExpired:          visitorpage.Expired,
	routing.PageExhausted:        visitorpage.Exhausted,
	routing.PageDisabled:         visitorpage.Disabled,
	routing.PageWorkspaceDeleted: visitorpage.WorkspaceDeleted,
	routing.PageOverQuota:        visitorpage.OverQuota,
	routing.PageThrottled:        visitorpage.Throttled,
	routing.PageUnavailable:      visitorpage.Unavailable,
	routing.PageManyAttempts:     visitorpage.ManyAttempts,
	routing.PageBusy:             visitorpage.Unavailable,
	routing.PageBlocked:          visitorpage.Blocked,
}

// retryAfter returns the value of Retry-After; zero means none.
func (h *Handler) retryAfter(p routing.Page, request *routing.Request) time.Duration {
	switch p {
	case routing.PageOverQuota:
		return click.MonthOf(request.Now).End().Sub(request.Now)
	case routing.PageThrottled:
		return request.Throttled
	case routing.PageUnavailable:
		return unavailableRetry
	case routing.PageManyAttempts, routing.PageBusy:
		return request.GateRetryAfter
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

func (h *Handler) write(w http.ResponseWriter, r *http.Request, a *routing.Decision, v *visit) {
	h.count(a.Status)
	if a.Page == routing.PageCard {
		v.writeCard(w)
		return
	}
	head := w.Header()
	if v.hasPassed {
		v.setPass(w)
	}
	if a.Page != routing.Redirect && a.Location == "" {
		web.NameRequest(w, r)
		v.writePage(w, a)
		return
	}
	if a.Location != "" {
		head["Location"] = []string{a.Location}
	}
	head["Cache-Control"], head["Referrer-Policy"] = cacheControl, referrerPolicy
	head["Content-Length"] = noContent
	if !v.target.Indexable {
		head["X-Robots-Tag"] = robotsTag
	}
	if a.SetsCookie {
		http.SetCookie(w, v.targetCookie(a))
	}
	w.WriteHeader(a.Status)
}

// writePage answers with a page.
func (v *visit) writePage(w http.ResponseWriter, a *routing.Decision) {
	wait := v.retryAfter(a.Page, &v.request)
	web.SetRetryAfter(w, wait)
	switch a.Page {
	case routing.PageGate, routing.PageWrongPassword:
		gate, _ := v.target.Compiled.Gate()
		visitorpage.WriteForm(w, v.http, a.Status, visitorpage.Form{
			ShortURL: v.address(), Notice: gate.Notice, NeedsPassword: gate.NeedsPassword,
			IsWrong: a.Page == routing.PageWrongPassword,
		})
	case routing.PageConfirm:
		visitorpage.WriteForm(w, v.http, a.Status, visitorpage.Form{ShortURL: v.address()})
	case routing.PagePrefetch: // makes browsers discard the prefetch
		head := w.Header()
		head["Cache-Control"], head["Content-Length"] = cacheControl, noContent
		w.WriteHeader(a.Status)
	case routing.PageMethod:
		allowed := "GET, HEAD"
		if v.target.HasForm() {
			allowed += ", POST"
		}
		w.Header().Set("Allow", allowed)
		http.Error(w, http.StatusText(a.Status), a.Status)
	default:
		minutes := strconv.Itoa(int(math.Ceil(wait.Minutes())))
		visitorpage.Write(w, v.http, a.Status, messages[a.Page], "minutes", minutes)
	}
}

// address returns the requested short URL without its scheme.
func (v *visit) address() string {
	_, address, _ := strings.Cut(v.shortURL(), "://")
	return address
}

// statuses are all that a short URL answers.
var statuses = [...]int{200, 301, 302, 303, 307, 308, 400, 403, 404, 405, 410, 429, 503}

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
