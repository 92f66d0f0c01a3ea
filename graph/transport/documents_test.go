package transport

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport/transporttest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

const typename = "query Name { __typename }"

// request is the body of a request, as a client writes it.
type request map[string]any

// automatic names a document by its hash, in the words of automatic persisted queries.
func automatic(hash string) map[string]any {
	return map[string]any{"persistedQuery": map[string]any{"version": 1, "sha256Hash": hash}}
}

func (r request) text(t *testing.T) string {
	t.Helper()
	text := must.Value(json.Marshal(r))(t)
	return string(text)
}

// query is the request as the parameters of a GET.
func (r request) query(t *testing.T) string {
	t.Helper()
	values := url.Values{}
	for name, value := range r {
		text, ok := value.(string)
		if !ok {
			text = request(value.(map[string]any)).text(t)
		}
		values.Set(name, text)
	}
	return "/graphql?" + values.Encode()
}

// ways are the transports of an operation. Each returns the final response.
func (b *bundle) ways(t *testing.T) map[string]func(request) string {
	server := httptest.NewServer(b.Handler)
	t.Cleanup(server.Close)
	t.Cleanup(b.stop)
	return map[string]func(request) string{
		"POST": func(r request) string {
			return b.send(t, "", http.MethodPost, "/graphql", "application/json", r.text(t), mediaGraphQL).Text
		},
		"GET": func(r request) string { return b.send(t, "", http.MethodGet, r.query(t), "", "", mediaGraphQL).Text },
		"events": func(r request) string {
			return transporttest.Serve(t, b, "POST", "/graphql", r.text(t), "Content-Type", "application/json",
				"Accept", mediaEvents).Body.String()
		},
		"socket": func(r request) string {
			conn, _, err := websocket.Dial(t.Context(), server.URL,
				&websocket.DialOptions{Subprotocols: []string{protocol}})
			must.NoError(t, err)
			defer conn.CloseNow()
			said := ""
			for _, m := range []string{`{"type":"connection_init"}`, `{"id":"1","type":"subscribe","payload":` +
				r.text(t) + `}`} {
				must.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(m)))
				_, answer, err := conn.Read(t.Context())
				must.NoError(t, err)
				said = string(answer)
			}
			return said
		},
	}
}

// TestDocuments_AreNamedByHashOnEveryTransport once they have been sent with it, on every way to the endpoint.
func TestDocuments_AreNamedByHashOnEveryTransport(t *testing.T) {
	t.Parallel()
	const answer = `{"__typename":"Query"}`
	for way := range setup(t).ways(t) {
		for name, by := range map[string]func(hash string) request{
			"extension": func(hash string) request { return request{"extensions": automatic(hash)} },
			"id":        func(hash string) request { return request{"documentId": sha256Prefix + hash} },
		} {
			b := setup(t)
			send := b.ways(t)[way]
			hash := hashOf(typename)
			if got := send(by(hash)); !strings.Contains(got, "PERSISTED_QUERY_NOT_FOUND") ||
				strings.Contains(got, answer) {
				t.Errorf("%s, by %s, unknown: %s", way, name, got)
			}
			wrong := by(hashOf(typename + " "))
			wrong["query"] = typename
			if got := send(wrong); !strings.Contains(got, "BAD_REQUEST") ||
				!strings.Contains(got, "hash is not that of the query") {
				t.Errorf("%s, by %s, another one's hash: %s", way, name, got)
			}
			both := by(hash)
			both["query"] = typename
			for _, r := range []request{both, by(hash), {"documentId": sha256Prefix + hash},
				{"extensions": automatic(hash)}} {
				if got := send(r); !strings.Contains(got, answer) {
					t.Errorf("%s, by %s: %v: %s", way, name, r, got)
				}
			}
			if got := send(by(hashOf(typename + " "))); !strings.Contains(got, "PERSISTED_QUERY_NOT_FOUND") {
				t.Errorf("%s, by %s, what was sent with another's hash is kept: %s", way, name, got)
			}
		}
	}
}

