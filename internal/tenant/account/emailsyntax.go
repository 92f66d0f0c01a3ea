package account

import (
	"net/mail"
	"strings"
	"unicode"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// maxEmailBytes is the maximum of RFC 5321, section 4.5.3.1.3, without the brackets.
const maxEmailBytes = 254

// CheckEmail returns the stored form of an address. It returns InvalidInput.
func CheckEmail(email string) (string, error) {
	email = fold(email)
	_, domain, _ := cutDomain(email)
	if len(email) > maxEmailBytes || strings.ContainsFunc(email, isInvalid) ||
		strings.ContainsFunc(domain, func(r rune) bool { return r > unicode.MaxASCII }) {
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

// fold returns an address as it is compared: without differences of case, as all mail providers in
// use do, in validate.Normal form, and with its domain in ASCII (RFC 5890). A domain that has no
// such form stays as it is.
func fold(email string) string {
	email = validate.Normal(strings.ToLower(strings.TrimSpace(email)))
	local, domain, ok := cutDomain(email)
	if ascii, err := urlnorm.ASCII(domain); ok && err == nil {
		return local + "@" + ascii
	}
	return email
}

// cutDomain splits an address at its last @.
func cutDomain(email string) (local, domain string, ok bool) {
	at := strings.LastIndexByte(email, '@')
	if at < 0 {
		return email, "", false
	}
	return email[:at], email[at+1:], true
}

func isInvalid(r rune) bool {
	return unicode.IsControl(r) || unicode.IsSpace(r) || validate.Invisible(r) || r == unicode.ReplacementChar
}
