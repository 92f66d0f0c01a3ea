package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/stores"
)

// TestEncryptionKey_IsReplacedNodeByNode replaces the key as docs/OPERATIONS.md describes it.
// Requests of webhooks are signed with the same secrets all the time, the codes of an authenticator
// app are accepted, and no server starts without a key in use.
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
					same(t, "the status of a request", who.onServer(node).testHook(t, webhookID), "200")
				}
			}
		}
		one := nodes[0].tenant(t, "enrolled")
		secret := one.factor(t, "enrollTotp",
			map[string]any{"proof": map[string]any{"password": one.password}}, "secret").Secret
		// it is not if its time ends meanwhile
		polltest.Until(t, "the code before the present one is accepted", func() bool {
			before := must.Value(totp.GenerateCode(secret, time.Now().Add(-30*time.Second)))(t)
			return one.factor(t, "confirmTotp", map[string]any{"code": before}, "recoveryCodes").RecoveryCodes != nil
		})
		hook(nodes[0])
		who.do(t, "rotateWebhookSecret", map[string]any{"id": hooks[0]})
		for i, settings := range steps {
			if file := filepath.Join(folderOf(nodes[0].env), stores.EncryptionKeyName); b.nodes == 1 && i == 0 {
				oldKey := sha256.Sum256([]byte(readFile(t, file)))
				must.NoError(t, os.Remove(file))
				settings = []string{previous + hex.EncodeToString(oldKey[:])}
			}
			if i == len(steps)-1 {
				var tests sync.WaitGroup
				tests.Go(signed)
				rows := rowsOf(t, nodes[0].env, "secrets", "rewrap")
				tests.Wait()
				if want := float64(len(hooks) + 2); len(rows) != 1 || rows[0]["state"] != "CURRENT" ||
					rows[0]["secrets"] != want {
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
		declined(t, nodes[0].env, "--yes is needed", "secrets", "rewrap", "--lost", "abcdef")
		declined(t, append(nodes[0].env, key+otherKey), "secrets of other keys remain", "secrets", "rewrap")
		nodes[0].again()
		signed()
		a := client{server: nodes[0]}.factor(t, "login", map[string]any{"email": one.email, "password": one.password},
			"challenge { token }")
		proof := map[string]any{"totp": must.Value(totp.GenerateCode(secret, time.Now()))(t)}
		a = client{server: nodes[0]}.factor(t, "completeLogin",
			map[string]any{"challenge": a.Challenge.Token, "proof": proof}, "token")
		if a.Token == "" {
			t.Errorf("a code of an authenticator app: %+v", a)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.invalid > 0 {
			t.Errorf("%d requests with an invalid signature", r.invalid)
		}
	})
}
