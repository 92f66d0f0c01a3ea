package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/must"
)

const (
	// marker stands in hostile input wherever a value can: no answer repeats it, and no log.
	marker = "mArKeR7f3a9c"
	// quick is how soon hostile input is answered, at the latest, on a busy machine.
	quick = 10 * time.Second
	// tooLarge is the code of a document that breaks several limits.
	tooLarge = "BAD_REQUEST or COMPLEXITY_LIMIT_EXCEEDED"
)

// hostile is a request that must be refused.
type hostile struct {
	method, path string
	body         string
	headers      []string
	// status and code are of the answer. The code is empty when the answer comes from outside of the
	// endpoint, and tooLarge when it depends on the limit that is met first.
	status int
	code   string
	// allow is the header Allow.
	allow string
}

// refuse sends the hostile request and checks the response.
func (h hostile) refuse(t *testing.T, c client) {
	t.Helper()
	began := time.Now()
	headers := append([]string{"Accept", "application/graphql-response+json", "Content-Type", "application/json"},
		h.headers...)
	if c.token != "" {
		headers = append([]string{"Authorization", "Bearer " + c.token}, headers...)
	}
	a, err := c.request(h.method, h.path, h.body, headers...)
	if err != nil {
		t.Error(err)
		return
	}
	harmless(t, a, began)
	code := a.code()
	if h.code == tooLarge && code != "BAD_REQUEST" {
		h.code = "COMPLEXITY_LIMIT_EXCEEDED"
	} else if h.code == tooLarge {
		h.code = code
	}
	if a.status != h.status || code != h.code || a.header.Get("Allow") != h.allow {
		t.Errorf("status %d, code %q, Allow %q; want %d, %q, %q: %.500s",
			a.status, code, a.header.Get("Allow"), h.status, h.code, h.allow, a.body)
	}
	for _, p := range a.problems() {
		if p.Message == "" || p.Extensions.Code == "" {
			t.Errorf("an error without words or code: %.500s", a.body)
		}
	}
}

// harmless checks what holds of every answer.
func harmless(t *testing.T, a answer, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > quick {
		t.Errorf("answered after %s", took)
	}
	if a.status >= 500 || strings.Contains(a.body, `"code":"INTERNAL"`) {
		t.Errorf("status %d: %.500s", a.status, a.body)
	}
	for _, leak := range []string{marker, "goroutine ", ".go:", "runtime error", "SQLSTATE", "sqlite", "pgx"} {
		if strings.Contains(a.body, leak) {
			t.Errorf("the answer holds %q: %.500s", leak, a.body)
		}
		for name, values := range a.header {
			if strings.Contains(strings.Join(values, " "), leak) {
				t.Errorf("the header %s holds %q: %.500s", name, leak, values)
			}
		}
	}
}

// TestServer_SurvivesHostileInput sends one server everything that is wrong. It must be alive at the end, and have
// logged nothing of it.
func TestServer_SurvivesHostileInput(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_LOG_LEVEL=debug")
		anonymousClient, who, other := client{server: s}, s.tenant(t, "victim"), s.tenant(t, "foreign")
		theirs := other.shorten(t, "https://example.com/theirs").Link

		t.Run("requests", func(t *testing.T) { refuseAll(t, anonymousClient, requests()) })
		t.Run("bodies", func(t *testing.T) { largeBodies(t, anonymousClient, who.client) })
		t.Run("documents", func(t *testing.T) { refuseAll(t, who.client, hostileDocuments()) })
		t.Run("types", func(t *testing.T) { wrongTypes(t, who) })
		t.Run("strings", func(t *testing.T) { hostileStrings(t, who) })
		t.Run("tokens", func(t *testing.T) { hostileTokens(t, who) })
		t.Run("foreign", func(t *testing.T) { foreign(t, who, other, theirs) })
		t.Run("paths", func(t *testing.T) { hostilePaths(t, s) })

		select {
		case <-s.exited:
			t.Fatal("the server has ended")
		default:
		}
		who.shorten(t, "https://example.com/alive")
		said := content(t, s.err)
		for _, secret := range []string{marker, who.token, who.password, other.token, jwtSecret, codeSecret, "evil.com"} {
			if strings.Contains(said, secret) {
				t.Errorf("the log holds %q:\n%.5000s", secret, said)
			}
		}
	})
}

