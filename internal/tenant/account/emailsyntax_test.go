package account

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestCheckEmail_ReturnsTheComparedForm(t *testing.T) {
	t.Parallel()
	const punycode = "user@xn--bcher-kva.example"
	for email, want := range map[string]string{
		"user@b\u00fccher.example": punycode, "User@B\u00dcCHER.Example ": punycode,
		"user@bu\u0308cher.example":  punycode,
		"user@XN--Bcher-KVA.example": punycode, "user@b\u00fccher\u3002example": punycode,
		"user@stra\u00dfe.example": "user@xn--strae-oqa.example",
		"Jose\u0301@Example.com":   "jos\u00e9@example.com", "a+b@example.com": "a+b@example.com",
		"user@xn--\u00fc.example": "", "user@\u00fc..example": "", "user@example.com.": "", "b\u00fccher.example": "",
		"user@": "", "user@\u00fc\u202e.example": "", "": "", "Ada <ada@example.com>": "", "Ada<ada@example.com>": "",
		"<ada@example.com>": "", "ada@example.com(Ada)": "", `"ada"@example.com`: "", "a@example.com, b@a.example": "",
		"ada@example.com\nBcc: eve@example.com": "", "ad\u200ba@example.com": "", "ada@exam\u200dple.com": "",
		"ada\x00@example.com": "", "ada\xff@example.com": "", strings.Repeat("a", 243) + "@example.com": "",
	} {
		if got, err := CheckEmail(email); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", email, got, err, want)
		}
	}
}

// TestAccount_IsOneForAllSpellingsOfItsAddress at registration, log-in, password resets and the
// operator's commands.
func TestAccount_IsOneForAllSpellingsOfItsAddress(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		from := Client{Address: "192.0.2.1"}
		registered := must.Value(b.Register(t.Context(), "user@b\u00fccher.example", "correct horse", "Ada", from,
			nil))(t)
		for _, email := range []string{"USER@xn--bcher-kva.example", "user@bu\u0308cher.example",
			"User@B\u00dcCHER.example"} {
			if _, err := b.Register(t.Context(), email, "correct horse", "Eve", from, nil); !errs.Is(err,
				errs.EmailTaken) {
				t.Errorf("%s is another account: %v", email, err)
			}
			if l, err := b.Login(t.Context(), email, "correct horse", from); err != nil ||
				l.Account.ID != registered.Account.ID {
				t.Errorf("logging in as %s: %v", email, err)
			}
			if _, _, err := b.EndSessions(t.Context(), email); err != nil {
				t.Errorf("ending the sessions of %s: %v", email, err)
			}
		}
		for _, part := range []string{"B\u00fccher.example", "user@b\u00fccher.example", "xn--bcher", "user"} {
			if found, err := b.AdminList(t.Context(), part, "", 10); len(found) != 1 || err != nil {
				t.Errorf("%q finds %v: %v", part, found, err)
			}
		}
	})
}
