package main

import (
	"context"
	"net/http"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

// findLink calls find within the rate of a kind of response about links. If find returns NotFound, the request
// counts as an unknown code for the client's network. It returns the error of find, or RateLimited.
func (a *app) findLink(r *http.Request, rate ratelimit.Rate, find func(ctx context.Context) error) error {
	ctx, guesses, from, arrived := r.Context(), a.redirects.UnknownCodes, web.Peer(r), a.now()
	if wait := guesses.Take("", from, arrived); wait > 0 {
		return errs.New(errs.RateLimited, "Too many unknown links. Try again in a minute.").After(wait)
	}
	if err := a.Limits.SpendFrom(ctx, rate, 1, web.AddressOf(ctx)); err != nil {
		return err
	}
	err := find(ctx)
	if ctx.Err() == nil && !errs.Is(err, errs.NotFound) {
		guesses.Release("", from, arrived)
	}
	return err
}

// refuse answers a request about a link with an error, by notFound if there is none to show. What failed is for
// the log.
func (a *app) refuse(w http.ResponseWriter, r *http.Request, err error, failed string, notFound func()) {
	e := errs.From(err)
	web.SetRetryAfter(w, e.Retry())
	switch {
	case r.Context().Err() != nil: // a disconnected client is no failure
	case e.Kind == errs.NotFound:
		notFound()
	case e.Kind == errs.Internal:
		a.log.ErrorContext(r.Context(), failed, "error", err)
		visitorpage.Write(w, r, http.StatusServiceUnavailable, visitorpage.Unavailable)
	default:
		visitorpage.WriteEnglish(w, r, e.Kind.Status(), "The request failed", e.Public())
	}
}