func refuseAll(t *testing.T, c client, all map[string]hostile) {
	t.Helper()
	for name, h := range all {
		t.Run(name, func(t *testing.T) {
			if h.path == "" {
				h.path = "/graphql"
			}
			if h.method == "" {
				h.method = http.MethodPost
			}
			if h.code == "" && h.allow == "" {
				h.code = "BAD_REQUEST"
			}
			if h.status == 0 {
				h.status = http.StatusBadRequest
			}
			h.refuse(t, c)
		})
	}
}

// requests are requests that do not get as far as GraphQL.
func requests() map[string]hostile {
	const good = `{"query": "{ __typename }"}`
	typed := func(kind string) hostile {
		return hostile{body: good, headers: []string{"Content-Type", kind}, status: http.StatusUnsupportedMediaType}
	}
	queried := func(query string) hostile { return hostile{method: http.MethodGet, path: "/graphql?" + query} }
	return map[string]hostile{
		"empty":                 {},
		"blank":                 {body: " \n"},
		"broken JSON":           {body: `{"query": "` + marker},
		"two values":            {body: good + good},
		"null":                  {body: `null`},
		"a string":              {body: `"` + marker + `"`},
		"a batch":               {body: `[` + good + `,` + good + `]`},
		"no query":              {body: `{"operationName": "` + marker + `"}`},
		"query is null":         {body: `{"query": null}`},
		"query is a number":     {body: `{"query": 7}`},
		"query is an object":    {body: `{"query": {"a": "` + marker + `"}}`},
		"variables is a string": {body: `{"query": "{ __typename }", "variables": "` + marker + `"}`},
		"variables is a list":   {body: `{"query": "{ __typename }", "variables": ["` + marker + `"]}`},
		"operationName is true": {body: `{"query": "{ __typename }", "operationName": true}`},
		"extensions is a list":  {body: `{"query": "{ __typename }", "extensions": []}`},
		"unknown operationName": {body: `{"query": "query a { __typename }", "operationName": "` + marker + `"}`},
		"which operation":       {body: `{"query": "query a { __typename } query b { __typename }"}`},
		"deep JSON":             {body: strings.Repeat(`[`, 90_000)},
		"deeper JSON": {body: strings.Repeat(`[`, 200_000), status: http.StatusRequestEntityTooLarge,
			code: "REQUEST_TOO_LARGE"},
		"deep variables": {body: `{"query": "{ __typename }", "variables": {"a": ` + strings.Repeat(`[`, 50_000) +
			strings.Repeat(`]`, 50_000) + `}}`},
		"UTF-16": {body: "\xff\xfe{\x00}\x00"},

		"no content type":   typed(""),
		"text":              typed("text/plain"),
		"form":              typed("application/x-www-form-urlencoded"),
		"multipart":         typed("multipart/form-data; boundary=x"),
		"graphql":           typed("application/graphql"),
		"another charset":   typed("application/json; charset=utf-16"),
		"broken media type": typed("application/json; ="),

		"PUT": {method: http.MethodPut, body: good, status: http.StatusMethodNotAllowed,
			allow: "GET, HEAD, OPTIONS, POST"},
		"DELETE": {method: http.MethodDelete, status: http.StatusMethodNotAllowed,
			allow: "GET, HEAD, OPTIONS, POST"},
		"unknown method": {method: "BREW", body: good, status: http.StatusMethodNotAllowed,
			allow: "GET, HEAD, OPTIONS, POST"},
		"mutation by GET": {method: http.MethodGet,
			path:   "/graphql?query=mutation%7BdeleteLink(input:%7Bid:%221%22%7D)%7B__typename%7D%7D",
			status: http.StatusMethodNotAllowed, code: "BAD_REQUEST", allow: "POST"},
		"Accept": {body: good, headers: []string{"Accept", "text/html"}, status: http.StatusNotAcceptable},
		"Accept q=0": {body: good, headers: []string{"Accept", "application/json;q=0"},
			status: http.StatusNotAcceptable},

		"GET without a query":    queried(""),
		"GET broken variables":   queried("query=%7B__typename%7D&variables=%7B" + marker),
		"GET variables a list":   queried("query=%7B__typename%7D&variables=%5B%5D"),
		"GET control characters": queried("query=%00%01%7F"),
		"GET invalid UTF-8":      queried("query=%ff%fe"),
		"GET broken escapes":     queried("query=%zz"),
	}
}

