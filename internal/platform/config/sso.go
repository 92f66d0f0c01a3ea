package config

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// discoveryPath is where a provider has its metadata, below its issuer (OpenID Connect Discovery,
// section 4).
const discoveryPath = "/.well-known/openid-configuration"

// checkSSO is a part of checkCombinations.
func (r *reader) checkSSO() {
	if r.texts["LINKFORGE_SSO_ISSUER"] == "" {
		for _, env := range []string{ // those without a default
			"LINKFORGE_SSO_CLIENT_ID", "LINKFORGE_SSO_CLIENT_SECRET", "LINKFORGE_SSO_REDIRECTS",
			"LINKFORGE_SSO_EMAIL_DOMAINS",
			"LINKFORGE_SSO_MEMBERSHIPS",
		} {
			if r.texts[env] != "" {
				r.report(env, "is of no use without LINKFORGE_SSO_ISSUER, as in https://login.example.com: set that, "+
					"or remove this one")
			}
		}
		if !r.PasswordLogin && r.isValid("LINKFORGE_PASSWORD_LOGIN") {
			r.report("LINKFORGE_PASSWORD_LOGIN", "cannot be off without LINKFORGE_SSO_ISSUER: no user could log in")
		}
		return
	}
	for _, needed := range []struct{ env, what string }{
		{"LINKFORGE_SSO_CLIENT_ID", "the ID of the client that is registered at the provider"},
		{"LINKFORGE_SSO_CLIENT_SECRET", "the secret of the client that is registered at the provider"},
		{"LINKFORGE_SSO_REDIRECTS",
			"the page of the front end to which the provider redirects, as in https://app.example.com/sso"},
	} {
		if strings.Trim(r.texts[needed.env], ", ") == "" {
			r.report(needed.env, "is required with LINKFORGE_SSO_ISSUER: %s", needed.what)
		}
	}
	if r.isProduction() && strings.HasPrefix(r.SSO.Issuer, "http://") && r.isValid("LINKFORGE_SSO_ISSUER") {
		r.report("LINKFORGE_SSO_ISSUER",
			"must start with https:// in production: an attacker between this server and the provider "+
				"could log in as any user")
	}
}

// isValid reports whether the setting has no problem of its own.
func (r *reader) isValid(env string) bool {
	return !slices.ContainsFunc(r.problems, func(err error) bool { return strings.HasPrefix(err.Error(), env+": ") })
}

// parseIssuer leaves an issuer as it is: the provider's metadata and tokens repeat it exactly.
func parseIssuer(text string) (string, error) {
	if strings.HasSuffix(strings.TrimSuffix(text, "/"), discoveryPath) {
		return text, fmt.Errorf("must be the issuer alone: remove %s", discoveryPath)
	}
	if err := checkPage(text); err != nil || strings.Contains(text, "?") {
		return text, errors.New("must be a URL without a query, exactly as issuer in the metadata of the provider, " +
			"as in https://login.example.com")
	}
	return text, nil
}

// parseRedirect leaves a URL as it is: the provider compares it exactly.
func parseRedirect(text string) (string, error) {
	if err := checkPage(text); err != nil {
		return text,
			errors.New("must be URLs with commas between them, exactly as registered at the provider, without " +
				"fragments, as in https://app.example.com/sso")
	}
	return text, nil
}

// checkPage refuses all but absolute http and https URLs, and those with user, password, fragment
// or white space.
func checkPage(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil ||
		strings.Contains(text, "#") || strings.ContainsFunc(text, unicode.IsSpace) || !urlnorm.HasWholeAuthority(text) {
		return errors.New("is no URL of a page")
	}
	return nil
}

func parseEmail(text string) (string, error) {
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text {
		return text, errors.New("must be e-mail addresses with commas between them, as in admin@example.com")
	}
	return text, nil
}

func parseScopes(text string) (string, error) {
	scopes := strings.Fields(text)
	if !slices.Contains(scopes, "openid") || strings.ContainsAny(text, `,"\`) {
		return text, errors.New("must be scopes with spaces between them, and openid among them, as in openid email " +
			"profile")
	}
	return strings.Join(scopes, " "), nil
}

// parseText refuses characters that a file or a shell may have added to a text.
func parseText(text string) (string, error) {
	if strings.TrimSpace(text) != text || strings.ContainsFunc(text, unicode.IsControl) {
		return text, errors.New("must be one line without white space around it: remove that")
	}
	return text, nil
}

// parseGroupRole reads group=slug:ROLE. The name of a group may have = and colons.
func parseGroupRole(text string) (GroupRole, error) {
	at := strings.LastIndexByte(text, '=')
	group, rest := text[:max(at, 0)], text[at+1:]
	slug, role, _ := strings.Cut(rest, ":")
	if group == "" || slug == "" || strings.ContainsFunc(slug, unicode.IsSpace) {
		return GroupRole{}, errors.New("must be a list as in engineering=engines:EDITOR,it-admins=engines:ADMIN: " +
			"the group, the slug of the workspace, and the role")
	}
	if role == "OWNER" {
		return GroupRole{}, errors.New("cannot make owners: use ADMIN, and have an owner of the workspace make others")
	}
	if !slices.Contains([]string{"ADMIN", "EDITOR", "VIEWER"}, role) {
		return GroupRole{}, errors.New("must have a role of ADMIN, EDITOR or VIEWER after the colon")
	}
	return GroupRole{Group: group, Slug: slug, Role: role}, nil
}
