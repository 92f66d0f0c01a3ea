package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func embedded(t *testing.T, dir string, env map[string]string) Config {
	t.Helper()
	c, err := Parse(with(env, "LINKFORGE_DATA_DIR", dir))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSecretsAreMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, again := embedded(t, dir, nil), embedded(t, dir, nil)
	for _, c := range []*Config{&first, &again} {
		if err := c.FillSecrets(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("at the next start (-first +again):\n%s", diff)
	}
	if len(first.JWTSecret) < MinSecretBytes || len(first.CodeSecrets[0]) < MinSecretBytes || bytes.Equal(first.JWTSecret, first.CodeSecrets[0]) {
		t.Errorf("secrets of %d and %d bytes, or the same one twice", len(first.JWTSecret), len(first.CodeSecrets[0]))
	}
	other := embedded(t, t.TempDir(), nil)
	if err := other.FillSecrets(); err != nil || bytes.Equal(other.JWTSecret, first.JWTSecret) || bytes.Equal(other.CodeSecrets[0], first.CodeSecrets[0]) {
		t.Errorf("another instance has the same secrets: %v", err)
	}
}

func TestSecretsAreTheirOwnersOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := embedded(t, dir, nil)
	if err := c.FillSecrets(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name()] = info.Mode().String()
	}
	want := map[string]string{"jwt.secret": "-rw-------", "code.secret": "-rw-------"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the folder holds (-want +got):\n%s", diff)
	}
}

func TestGivenSecretsAreUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	given := strings.Repeat("given ", 6)
	c := embedded(t, dir, map[string]string{"LINKFORGE_JWT_SECRET": given})
	if err := c.FillSecrets(); err != nil || string(c.JWTSecret) != given || len(c.CodeSecrets[0]) < MinSecretBytes {
		t.Errorf("%q and %d bytes: %v", c.JWTSecret, len(c.CodeSecrets[0]), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "jwt.secret")); !os.IsNotExist(err) {
		t.Errorf("a given secret was written down: %v", err)
	}
	if _, err := Parse(map[string]string{"LINKFORGE_CODE_SECRET": "short"}); !cmp.Equal(blamed(err), []string{"LINKFORGE_CODE_SECRET"}) {
		t.Errorf("a short one is given: %v", err)
	}
}

func TestAShortSecretFileIsKeptAndRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"jwt.secret", "code.secret"} {
		for _, content := range []string{"", strings.Repeat("x", 31)} {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			c := embedded(t, dir, nil)
			err := c.FillSecrets()
			if err == nil || !strings.Contains(err.Error(), path) || content != "" && strings.Contains(err.Error(), content) {
				t.Errorf("%s of %d bytes: %v", name, len(content), err)
			}
			if kept, err := os.ReadFile(path); err != nil || string(kept) != content {
				t.Errorf("%s was replaced by %d bytes: %v", name, len(kept), err)
			}
		}
	}
}

func TestAHalfWrittenSecretIsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A process that died while it wrote leaves this.
	if err := os.WriteFile(filepath.Join(dir, "jwt.secret.new"), []byte(strings.Repeat("half", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := embedded(t, dir, nil)
	if err := c.FillSecrets(); err != nil || bytes.Contains(c.JWTSecret, []byte("half")) {
		t.Errorf("%q: %v", c.JWTSecret, err)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "jwt.secret"))
	if diff := cmp.Diff(string(c.JWTSecret), string(kept)); diff != "" || err != nil {
		t.Errorf("%v, kept (-used +kept):\n%s", err, diff)
	}
}

func TestWithoutAFolderThereAreNoSecrets(t *testing.T) {
	t.Parallel()
	c := embedded(t, filepath.Join(t.TempDir(), "missing"), nil)
	if err := c.FillSecrets(); err == nil {
		t.Error("secrets that are kept nowhere")
	}
}

func TestSplitSecrets(t *testing.T) {
	t.Parallel()
	long, other := strings.Repeat("a", MinSecretBytes), strings.Repeat("b", MinSecretBytes)
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"one secret", long, []string{long}},
		{"a list", long + "," + other, []string{long, other, other + "\n", long + "," + other}},
		{"a list with white space", long + ", \n\n" + other + ",\n", []string{long, other, other + "\n", long + ", \n\n" + other + ",\n"}},
		{"one secret with a comma", "a pass phrase, which has a comma and is long", []string{"a pass phrase, which has a comma and is long"}},
		{"lines, one with a comma", long + "\na pass phrase, which has a comma and is long\n", []string{
			long, "a pass phrase, which has a comma and is long", "a pass phrase, which has a comma and is long\n",
			long + "\na pass phrase, which has a comma and is long\n",
		}},
		{"one secret that ends in white space", long + " ", []string{long + " "}},
		{"a part that is too short", long + ",short", []string{long + ",short"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, secret := range SplitSecrets([]byte(c.value)) {
				got = append(got, string(secret))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("secrets (-want +got):\n%s", diff)
			}
		})
	}
}
