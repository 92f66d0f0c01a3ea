package main

import (
	"compress/gzip"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// receiver is a collector of spans, by OTLP over HTTP.
type receiver struct {
	*httptest.Server

	mu    sync.Mutex
	spans []*otlp.Span
	text  strings.Builder // everything that has come
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if err := r.collect(q); err != nil || q.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", q.URL.Path, err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) collect(q *http.Request) error {
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(q.Body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	var sent collector.ExportTraceServiceRequest
	if err = errors.Join(err, proto.Unmarshal(data, &sent)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.WriteString(prototext.Format(&sent))
	for _, resource := range sent.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	return nil
}

// spansOf returns the spans of a trace by name, and how many redirects are in it.
func (r *receiver) spansOf(traceID string) (named map[string]*otlp.Span, redirects int) {
	named = map[string]*otlp.Span{}
	for _, s := range r.spans {
		if hex.EncodeToString(s.TraceId) != traceID {
			continue
		}
		if named[s.Name] = s; s.Name == "redirect" {
			redirects++
		}
	}
	return named, redirects
}

// TestTrace_SpansOneRequest covers createLink from the request to its statements, as a part of the caller's
// trace, without any values. The spans are sent when the server stops.
func TestTrace_SpansOneRequest(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const (
			traceID = "0af7651916cd43dd8448eb211c80319c"
			parent  = "b7ad6b7169203331"
			missing = "5b8efff798038103d269b633813fc60c"
			known   = "11112222333344445555666677778888"
			repeats = 20
		)
		r := newReceiver(t)
		// a rate too small for reservations
		s := start(t, b.alone(t).inProcesses(), "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_BSP_SCHEDULE_DELAY=600000",
			"LINKFORGE_LOG_FORMAT=json", "LINKFORGE_RATE_LIMITS=on", "LINKFORGE_REQUEST_RATE=90")
		ada := s.tenant(t, "planted-slug")
		body := `{"query":"mutation Make($w: ID!) { createLink(input: {workspaceId: $w, ` +
			`url: \"https://planted.example/page?secret=planted\", customCode: \"planted-code\"}) ` +
			`{ link { id } errors { message } } }","variables":{"w":"` + ada.workspaceID + `"}}`
		a, err := ada.post([]byte(body), "Traceparent", "00-"+traceID+"-"+parent+"-01", "User-Agent", "planted-agent")
		if err != nil || a.status != http.StatusOK || a.problems() != nil || strings.Contains(a.body, `"message"`) {
			t.Fatalf("%+v: %v", a, err)
		}
		for i := range repeats + 1 {
			trace := known
			if i == 0 {
				trace = missing
			}
			s.expect(t, http.StatusFound, http.MethodGet, "/planted-slug/planted-code", "Traceparent",
				"00-"+trace+"-"+parent+"-01")
		}
		s.stop()

		r.mu.Lock()
		defer r.mu.Unlock()
		made, _ := r.spansOf(traceID)
		http, graphql, insert, limits := made["POST /graphql"], made["GraphQL mutation"], made["SQL INSERT links"],
			made["Redis pipeline"]
		if http == nil || graphql == nil || insert == nil || limits == nil {
			t.Fatalf("a span is missing among %q", slices.Sorted(maps.Keys(made)))
		}
		if hex.EncodeToString(http.ParentSpanId) != parent || string(graphql.ParentSpanId) != string(http.SpanId) ||
			string(insert.ParentSpanId) != string(graphql.SpanId) ||
			string(limits.ParentSpanId) != string(graphql.SpanId) {
			t.Errorf("the spans are not within each other: %v", made)
		}
		if spans, _ := r.spansOf(missing); spans["redirect"] == nil || spans["SQL SELECT links"] == nil {
			t.Errorf("a redirect with a database query: got spans %q", slices.Sorted(maps.Keys(spans)))
		}
		if _, traced := r.spansOf(known); traced == repeats { // a few requests may revalidate the cached link
			t.Errorf("all cached redirects have a span, want none")
		}
		for _, secret := range []string{"planted", "127.0.0.1", "example.com", ada.token, ada.password, ada.id,
			ada.workspaceID, jwtSecret, "INSERT INTO", "lnk_"} {
			if strings.Contains(r.text.String(), secret) {
				t.Errorf("the spans say %q", secret)
			}
		}
		if !strings.Contains(content(t, s.err), `"trace_id":"`+traceID+`"`) {
			t.Error("the log does not say which trace the operation is in")
		}
	})
}

// TestTrace_SurvivesAMissingCollector: the server continues, logs the problem, and stops cleanly.
func TestTrace_SurvivesAMissingCollector(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t).inProcesses(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+proctest.FreeAddress(),
		"OTEL_BSP_SCHEDULE_DELAY=10")
	s.tenant(t, "ada")
	s.stop()
	if !strings.Contains(content(t, s.err), "spans are not sent") {
		t.Errorf("the log does not say it:\n%s", content(t, s.err))
	}
}
