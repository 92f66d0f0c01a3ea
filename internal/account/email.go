package account

import (
	"net/mail"
	"strings"
	"unicode"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/validate"
)

// maxEmailBytes is the maximum of RFC 5321, section 4.5.3.1.3, without the brackets.
const maxEmailBytes = 254

// CheckEmail returns the stored form of an address. It returns InvalidInput.
func CheckEmail(email string) (string, error) {
	email = fold(email)
	if len(email) > maxEmailBytes || strings.ContainsFunc(email, isInvalid) {
		return "", errEmail()
	}
	if parsed, err := mail.ParseAddress(email); err != nil || parsed.Address != email {
		return "", errEmail()
	}
	return email, nil
}

func errEmail() error {
	return errs.New(errs.InvalidInput, "This is not an e-mail address. It looks like name@example.com.").At("email")
}

// fold ignores case, as all mail providers in use do.
func fold(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

func isInvalid(r rune) bool {
	return unicode.IsControl(r) || unicode.IsSpace(r) || validate.Invisible(r) || r == unicode.ReplacementChar
}