// TestDocuments_RefuseOtherNames with a message.
func TestDocuments_RefuseOtherNames(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hash := hashOf(typename)
	persisted := func(value any) request { return request{"extensions": map[string]any{"persistedQuery": value}} }
	for name, c := range map[string]struct {
		request request
		code    string
		// plain and graphql are the statuses of both media types.
		plain, graphql int
	}{
		"unknown hash": {request{"extensions": automatic(hash)}, "PERSISTED_QUERY_NOT_FOUND", 200, 400},
		"unknown id":   {request{"documentId": "abc"}, "PERSISTED_QUERY_NOT_FOUND", 200, 400},
		"another version": {persisted(map[string]any{"version": 2, "sha256Hash": hash}),
			"PERSISTED_QUERY_NOT_SUPPORTED", 200, 400},
		"no hash":      {persisted(map[string]any{"version": 1}), "BAD_REQUEST", 400, 400},
		"a short hash": {persisted(map[string]any{"version": 1, "sha256Hash": hash[1:]}), "BAD_REQUEST", 400, 400},
		"in upper case": {persisted(map[string]any{"version": 1, "sha256Hash": strings.ToUpper(hash)}),
			"BAD_REQUEST", 400, 400},
		"a text":            {persisted("yes"), "BAD_REQUEST", 400, 400},
		"two names":         {request{"extensions": automatic(hash), "documentId": "abc"}, "BAD_REQUEST", 400, 400},
		"a query and an id": {request{"query": typename, "documentId": "abc"}, "BAD_REQUEST", 400, 400},
		"neither":           {request{"extensions": map[string]any{"persistedQuery": nil}}, "BAD_REQUEST", 400, 400},
		"an id of a number": {request{"documentId": 7}, "BAD_REQUEST", 400, 400},
		"null beside a query": {request{"query": typename, "documentId": nil,
			"extensions": map[string]any{"persistedQuery": nil}}, "", 200, 200},
	} {
		for media, status := range map[string]int{mediaJSON: c.plain, mediaGraphQL: c.graphql} {
			r := b.send(t, "", http.MethodPost, "/graphql", "application/json", c.request.text(t), media)
			kind := r.Header.Get("Content-Type")
			if r.Codes() != c.code || r.Status != status || kind != media+"; charset=utf-8" {
				t.Errorf("%s as %s: %d, want %d: %s", name, media, r.Status, status, r.Text)
			}
		}
	}
	// Some clients know these two by their words.
	for code, words := range map[string]request{
		"PersistedQueryNotFound":     {"extensions": automatic(hash)},
		"PersistedQueryNotSupported": persisted(map[string]any{"version": 9}),
	} {
		if r := b.send(t, "", http.MethodPost, "/", "application/json", words.text(t),
			""); r.Errors[0].Message != code {
			t.Errorf("%s: %s", code, r.Text)
		}
	}
}

// TestDocuments_PersistedAreValidAndBounded: documents that are no good are not kept, and good ones
// take no more room than there is.
func TestDocuments_PersistedAreValidAndBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.persisted = newPersisted(100_000)
	send := func(query string) reply {
		return b.send(t, "", http.MethodPost, "/", "application/json",
			request{"query": query, "extensions": automatic(hashOf(query))}.text(t), mediaGraphQL)
	}
	for _, query := range []string{"{ nothing }", "{", "{ ...F } fragment F on Query { ...F }",
		"{" + strings.Repeat(" __typename", 2000) + "}"} {
		if r := send(query); len(r.Errors) == 0 {
			t.Fatal(r.Text)
		}
		if _, kept := b.persisted.GetIfPresent(hashOf(query)); kept {
			t.Errorf("kept: %.100s", query)
		}
	}
	for i := range 1000 {
		if r := send(fmt.Sprintf("{ __typename } #%d%s", i, strings.Repeat(" ", 1000))); len(r.Errors) > 0 {
			t.Fatal(r.Text)
		}
	}
	b.persisted.CleanUp()
	if n := b.persisted.EstimatedSize(); n == 0 || n > 100 {
		t.Errorf("%d documents of 1 KB in 100 KB", n)
	}
}

func loadManifest(file string) (*Manifest, error) {
	documents, err := ReadDocuments(file)
	if err != nil {
		return nil, err
	}
	limits := &limit.Document{Bounds: bounds(), Maxima: limit.UsualMaxima()}
	return NewManifest(newTestSchema().Schema(), limits, documents)
}

// manifest is a file with the content.
func manifest(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "persisted-documents.json")
	must.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// TestManifest_RestrictsDocuments are executed where the operator says so.
