package secrets_test

import (
	"bytes"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/secrets"
)

// oldKey, newKey and lostKey are keys.
var oldKey, newKey, lostKey = bytes.Repeat([]byte("o"), 32), bytes.Repeat([]byte("n"), 32), bytes.Repeat([]byte("l"),
	32)

// TestBox_OpensWhatItSealed opens secrets with each key and at each place, and no other.
func TestBox_OpensWhatItSealed(t *testing.T) {
	t.Parallel()
	old, both := secrets.Box{Key: oldKey}, secrets.Box{Key: newKey, Previous: [][]byte{oldKey}}
	for name, secret := range map[string][]byte{
		"empty": {}, "a text": []byte("token"), "bytes": {0, 0xff, 0, 0xc3, 0x28, 0},
		"like a sealed one": []byte("sealed1:12345678"),
	} {
		value := must.Value(old.Seal(secrets.TaskSecret, "a", secret))(t)
		for _, box := range []secrets.Box{old, both} {
			if got, err := box.Open(secrets.TaskSecret, "a", value); err != nil || !bytes.Equal(got, secret) {
				t.Errorf("%s: %q, want %q: %v", name, got, secret, err)
			}
		}
		if bytes.Equal(value, must.Value(old.Seal(secrets.TaskSecret, "a", secret))(t)) {
			t.Errorf("%s: a nonce is used twice", name)
		}
		refused := func(box secrets.Box, p secrets.Place, id string, v []byte) {
			t.Helper()
			if got, err := box.Open(p, id, v); err == nil {
				t.Errorf("%s: it opens: %q", name, got)
			}
		}
		refused(old, secrets.WebhookSecret, "a", value)
		refused(old, secrets.TaskSecret, "b", value)
		refused(old, secrets.TaskSecret, "a", must.Value(both.Seal(secrets.TaskSecret, "a", secret))(t))
		refused(secrets.Box{Key: newKey}, secrets.TaskSecret, "a", value)
		for i := range value {
			refused(old, secrets.TaskSecret, "a", value[:i])
			changed := bytes.Clone(value)
			changed[i] ^= 1
			refused(old, secrets.TaskSecret, "a", changed)
		}
	}
}

// TestBox_NeedsAKey uses a box without one.
func TestBox_NeedsAKey(t *testing.T) {
	t.Parallel()
	_, sealing := secrets.Box{}.Seal(secrets.TaskSecret, "a", []byte("s"))
	_, opening := secrets.Box{}.Open(secrets.TaskSecret, "a", []byte("s"))
	if !errs.Is(sealing, errs.Forbidden) || !errs.Is(opening, errs.Forbidden) {
		t.Errorf("%v, %v", sealing, opening)
	}
}