// largeBodies are bodies about the limits: 256 KiB without log-in, 10 MiB with.
func largeBodies(t *testing.T, anonymousClient, member client) {
	t.Helper()
	padded := func(size int) []byte {
		frame := `{"query": "{ __typename }", "variables": {"unused": "` + marker + `"}}`
		return []byte(strings.Replace(frame, marker, marker+strings.Repeat("x", size-len(frame)), 1))
	}
	for name, c := range map[string]struct {
		client
		size, status int
		code         string
	}{
		"256 KiB, anonymous":   {anonymousClient, 256 << 10, http.StatusOK, ""},
		"256 KiB+1, anonymous": {anonymousClient, 256<<10 + 1, http.StatusRequestEntityTooLarge, "REQUEST_TOO_LARGE"},
		"300 kB, anonymous":    {anonymousClient, 300_000, http.StatusRequestEntityTooLarge, "REQUEST_TOO_LARGE"},
		"5 MB, anonymous":      {anonymousClient, 5_000_000, http.StatusRequestEntityTooLarge, "REQUEST_TOO_LARGE"},
		"300 kB, logged in":    {member, 300_000, http.StatusOK, ""},
		"10 MiB, logged in":    {member, 10 << 20, http.StatusOK, ""},
		"10 MiB+1, logged in":  {member, 10<<20 + 1, http.StatusRequestEntityTooLarge, "REQUEST_TOO_LARGE"},
		"300 kB, a forged log-in": {client{anonymousClient.server, "e30.e30.e30"}, 300_000, http.StatusUnauthorized,
			"UNAUTHENTICATED"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			a := must.Value(c.post(padded(c.size)))(t)
			harmless(t, a, began)
			if a.status != c.status || a.code() != c.code {
				t.Errorf("status %d, code %q, want %d, %q: %.500s", a.status, a.code(), c.status, c.code, a.body)
			}
		})
	}
}

// hostileTokens are tokens that were never issued.
func hostileTokens(t *testing.T, who tenant) {
	part := func(value any) string {
		text := must.Value(json.Marshal(value))(t)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	claims := map[string]any{
		"iss": who.public, "aud": "linkforge", "sub": who.id,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	genuine := strings.Split(who.token, ".")
	forged := func(header map[string]any, signature string) string {
		return "Bearer " + part(header) + "." + part(claims) + "." + signature
	}
	for name, authorization := range map[string]string{
		"none":                forged(map[string]any{"alg": "none", "typ": "at+jwt"}, ""),
		"None":                forged(map[string]any{"alg": "None", "typ": "at+jwt"}, ""),
		"none, signed":        forged(map[string]any{"alg": "none", "typ": "at+jwt"}, genuine[2]),
		"no alg":              forged(map[string]any{"typ": "at+jwt"}, genuine[2]),
		"another's signature": forged(map[string]any{"alg": "HS256", "typ": "at+jwt"}, genuine[2]),
		"another algorithm":   forged(map[string]any{"alg": "HS512", "typ": "at+jwt"}, genuine[2]),
		"RS256":               forged(map[string]any{"alg": "RS256", "typ": "at+jwt"}, genuine[2]),
		"a key to fetch": forged(map[string]any{"alg": "HS256", "typ": "at+jwt", "jku": "http://evil.com/" + marker},
			genuine[2]),
		"signature cut":  "Bearer " + who.token[:len(who.token)-2],
		"signature gone": "Bearer " + genuine[0] + "." + genuine[1] + ".",
		"two parts":      "Bearer " + genuine[0] + "." + genuine[1],
		"garbage":        "Bearer " + marker,
		"dots":           "Bearer ....",
		"empty":          "Bearer ",
		"no scheme":      who.token,
		"Basic":          "Basic " + base64.StdEncoding.EncodeToString([]byte("victim:"+marker)),
		"not UTF-8":      "Bearer \xff\xfe",
		"long":           "Bearer " + strings.Repeat("x", 30_000),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			a := must.Value(client{server: who.server}.post([]byte(`{"query":
				"{ me { id } }"}`), "Authorization", authorization))(t)
			harmless(t, a, began)
			if a.status != http.StatusUnauthorized || a.code() != "UNAUTHENTICATED" || strings.Contains(a.body, `"data"`) {
				t.Errorf("status %d: %.500s", a.status, a.body)
			}
			if got := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Bearer") {
				t.Errorf("WWW-Authenticate: %q", got)
			}
		})
	}
}

