package web

import (
	"cmp"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// methods are the methods that spans name; others are "_OTHER".
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions, http.MethodPut,
	http.MethodPatch, http.MethodDelete}

// Trace makes a span of each request, as a part of the trace that the caller is in, if it says so
// (https://www.w3.org/TR/trace-context/). It says the method, the route and the status: no address,
// no path, no header.
func Trace(t trace.Tracer) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, span := t.Start(ExtractTrace(r).Context(), "HTTP", trace.WithSpanKind(trace.SpanKindServer))
			defer span.End()
			recorded, inner := &statusWriter{ResponseWriter: w}, r.WithContext(ctx)
			next.ServeHTTP(recorded, inner)
			r.Pattern = inner.Pattern // for the log
			status := cmp.Or(recorded.status, http.StatusOK)
			span.SetName(cmp.Or(r.Pattern, "HTTP"))
			span.SetAttributes(attribute.String("http.request.method", known(r.Method)),
				attribute.String("http.route", r.Pattern),
				attribute.Int("http.response.status_code", status))
			if status >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, "")
			}
		})
	}
}

// ExtractTrace returns the request as a part of the trace that its header names.
func ExtractTrace(r *http.Request) *http.Request {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	return r.WithContext(ctx)
}

func known(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return "_OTHER"
}
