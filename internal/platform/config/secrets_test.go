package config

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// TestSecrets_ReadsEncryptionKeys reads previous keys with and without a current one.
func TestSecrets_ReadsEncryptionKeys(t *testing.T) {
	t.Parallel()
	const current, previous = "LINKFORGE_ENCRYPTION_KEY", "LINKFORGE_ENCRYPTION_KEY_PREVIOUS"
	hexadecimal, base64 := strings.Repeat("0a", 32), strings.Repeat("C", 42)+"A="
	for _, c := range []struct {
		name, current, previous string
		want                    []string
	}{
		{"two", hexadecimal, hexadecimal + ", " + base64, nil},
		{"none", hexadecimal, "", nil},
		{"a short one", hexadecimal, base64 + ",0a0a", []string{previous}},
		{"without a current one", "", hexadecimal, []string{previous}},
	} {
		got, err := Parse(with(with(setup(), current, c.current), previous, c.previous), checks)
		wanttest.Equal(t, c.want, blamed(err), "%s: blamed", c.name)
		if c.name == "two" && (len(got.EncryptionKeysPrevious) != 2 ||
			string(got.EncryptionKeysPrevious[0]) != strings.Repeat("\n", 32)) {
			t.Errorf("%s: %x", c.name, got.EncryptionKeysPrevious)
		}
	}
	embedded := map[string]string{previous: hexadecimal} // the data folder has the current one
	if c, err := Parse(embedded, checks); err != nil || len(c.EncryptionKeysPrevious) != 1 {
		t.Errorf("embedded: %v", err)
	}
}

func TestSecrets_AreSplit(t *testing.T) {
	t.Parallel()
	long, other := strings.Repeat("a", MinSecretBytes), strings.Repeat("b", MinSecretBytes)
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"one secret", long, []string{long}},
		{"a list", long + "," + other, []string{long, other}},
		{"a list with white space", long + ", \n\n" + other + ",\n",
			[]string{long, other}},
		{"one secret with a comma", "a pass phrase, which has a comma and is long",
			[]string{"a pass phrase, which has a comma and is long"}},
		{"lines, one with a comma", long + "\na pass phrase, which has a comma and is long\n", []string{
			long, "a pass phrase, which has a comma and is long",
		}},
		{"one secret that ends in white space", long + " ", []string{long + " "}},
		{"a part that is too short", long + ",short", []string{long + ",short"}},
	} {
		var got []string
		for _, secret := range SplitSecrets([]byte(c.value)) {
			got = append(got, string(secret))
		}
		wanttest.Equal(t, c.want, got, "%s: secrets", c.name)
	}
}