func TestManifest_RestrictsDocuments(t *testing.T) {
	t.Parallel()
	const me, watch = "query Me { me { id } }", "{ node(id: 1) { id } }"
	content := must.Value(json.Marshal(map[string]string{
		hashOf(typename): typename, sha256Prefix + hashOf(me): me, "watch": watch,
	}))(t)
	list := must.Value(loadManifest(manifest(t, "\ufeff"+string(content))))(t)
	open := setup(t, func(c *Config) { c.Documents = list })
	only := setup(t, func(c *Config) { c.Documents, c.DocumentsOnly = list, true })
	openWays, onlyWays := open.ways(t), only.ways(t)
	for way := range openWays {
		for name, c := range map[string]struct {
			request    request
			open, only string
		}{
			"a bare id of a bare one":  {request{"documentId": hashOf(typename)}, "data", "data"},
			"a bare id of one with it": {request{"documentId": hashOf(me)}, "data", "data"},
			"a prefix":                 {request{"documentId": sha256Prefix + hashOf(me)}, "data", "data"},
			"a name":                   {request{"documentId": "watch"}, "data", "data"},
			"the hash of a name's":     {request{"documentId": sha256Prefix + hashOf(watch)}, "data", "data"},
			"the extension":            {request{"extensions": automatic(hashOf(watch))}, "data", "data"},
			"with its operation":       {request{"documentId": hashOf(me), "operationName": "Me"}, "data", "data"},
			"with another operation": {request{"documentId": hashOf(me), "operationName": "Name"}, "BAD_REQUEST",
				"BAD_REQUEST"},
			"the whole of it":        {request{"query": me}, "data", "data"},
			"the whole and its hash": {request{"query": me, "extensions": automatic(hashOf(me))}, "data", "data"},
			"another one":            {request{"query": me + " "}, "data", "DOCUMENT_NOT_ALLOWED"},
			"another one with its hash": {request{"query": me + "\n", "extensions": automatic(hashOf(me + "\n"))},
				"data", "DOCUMENT_NOT_ALLOWED"},
			"another one's hash": {request{"extensions": automatic(hashOf("#" + me))},
				"PERSISTED_QUERY_NOT_FOUND", "PERSISTED_QUERY_NOT_SUPPORTED"},
			"another one's id": {request{"documentId": "unknown"}, "PERSISTED_QUERY_NOT_FOUND",
				"PERSISTED_QUERY_NOT_FOUND"},
		} {
			if got := openWays[way](c.request); !strings.Contains(got, c.open) {
				t.Errorf("open, %s, %s: %s", way, name, got)
			}
			if got := onlyWays[way](c.request); !strings.Contains(got, c.only) || c.only != "data" &&
				strings.Contains(got, `"data":{`) {
				t.Errorf("only, %s, %s: %s", way, name, got)
			}
		}
	}
	if r := only.post(t, me+" "); r.Status != http.StatusForbidden || !strings.Contains(r.Text, "Have it added") {
		t.Errorf("%d %s", r.Status, r.Text)
	}
}

// TestManifest_NamesEveryProblem with its place in the file.
func TestManifest_NamesEveryProblem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, says string }{
		"no JSON":           {`{"a": `, "must be a JSON object"},
		"numbers":           {`{"a": 1}`, "must be a JSON object"},
		"nothing":           {`{}`, "no documents"},
		"an empty id":       {`{"": "{ __typename }"}`, "id is empty"},
		"an empty document": {`{"a": ""}`, `document "a"`},
		"no UTF-8":          {"{\"a\":\"{ __typename } # \xe4\"}", "UTF-8"},
		"half a character":  {`{"a":"{ node(id: \"\\ud83d\") { id } }"}`, "UTF-8"},
		"an unknown field": {`{"good": "{ __typename }", "bad": "{ nothing }"}`,
			`document "bad": input:1:3: Cannot query field "nothing"`},
		"only a fragment": {`{"a": "fragment F on Query { __typename }"}`, `document "a"`},
		"too deep": {`{"a": "` + "{ me {" + strings.Repeat(" friend {", 19) + " id" + strings.Repeat(" }",
			21) + `"}`, "levels of nested fields. The maximum is 20"},
		"too long":           {`{"a": "{ __typename ` + strings.Repeat(" ", 64<<10) + `}"}`, "65536 bytes"},
		"another one's hash": {`{"sha256:` + hashOf("x") + `": "{ __typename }"}`, hashOf("{ __typename }")},
		"the same hash for it": {`{"` + hashOf(typename) + `": "{ __typename }", "b": "` + typename + `"}`,
			"another document"},
		"about the schema": {`{"a": "{ __schema { queryType { name } } }"}`, "Introspection"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadManifest(manifest(t, c.content))
			if err == nil || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), "persisted-documents.json") {
				t.Error(err)
			}
		})
	}
	if _, err := loadManifest(manifest(t, `{"a": "{ nothing }", "b": "{"}`)); strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("not both: %v", err)
	}
	if _, err := loadManifest(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("there is no file")
	}
}

