package transport

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport/transporttest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestStream_SendsAllEvents until the source ends, and then its error with the cursor.
func TestStream_SendsAllEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for to, want := range map[string][]string{
		"3":   {`{"count":1}`, `{"count":3}`, "event: complete"},
		"200": {`{"count":99}`, `"TOO_SLOW"`, `"after":"99"`, "event: complete"},
	} {
		query := "/graphql?query=subscription{count(to:" + to + ")}"
		got := transporttest.Serve(t, b, "GET", query, "", "Accept", mediaEvents).Body.String()
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no %s in %s", to, part, got)
			}
		}
		if n := strings.Count(got, `"data"`); to == "3" && n != 3 {
			t.Errorf("%d events, want 3: %s", n, got)
		}
	}
}

func TestSlots_BoundEachSubjectAndAll(t *testing.T) {
	t.Parallel()
	s := slots{max: 5, maxOfCaller: 2, maxOfGroup: 3}
	caller := func(subject string, group string) Caller {
		return Caller{Subject: subject, Groups: []Group{{Subject: group}}}
	}
	release := must.Value(s.acquire(caller("a", "x")))(t)
	for _, step := range []struct {
		subject, group string
		want           bool
	}{
		{"a", "x", true}, {"a", "x", false}, {"b", "x", true}, {"c", "x", false}, {"c", "y", true}, {"d", "z", true},
		{"e", "z", false},
	} {
		if _, err := s.acquire(caller(step.subject, step.group)); (err == nil) != step.want || err != nil &&
			!errs.Is(err, errs.RateLimited) {
			t.Errorf("%s of %s: %v, want a slot: %t", step.subject, step.group, err, step.want)
		}
	}
	release()
	release()
	if _, err := s.acquire(caller("e", "x")); err != nil {
		t.Errorf("after a release: %v", err)
	}
	if _, err := s.acquire(caller("f", "y")); !errs.Is(err, errs.RateLimited) {
		t.Errorf("a release counts twice: %v", err)
	}
}

// TestCaller_IsAttachedAndLimited checks that a request reaches its budgets and resolvers with its caller.
func TestCaller_IsAttachedAndLimited(t *testing.T) {
	t.Parallel()
	spent := map[string]int64{}
	budget := func(name string) Budget {
		return func(_ context.Context, c Caller, points int64) (limit.Allowance, error) {
			spent[name+" "+c.Subject] += points
			a := limit.Allowance{Known: true, Limit: 5, Left: 5 - spent[name+" "+c.Subject]}
			if a.Left < 0 {
				return a, errs.New(errs.RateLimited, "Too many.")
			}
			return a, nil
		}
	}
	b := setup(t, func(c *Config) { c.Requests, c.Cost = budget("requests"), budget("cost") })
	if r := b.post(t, "{ __typename }"); r.Codes() != "" || r.Header.Get("RateLimit") != `"requests";r=4;t=0` ||
		!strings.HasPrefix(r.Header.Get("RateLimit-Policy"), `"requests";q=5;w=`) ||
		!slices.Equal(r.Header.Values("RateLimit")[1:], []string{`"cost";r=4;t=0`}) {
		t.Errorf("%v %s", r.Header, r.Text)
	}
	if r := b.post(t, "{ me { a: id b: id c: id d: id } }"); r.Codes() != "RATE_LIMITED" {
		t.Errorf("too expensive: %s", r.Text)
	}
	for range 4 {
		b.send(t, member, http.MethodGet, "/?query={__typename}", "", "", mediaGraphQL)
	}
	if spent["requests member"] != 4 || spent["requests address"] != 2 || spent["cost member"] != 4 {
		t.Errorf("spent %v", spent)
	}
}

// TestHandler_LogsAndHidesInternalErrors with the ID of the request.
func TestHandler_LogsAndHidesInternalErrors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := transporttest.Serve(t, b, "GET", "/?query={fail{id}}", "", "X-Request-Id", "request-2")
	if got := w.Body.String(); !strings.Contains(got, `"INTERNAL"`) || strings.Contains(got, "broken") {
		t.Errorf("%s", got)
	}
	log, id := b.log.String(), "request_id=request-2"
	if operations := transporttest.Operations(log); len(operations) != 1 || !strings.HasSuffix(operations[0], id) ||
		strings.Count(log, id) != 2 || !strings.Contains(log, "input: broken") {
		t.Errorf("want the operation and its cause with the request's ID: %s", b.log)
	}
}

// TestHandler_RecoversFromPanics of the executor on every transport, and logs the stack.
func TestHandler_RecoversFromPanics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for way, send := range b.ways(t) {
		if got := send(request{"query": "{ crash { id } }"}); !strings.Contains(got, `"INTERNAL"`) ||
			strings.Contains(got, "crashed") {
			t.Errorf("%s: %s", way, got)
		}
	}
	if log := b.log.String(); !strings.Contains(log, "panic: crashed") || !strings.Contains(log, "stack=") {
		t.Errorf("%s", log)
	}
}
