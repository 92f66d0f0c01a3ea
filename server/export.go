package main

import (
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

// exports is how many exports a caller may begin.
var exports = ratelimit.Rate{Name: "exports", Attempts: 60, Window: time.Hour}

// cutOff aborts the connection of an export that has begun, so that the client does not take the
// part for the whole. It does not return.
func (a *app) cutOff(r *http.Request, err error) {
	if errs.From(err).Kind == errs.Internal && r.Context().Err() == nil {
		a.log.ErrorContext(r.Context(), "export interrupted", "error", err)
	}
	panic(http.ErrAbortHandler)
}

// jsonLines is the media type of a JSON object a line.
const jsonLines = "application/x-ndjson; charset=utf-8"

// download says that a file follows.
func download(w http.ResponseWriter, mediaType, name string) {
	head := w.Header()
	head.Set("Content-Type", mediaType)
	head.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
}

func (a *app) refuseExport(w http.ResponseWriter, r *http.Request, err error) {
	e := errs.From(err)
	if e.Kind == errs.Internal {
		a.log.ErrorContext(r.Context(), "export failed", "error", err)
	}
	web.SetRetryAfter(w, e.Retry())
	visitorpage.WriteEnglish(w, r, e.Kind.Status(), e.Kind.Code(), e.Public())
}
