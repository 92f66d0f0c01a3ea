package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/console"
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
	listedOne := must.Value(client{server: s}.post([]byte(`{"documentId": "` + id + `"}`)))(t)
	same(t, "the listed one", fmt.Sprint(listedOne.status, " ", listedOne.code()), "200 ")
	another := must.Value(client{server: s}.post([]byte(`{"query": "{ __typename }"}`)))(t)
	same(t, "another", fmt.Sprint(another.status, " ", another.code()), "403 DOCUMENT_NOT_ALLOWED")
	const options = "console/LoginOptions"
	body := must.Value(json.Marshal(map[string]string{"query": console.Documents()[options]}))(t)
	byText := must.Value(client{server: s}.post(body))(t)
	same(t, "one of the console", fmt.Sprint(byText.status, " ", byText.code()), "200 ")
	byName := must.Value(client{server: s}.post([]byte(`{"documentId": "` + options + `"}`)))(t)
	same(t, "its name", fmt.Sprint(byName.status, " ", byName.code()), "200 ")
}