// foreign compares requests for objects of another tenant with requests for objects that do not
// exist: the responses are equal to the byte.
func foreign(t *testing.T, who, other tenant, theirs linkView) {
	unknown := func(id string) string { // of the same form, but not in use
		last := "0"
		if strings.HasSuffix(id, last) {
			last = "1"
		}
		return id[:len(id)-1] + last
	}
	ids := map[string][]string{
		"workspace": {other.workspaceID, unknown(other.workspaceID), "ws_1", "", "' OR 1=1 --", "\x00",
			"ws_" + strings.Repeat("0", 26) + "; DROP TABLE links"},
		"link": {theirs.ID, unknown(theirs.ID), "lnk_1", "", "' OR '1'='1", "\x00", strings.Repeat("x", 10_000)},
		"user": {other.id, unknown(other.id), "usr_1"},
		"slug": {other.slug, "unused-slug", "", "' OR 1=1 --"},
		"shortUrl": {theirs.ShortURL, theirs.ShortURL + "x", "", "/", who.public + "/' OR 1=1 --",
			"http://evil.com/" + theirs.Code},
	}
	for name, c := range map[string]struct{ kind, query, want string }{
		"workspace": {"workspace", `query ($x: ID!) { workspace(by: {id: $x}) { id name } }`,
			`{"data":{"workspace":null}}`},
		"by slug": {"slug", `query ($x: String!) { workspace(by: {slug: $x}) { id name } }`,
			`{"data":{"workspace":null}}`},
		"link": {"link", `query ($x: ID!) { link(by: {id: $x}) { id originalUrl clickCount } }`,
			`{"data":{"link":null}}`},
		"by shortUrl": {"shortUrl", `query ($x: String!) { link(by: {shortUrl: $x}) { id originalUrl } }`,
			`{"data":{"link":null}}`},
		"node, ws":   {"workspace", `query ($x: ID!) { node(id: $x) { id } }`, `{"data":{"node":null}}`},
		"node, link": {"link", `query ($x: ID!) { node(id: $x) { id } }`, `{"data":{"node":null}}`},
		"node, user": {"user", `query ($x: ID!) { node(id: $x) { id } }`, `{"data":{"node":null}}`},
		"previewCode": {"workspace", `query ($x: ID!) { previewCode(workspaceId: $x, url: "https://example.com/theirs") {
			codes existing { id } } }`, "NOT_FOUND"},
		"createLink": {"workspace", `mutation ($x: ID!) { createLink(input: {workspaceId: $x, url:
			"https://example.com/theirs"}) { link { id } created errors { code message field } } }`, "NOT_FOUND"},
		"deleteLink": {"link", `mutation ($x: ID!) { deleteLink(input: {id: $x}) { link { id } errors { code message
			field } } }`, "NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			var first string
			for i, id := range ids[c.kind] {
				a := must.Value(who.run(c.query, map[string]any{"x": id}))(t)
				if first = a.body; i > 0 {
					continue
				}
				if a.status != http.StatusOK || !strings.Contains(a.body, c.want) {
					t.Errorf("%q: status %d: %s", id, a.status, a.body)
				}
			}
			for _, id := range ids[c.kind] {
				if a, err := who.run(c.query, map[string]any{"x": id}); err != nil || a.body != first {
					t.Errorf("%q: %s, another's: %s: %v", id, a.body, first, err)
				}
			}
		})
	}
	if got := other.getLink(t, theirs.ID); got.Status != "ACTIVE" {
		t.Errorf("another's link was touched: %+v", got)
	}
	for _, query := range []string{
		fmt.Sprintf(`{ link(by: {id: "%s"}) { id } }`, theirs.ID),
		fmt.Sprintf(`{ workspace(by: {id: "%s"}) { id } }`, other.workspaceID),
		fmt.Sprintf(`mutation { deleteLink(input: {id: "%s"}) { link { id } } }`, theirs.ID),
	} {
		a, err := client{server: who.server}.run(query, nil)
		if err != nil || a.code() != "UNAUTHENTICATED" || slices.Contains([]int{0, 500}, a.status) {
			t.Errorf("anonymous, %s: status %d: %s: %v", query, a.status, a.body, err)
		}
	}
}
