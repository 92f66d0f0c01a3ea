package transport

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/graph/transport/transporttest"
)

func TestAccept_Negotiate(t *testing.T) {
	t.Parallel()
	const none = "none"
	for _, c := range []struct {
		accept []string
		want   string
		events bool
	}{
		{nil, mediaJSON, false},
		{[]string{""}, mediaJSON, false},
		{[]string{"*/*"}, mediaJSON, false},
		{[]string{"application/*"}, mediaJSON, false},
		{[]string{mediaGraphQL}, mediaGraphQL, false},
		{[]string{mediaGraphQL + "; charset=utf-8"}, mediaGraphQL, false},
		{[]string{strings.ToUpper(mediaGraphQL)}, mediaGraphQL, false},
		{[]string{"application/json, " + mediaGraphQL + ";q=0.9"}, mediaJSON, false},
		{[]string{mediaGraphQL + ", */*"}, mediaGraphQL, false},
		{[]string{"application/json;q=0, */*"}, mediaGraphQL, false}, // a type precedes a range that includes it
		{[]string{"application/json;q=0, application/*;q=0.1"}, mediaGraphQL, false},
		{[]string{"application/*;q=0, */*"}, none, false},
		{[]string{mediaGraphQL + ";q=0, application/json;q=0"}, none, false},
		{[]string{mediaGraphQL + ";q=2"}, none, false},
		{[]string{mediaGraphQL + ";q=NaN"}, none, false},
		{[]string{"nonsense"}, none, false},
		{[]string{"text/event-stream"}, none, true},
		{[]string{"text/event-stream;q=0"}, none, false},
		{[]string{"text/event-stream;q=0.1, application/json"}, mediaJSON, true},
	} {
		accepted := parseAccept(c.accept)
		got, ok := accepted.negotiate()
		if !ok {
			got = none
		}
		if events := accepted.events(); got != c.want || events != c.events {
			t.Errorf("%q: %s, events %t; want %s, %t", c.accept, got, events, c.want, c.events)
		}
	}
}