// TestRequest_MatchesMemberNamesExactly sends names in another case, alone and after the right ones.
func TestRequest_MatchesMemberNamesExactly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hash := hashOf(typename)
	for way, send := range b.ways(t) {
		for name, r := range map[string]request{
			"query":      {"QUERY": typename},
			"documentId": {"documentID": sha256Prefix + hash},
			"extensions": {"Extensions": automatic(hash)},
			"long s":     {"exten\u017fions": automatic(hash)}, // which folds to s
		} {
			if got := send(r); !strings.Contains(got, "The request has no query") {
				t.Errorf("%s: %s in another case: %s", way, name, got)
			}
		}
		named := map[string]any{"version": 1, "SHA256HASH": hash}
		r := request{"query": typename, "extensions": map[string]any{"persistedQuery": named}}
		if got := send(r); !strings.Contains(got, "hash is its SHA-256") {
			t.Errorf("%s: sha256Hash in another case: %s", way, got)
		}
	}
	const echo = `query ($x: ID!) { node(id: $x) { id } }`
	for name, c := range map[string]struct{ body, want string }{
		"query":         {`{"query": "{ __typename }", "QUERY": "{ nothing }"}`, `"data":{"__typename":"Query"}`},
		"operationName": {`{"query": "{ __typename }", "OperationName": "Other"}`, `"data":{"__typename":"Query"}`},
		"variables": {`{"query": "` + echo + `", "Variables": {"x": "a"}}`,
			"node.id: A value of the type ID! is required."},
		"unknown":  {`{"query": "{ __typename }", "id": {"a": [1]}}`, `"data":{"__typename":"Query"}`},
		"repeated": {`{"query": "{ nothing }", "query": "{ __typename }"}`, `"data":{"__typename":"Query"}`},
		"repeated object": {
			`{"query": "` + echo + `", "variables": {"x": "a"}, "variables": {"y": "a"}}`,
			"node.id: A value of the type ID! is required.",
		},
		"repeated in an object": {
			`{"query": "` + echo + `", "variables": {"x": "a", "x": []}}`, "node.id: An ID is a string",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.send(t, "", http.MethodPost, "/graphql", "application/json", c.body, mediaGraphQL)
			if !strings.Contains(r.Text, c.want) {
				t.Errorf("want %s: %s", c.want, r.Text)
			}
		})
	}
}

// TestArguments_RefusesOnEveryTransport sends the wrong argument of a query and of a subscription.
func TestArguments_RefusesOnEveryTransport(t *testing.T) {
	t.Parallel()
	const marker = "wrong-value-5f0c"
	b := setup(t)
	for way, send := range b.ways(t) {
		for query, want := range map[string]string{
			`query ($x: ID!) { node(id: $x) { id } }`:         `"node.id: An ID is a string`,
			`subscription ($x: ID!) { watch(id: $x) { id } }`: `"watch.id: An ID is`,
		} {
			got := send(request{"query": query, "variables": map[string]any{"x": map[string]any{"a": marker}}})
			if !strings.Contains(got, want) || !strings.Contains(got, "BAD_REQUEST") || strings.Contains(got, marker) {
				t.Errorf("%s, %s: %s", way, query, got)
			}
		}
	}
	if log := b.log.String(); strings.Contains(log, marker) {
		t.Errorf("the log has the value: %s", log)
	}
}

// TestUnmarshalObject_RefusesWhatIsNotOneObject compares it with encoding/json.
func TestUnmarshalObject_RefusesWhatIsNotOneObject(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{}`, ` {"a": "x"} `, `null`, `{"b": [{"a": 1}], "a": "x"}`, `{"a": null}`,
		``, `[]`, `"x"`, `5`, `{`, `}`, `{,}`, `{"a"}`, `{"a":}`, `{"a" "x"}`, `{"a": "x",}`, `{"a": "x" "b": 1}`,
		`{"a": "x"`, `{a: "x"}`,
		`{"a": "x"}}`, `{"a": "x"} {}`, `{"a": "x"]`, `{"b": [}`, `{"b": 01}`, `{5: 5}`, `nullx`, `{"a": 5}`,
		`{"a": {}}`,
	} {
		var got string
		var want struct{ A string }
		err, wantErr := unmarshalObject([]byte(body), map[string]any{"a": &got}), json.Unmarshal([]byte(body), &want)
		if (err == nil) != (wantErr == nil) || err == nil && got != want.A {
			t.Errorf("%s: %q, %v; want %q, %v", body, got, err, want.A, wantErr)
		}
	}
}
