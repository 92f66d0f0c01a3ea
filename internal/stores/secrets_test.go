package stores_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/stores"
)

func embedded(t *testing.T, dir, jwtSecret string) config.Config {
	t.Helper()
	c := must.Value(config.Parse(map[string]string{"LINKFORGE_DATA_DIR": dir, "LINKFORGE_JWT_SECRET": jwtSecret},
		config.Checks{}))(t)
	return c
}

// TestSecrets_AreCreatedOnce for each instance, and readable by their owner only.
func TestSecrets_AreCreatedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, again := embedded(t, dir, ""), embedded(t, dir, "")
	for _, c := range []*config.Config{&first, &again} {
		must.NoError(t, stores.FillSecrets(c))
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("at the next start (-first +again):\n%s", diff)
	}
	if len(first.JWTSecrets[0]) < config.MinSecretBytes || len(first.CodeSecrets[0]) < config.MinSecretBytes ||
		bytes.Equal(first.JWTSecrets[0], first.CodeSecrets[0]) {
		t.Errorf("secrets of %d and %d bytes, or the same one twice", len(first.JWTSecrets[0]),
			len(first.CodeSecrets[0]))
	}
	for _, f := range must.Value(os.ReadDir(dir))(t) {
		if mode := must.Value(f.Info())(t).Mode().String(); mode != "-rw-------" {
			t.Errorf("%s is %s", f.Name(), mode)
		}
	}
	other := embedded(t, t.TempDir(), "")
	if err := stores.FillSecrets(&other); err != nil || bytes.Equal(other.JWTSecrets[0], first.JWTSecrets[0]) ||
		bytes.Equal(other.CodeSecrets[0], first.CodeSecrets[0]) {
		t.Errorf("another instance has the same secrets: %v", err)
	}
}

func TestSecrets_UseConfiguredValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	given := strings.Repeat("given ", 6)
	c := embedded(t, dir, given)
	if err := stores.FillSecrets(&c); err != nil || string(c.JWTSecrets[0]) != given ||
		len(c.CodeSecrets[0]) < config.MinSecretBytes {
		t.Errorf("%q and %d bytes: %v", c.JWTSecrets[0], len(c.CodeSecrets[0]), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "jwt.secret")); !os.IsNotExist(err) {
		t.Errorf("a given secret was written down: %v", err)
	}
}

func TestSecrets_RefuseShortFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"jwt.secret", "code.secret"} {
		for _, content := range []string{"", strings.Repeat("x", 31)} {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			must.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			c := embedded(t, dir, "")
			err := stores.FillSecrets(&c)
			if err == nil || !strings.Contains(err.Error(), path) ||
				content != "" && strings.Contains(err.Error(), content) {
				t.Errorf("%s of %d bytes: %v", name, len(content), err)
			}
			if kept, err := os.ReadFile(path); err != nil || string(kept) != content {
				t.Errorf("%s was replaced by %d bytes: %v", name, len(kept), err)
			}
		}
	}
}

func TestSecrets_IgnorePartialFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A process that died while it wrote leaves this.
	must.NoError(t, os.WriteFile(filepath.Join(dir, "jwt.secret.new"), []byte(strings.Repeat("half", 100)), 0o600))
	c := embedded(t, dir, "")
	if err := stores.FillSecrets(&c); err != nil || bytes.Contains(c.JWTSecrets[0], []byte("half")) {
		t.Errorf("%q: %v", c.JWTSecrets[0], err)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "jwt.secret"))
	if diff := cmp.Diff(string(c.JWTSecrets[0]), string(kept)); diff != "" || err != nil {
		t.Errorf("%v, kept (-used +kept):\n%s", err, diff)
	}
}

func TestSecrets_NeedADataFolder(t *testing.T) {
	t.Parallel()
	c := embedded(t, filepath.Join(t.TempDir(), "missing"), "")
	if err := stores.FillSecrets(&c); err == nil {
		t.Error("secrets that are kept nowhere")
	}
}
