package account

import (
	"net/mail"
	"strings"
	"unicode"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/validate"
)

// maxEmailBytes is the longest address that mail can be sent to (RFC 5321, section 4.5.3.1.3, less the brackets).
const maxEmailBytes = 254

// CheckEmail returns the address in the form in which it is kept and compared. It returns InvalidInput.
func CheckEmail(email string) (string, error) {
	email = fold(email)
	if len(email) > maxEmailBytes || strings.ContainsFunc(email, odd) {
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

// fold makes addresses that differ in case one: no provider in use tells them apart.
func fold(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

func odd(r rune) bool {
	return unicode.IsControl(r) || unicode.IsSpace(r) || validate.Invisible(r) || r == unicode.ReplacementChar
}