func TestHandler_CompressesResponsesOfQueries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := "{" + strings.Repeat(" a%: __typename", 80) + " }"
	for i := range 80 {
		long = strings.Replace(long, "%", strconv.Itoa(i), 1)
	}
	mutation := strings.Replace(long, "{", `mutation { login(input: {email: "x@example.com", password: "x"}) { id }`, 1)
	for name, c := range map[string]struct {
		query, encoding, accept string
		zipped                  bool
	}{
		"a long answer":       {long, "br, gzip;q=0.5", mediaGraphQL, true},
		"an older client's":   {long, "gzip", mediaJSON, true},
		"a short answer":      {"{ __typename }", "gzip", mediaGraphQL, false},
		"not requested":       {long, "", mediaGraphQL, false},
		"not liked":           {long, "gzip;q=0", mediaGraphQL, false},
		"that of a mutation":  {mutation, "gzip", mediaGraphQL, false}, // which may have a secret
		"events":              {long, "gzip", mediaEvents, false},
		"what is not allowed": {"mutation { " + strings.Repeat("x", 2000) + " }", "gzip", mediaGraphQL, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := transporttest.Serve(t, b, "POST", "/graphql", `{"query":`+strconv.Quote(c.query)+`}`,
				"Content-Type", "application/json", "Accept-Encoding", c.encoding, "Accept", c.accept)
			zipped := w.Header().Get("Content-Encoding") == "gzip"
			if zipped != c.zipped || !strings.Contains(w.Header().Get("Vary"), "Accept-Encoding") &&
				c.accept != mediaEvents {
				t.Fatalf("compressed: %t, want %t: %v", zipped, c.zipped, w.Header())
			}
			if length := w.Header().Get("Content-Length"); length != strconv.Itoa(w.Body.Len()) &&
				c.accept != mediaEvents {
				t.Errorf("%s bytes announced, %d sent", length, w.Body.Len())
			}
			var body io.Reader = w.Body
			if zipped {
				var err error
				if body, err = gzip.NewReader(w.Body); err != nil {
					t.Fatal(err)
				}
			}
			text, err := io.ReadAll(body)
			if err != nil || strings.Contains(c.query, "{ __typename") &&
				string(text) != `{"data":{"__typename":"Query"}}` ||
				c.query == long && !strings.Contains(string(text), `"a79":"Query"`) {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
}

// TestHandler_SendsEventsByGET: EventSource sends nothing but an address, and can be made to by another site.
func TestHandler_SendsEventsByGET(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const (
		mutation     = `mutation { logout { id } }`
		subscription = `subscription { watch(id: "x") { id } }`
	)
	for name, c := range map[string]struct {
		method, query, accept string
		status                int
		want                  string
	}{
		"a query": {"GET", "{ __typename }", mediaEvents, 200,
			"event: next\ndata: {\"data\":{\"__typename\":\"Query\"}}\n\nevent: complete\ndata:\n\n"},
		"a subscription": {"GET", subscription, mediaEvents, 200, `"UNAUTHENTICATED"`},
		"one that may be JSON": {"GET", subscription, mediaJSON + ", " + mediaEvents, 200,
			"event: complete\ndata:\n\n"},
		"a query that may be JSON": {"GET", "{ __typename }", mediaJSON + ", " + mediaEvents, 200,
			`{"data":{"__typename":"Query"}}`},
		"a mutation":              {"GET", mutation, mediaEvents, 405, `"BAD_REQUEST"`},
		"a subscription by HEAD":  {"HEAD", subscription, mediaEvents, 406, `"BAD_REQUEST"`},
		"a subscription for JSON": {"GET", subscription, mediaJSON, 405, "text/event-stream"},
		"no query":                {"GET", "", mediaEvents, 400, `"BAD_REQUEST"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := transporttest.Serve(t, b, c.method, "/graphql?query="+url.QueryEscape(c.query), "", "Accept", c.accept)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d, want %d with %s: %s", w.Code, c.status, c.want, w.Body)
			}
			body := w.Body.String()
			streamed := strings.HasPrefix(body, "event: ") || strings.HasPrefix(body, ":")
			if kind := w.Header().Get("Content-Type"); streamed != (kind == mediaEvents+"; charset=utf-8") {
				t.Errorf("%s: %s", kind, body)
			}
			if allow := w.Header().Get("Allow"); (allow == "POST") != (c.status == 405) {
				t.Errorf("%d, and Allow: %s", w.Code, allow)
			}
		})
	}
}

func TestHandler_RefusesCompressedBodies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := transporttest.Serve(t, b, "POST", "/graphql", "marker", "Content-Type", "application/json",
		"Content-Encoding", "gzip")
	if w.Code != http.StatusUnsupportedMediaType || w.Header().Get("Accept-Encoding") != "identity" ||
		strings.Contains(w.Body.String(), "marker") {
		t.Errorf("%d %v: %s", w.Code, w.Header(), w.Body)
	}
}

func TestHandler_RefusesBadRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const query = `{"query":"{ __typename }"}`
	large := `{"query":"{ __typename }","variables":{"x":"` + strings.Repeat("marker ", 50_000) + `"}}`
	for name, c := range map[string]struct {
		token, method, target, contentType, body, accept string
		status                                           int
		code                                             string
	}{
		"broken JSON":   {"", "POST", "/", "application/json", `{"query": marker`, "", 400, "BAD_REQUEST"},
		"a batch":       {"", "POST", "/", "application/json", `[` + query + `]`, "", 400, "BAD_REQUEST"},
		"no query":      {"", "POST", "/", "application/json", `{}`, "", 400, "BAD_REQUEST"},
		"an empty body": {"", "POST", "/", "application/json", ``, "", 400, "BAD_REQUEST"},
		"variables in a list": {"", "POST", "/", "application/json", `{"query":"{ me { id } }","variables":["marker"]}`,
			"", 400, "BAD_REQUEST"},
		"a form": {"", "POST", "/", "application/x-www-form-urlencoded", `query={me{id}}`, "", 415,
			"BAD_REQUEST"},
		"another charset":    {"", "POST", "/", "application/json; charset=utf-16", query, "", 415, "BAD_REQUEST"},
		"nothing acceptable": {"", "POST", "/", "application/json", query, "text/html", 406, "BAD_REQUEST"},
		"too large":          {"", "POST", "/", "application/json", large, "", 413, "REQUEST_TOO_LARGE"},
		"no content type":    {"", "POST", "/", "", query, "", 415, "BAD_REQUEST"},
		"a broken type":      {"", "POST", "/", "application/json; =", query, "", 415, "BAD_REQUEST"},
		"a subscription for JSON": {"", "POST", "/", "application/json",
			`{"query":"subscription { watch(id: \"x\") { id } }"}`,
			mediaJSON, 400, "BAD_REQUEST"},
		"a subscription of nothing": {"", "POST", "/", "application/json",
			`{"query":"subscription { watch(id: \"x\") @skip(if: true) { id } }"}`, mediaGraphQL, 400, "BAD_REQUEST"},
		"broken escapes by GET": {member, "GET", "/?query=%zz", "", "", "", 400, "BAD_REQUEST"},
		"a bad token":           {"marker", "POST", "/", "application/json", query, "", 401, "UNAUTHENTICATED"},
		"a mutation by GET": {member, "GET", `/?query=mutation{login(input:{email:"a",password:"b"}){id}}`, "", "",
			"", 405, "BAD_REQUEST"},
		"a name of no use": {"", "POST", "/", "application/json",
			`{"query":"{ __typename }","operationName":"marker"}`, "", 200, "BAD_REQUEST"},
		"variables by GET": {member, "GET", `/?query={me{id}}&variables=marker`, "", "", "", 400, "BAD_REQUEST"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := b.send(t, c.token, c.method, c.target, c.contentType, c.body, c.accept)
			if r.Status != c.status || r.Codes() != c.code {
				t.Errorf("%d %s, want %d %s: %.300s", r.Status, r.Codes(), c.status, c.code, r.Text)
			}
			if strings.Contains(r.Text, "marker") || strings.Contains(r.Text, `"data"`) {
				t.Errorf("the answer has data, or repeats the request: %.300s", r.Text)
			}
			if scheme := r.Header.Get("WWW-Authenticate"); strings.HasPrefix(scheme, "Bearer ") != (c.status == 401) {
				t.Errorf("WWW-Authenticate: %q", scheme)
			}
		})
	}
	if r := b.send(t, member, "POST", "/", "application/json", large, ""); r.Status != http.StatusOK ||
		len(r.Errors) > 0 {
		t.Errorf("a large body with log-in: %d %.300s", r.Status, r.Text)
	}
}
