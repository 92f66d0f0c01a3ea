package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
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
		"by POST": {http.MethodPost, "/graphql", `{"documentId": "` + id + `"}`, http.StatusOK, ""},
		"another": {http.MethodPost, "/graphql", `{"query": "{ __typename }"}`, http.StatusForbidden,
			"DOCUMENT_NOT_ALLOWED"},
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
