package main

import (
	"net/http"
	"slices"

	"github.com/linkforge/linkforge/internal/link/moderation"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

// maxReportBytes bounds the form of a report: a short URL and 2,000 characters, percent-encoded.
const maxReportBytes = 64 << 10

// reportReasons are the reasons of the form, in its order.
var reportReasons = []string{
	string(moderation.Phishing), string(moderation.Malware), string(moderation.Spam), string(moderation.Illegal),
	string(moderation.Other),
}

// reportForm answers with the form that reports a link.
func (a *app) reportForm(w http.ResponseWriter, r *http.Request) {
	visitorpage.WriteReportForm(w, r, http.StatusOK, visitorpage.ReportForm{
		ShortURL: r.URL.Query().Get("link"), Reasons: reportReasons,
	})
}

// report stores the report of a form. A page of another origin cannot send it.
func (a *app) report(w http.ResponseWriter, r *http.Request) {
	web.LimitBody(w, r, maxReportBytes)
	f := visitorpage.ReportForm{
		ShortURL: r.PostFormValue("link"), Reason: r.PostFormValue("reason"), Details: r.PostFormValue("details"),
		Reasons: reportReasons, Error: "report.refused",
	}
	if !web.IsUTF8(r) {
		visitorpage.WriteNotUTF8(w, r)
		return
	}
	if !a.origins().Allow(r) || !slices.Contains(reportReasons, f.Reason) {
		visitorpage.WriteReportForm(w, r, http.StatusBadRequest, f)
		return
	}
	ctx := r.Context()
	err := a.Moderation.Report(ctx, web.AddressOf(ctx), f.ShortURL, moderation.Reason(f.Reason), &f.Details)
	if err == nil {
		visitorpage.Write(w, r, http.StatusOK, visitorpage.Reported)
		return
	}
	e := errs.From(err)
	web.SetRetryAfter(w, e.Retry())
	switch {
	case e.Kind == errs.NotFound:
		f.Error = "report.unknown"
		visitorpage.WriteReportForm(w, r, http.StatusNotFound, f)
	case e.Kind == errs.InvalidInput:
		visitorpage.WriteReportForm(w, r, http.StatusBadRequest, f)
	case e.Kind == errs.RateLimited:
		visitorpage.Write(w, r, http.StatusTooManyRequests, visitorpage.ManyReports)
	default:
		a.log.Log(ctx, errs.LogLevel(err), "storing a report failed", "error", err)
		visitorpage.Write(w, r, http.StatusServiceUnavailable, visitorpage.Unavailable)
	}
}
