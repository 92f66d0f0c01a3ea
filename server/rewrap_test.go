package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/stores"
)

// TestEncryptionKey_IsReplacedNodeByNode replaces the key as docs/OPERATIONS.md describes it. Requests of webhooks are signed with the
// same secrets all the time, and no server starts without a key in use.
func TestEncryptionKey_IsReplacedNodeByNode(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const key, previous = "LINKFORGE_ENCRYPTION_KEY=", "LINKFORGE_ENCRYPTION_KEY_PREVIOUS="
		newKey, otherKey := strings.Repeat("0b", 32), strings.Repeat("0c", 32)
		steps := [][]string{{previous + newKey}, {key + newKey, previous + encryptionKey}, {previous}}
		if b.nodes == 1 {
			steps = [][]string{{}, {previous}}
		}
		r := newHookReceiver(t, 0)
		nodes := startAll(t, b, b.nodes, "LINKFORGE_OUTBOUND_ALLOW=127.0.0.1")
		who := nodes[0].tenant(t, "rotating")
		var hooks []string
		hook := func(node *server) {
			webhookID, secret := who.onServer(node).hook(t, r.URL, nil, "LINK_CREATED")
			r.mu.Lock()
			defer r.mu.Unlock()
			hooks, r.secrets = append(hooks, webhookID), append(r.secrets, secret)
		}
		signed := func() {
			t.Helper()
			for _, node := range nodes {
				for _, webhookID := range hooks {
					var got struct {
						TestWebhook struct{ Attempt struct{ Status *int } }
					}
					who.onServer(node).must(t, &got, `mutation ($id: ID!) { testWebhook(input: {id: $id}) { attempt { status } } }`,
						map[string]any{"id": webhookID})
					if status := got.TestWebhook.Attempt.Status; status == nil || *status != http.StatusOK {
						t.Errorf("a request is not signed: %+v", got)
					}
				}
			}
		}
		hook(nodes[0])
		who.must(t, &struct{}{}, `mutation ($id: ID!) { rotateWebhookSecret(input: {id: $id}) { errors { code } } }`, map[string]any{"id": hooks[0]})
		for i, settings := range steps {
			if file := filepath.Join(folderOf(nodes[0].env), stores.EncryptionKeyName); b.nodes == 1 && i == 0 {
				oldKey := sha256.Sum256(must.Value(os.ReadFile(file))(t))
				must.NoError(t, os.Remove(file))
				settings = []string{previous + hex.EncodeToString(oldKey[:])}
			}
			isLast := i == len(steps)-1
			if isLast {
				var tests sync.WaitGroup
				tests.Go(signed)
				rows := rowsOf(t, nodes[0].env, "secrets", "rewrap")
				tests.Wait()
				if len(rows) != 1 || rows[0]["state"] != "CURRENT" || rows[0]["secrets"] != float64(len(hooks)+1) {
					t.Errorf("keys in use: %v", rows)
				}
			}
			for _, node := range nodes {
				node.stop()
				node.env = append(node.env, settings...)
				node.again()
				hook(node)
				signed()
			}
		}
		nodes[0].stop()
		said := failing(t, append(nodes[0].env, key+otherKey)...)
		if !strings.Contains(said, "LINKFORGE_ENCRYPTION_KEY_PREVIOUS lack keys") || strings.Contains(said, otherKey) {
			t.Errorf("with another key: %s", said)
		}
		_, problem, status := command(t, append(nodes[0].env, key+otherKey), "", "secrets", "rewrap")
		if status != 1 || !strings.Contains(problem, "secrets of other keys remain") {
			t.Errorf("secrets rewrap with another key: exit status %d, %s", status, problem)
		}
		nodes[0].again()
		signed()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.invalid > 0 {
			t.Errorf("%d requests with an invalid signature", r.invalid)
		}
	})
}
