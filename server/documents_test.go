package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/must"
)

// listed writes a file of documents by id.
func listed(t *testing.T, documents map[string]string) (file string) {
	t.Helper()
	content := must.Value(json.Marshal(documents))(t)
	file = filepath.Join(t.TempDir(), "persisted-documents.json")
	must.NoError(t, os.WriteFile(file, content, 0o600))
	return file
}

// TestDocuments_RefuseABadList: the server reports its problems, and does not start.
func TestDocuments_RefuseABadList(t *testing.T) {
	t.Parallel()
	env := embedded(t).env
	said := failing(t, append(env, "LINKFORGE_DOCUMENTS="+listed(t, map[string]string{"good": "{ __typename }",
		"bad": "{ nothing }"}))...)
	if !strings.Contains(said, "LINKFORGE_DOCUMENTS: ") || !strings.Contains(said, `document "bad"`) ||
		!strings.Contains(said, `"nothing"`) || strings.Contains(said, `"good"`) {
		t.Errorf("a document that is not valid: %s", said)
	}
	said = failing(t, append(env, "LINKFORGE_MAX_COST=5", "LINKFORGE_COST_RATE=4")...)
	if !strings.Contains(said, "LINKFORGE_COST_RATE: ") {
		t.Errorf("less a minute than at once: %s", said)
	}
}

// TestDocuments_OnlyListedOnesRun executes those alone.
func TestDocuments_OnlyListedOnesRun(t *testing.T) {
	t.Parallel()
	const name = "query Name { __typename }"
	sum := sha256.Sum256([]byte(name))
	id := "sha256:" + hex.EncodeToString(sum[:])
	s := start(t, embedded(t), "LINKFORGE_DOCUMENTS_ONLY=on",
		"LINKFORGE_DOCUMENTS="+listed(t, map[string]string{id: name}))
	c := client{server: s}
	for what, h := range map[string]struct {
		method, path, body string
		status             int
		code               string
	}{
		"by POST":   {http.MethodPost, "/graphql", `{"documentId": "` + id + `"}`, http.StatusOK, ""},
		"by GET":    {http.MethodGet, "/graphql?documentId=" + url.QueryEscape(id), "", http.StatusOK, ""},
		"the whole": {http.MethodPost, "/graphql", `{"query": "` + name + `"}`, http.StatusOK, ""},
		"another": {http.MethodPost, "/graphql", `{"query": "{ __typename }"}`, http.StatusForbidden,
			"DOCUMENT_NOT_ALLOWED"},
		"another's id": {http.MethodPost, "/graphql", `{"documentId": "x"}`, http.StatusBadRequest,
			"PERSISTED_QUERY_NOT_FOUND"},
	} {
		t.Run(what, func(t *testing.T) {
			a, err := c.request(h.method, h.path, h.body, "Content-Type", "application/json", "Accept",
				"application/graphql-response+json")
			if err != nil || a.status != h.status || a.code() != h.code {
				t.Errorf("%v: %d %s", err, a.status, a.body)
			}
		})
	}
}

// TestCostRate_IsSharedByNodes together, and an operation's bounds are those of the environment.
func TestCostRate_IsSharedByNodes(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b.alone(t), b.nodes, "LINKFORGE_RATE_LIMITS=on", "LINKFORGE_COST_RATE=300",
			"LINKFORGE_MAX_COST=40")
		who := nodes[0].tenant(t, "dear").client // with a budget of its own
		var before *int
		for i := 0; ; i++ {
			who.server = nodes[i%len(nodes)]
			a, err := who.run(`{ rateLimit { limit cost remaining resetsAt __typename } }`, nil)
			must.NoError(t, err)
			if a.status == http.StatusTooManyRequests && before != nil && *before < 6 && a.code() == "RATE_LIMITED" {
				break
			}
			var got struct {
				Data struct {
					RateLimit struct{ Limit, Cost, Remaining *int }
				}
			}
			err = json.Unmarshal([]byte(a.body), &got)
			limit := got.Data.RateLimit
			if err != nil || a.status != http.StatusOK || limit.Remaining == nil || *limit.Limit != 300 || *limit.Cost != 6 ||
				before != nil && *limit.Remaining != *before-6 {
				t.Fatalf("operation %d: %v: %d %s", i+1, err, a.status, a.body)
			}
			before = limit.Remaining
		}
		other := nodes[0].tenant(t, "other").client
		a, err := other.run(`{`+strings.Repeat(" __typename", 41)+`}`, nil)
		if err != nil || a.code() != "COMPLEXITY_LIMIT_EXCEEDED" ||
			!strings.Contains(a.body, "costs 41 points. The maximum is 40.") {
			t.Errorf("%v: %s", err, a.body)
		}
	})
}
