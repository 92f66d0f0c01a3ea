package sso

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

const (
	// maxSkew is the tolerated difference between the clocks; maxTokenAge is how old an ID token
	// may be.
	maxSkew     = time.Minute
	maxTokenAge = 10 * time.Minute
	// maxSubject bounds the claim sub, in characters of ASCII (OpenID Connect Core, section 2).
	maxSubject = 255
)

// standardClaims are the claims that go-oidc reads by names in any case.
var standardClaims = []string{"iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "at_hash", "_claim_names",
	"_claim_sources"}

// parseClaims refuses a token that has a standard claim in another spelling, which could replace
// the right one.
func parseClaims(token *oidc.IDToken) (*claims, error) {
	c := &claims{IDToken: token}
	if err := token.Claims(&c.texts); err != nil {
		return nil, refusal("claims")
	}
	for name := range c.texts {
		isStandard := func(standard string) bool { return name != standard && strings.EqualFold(name, standard) }
		if slices.ContainsFunc(standardClaims, isStandard) {
			return nil, refusal("claims", "error", "a standard claim in another spelling")
		}
	}
	return c, nil
}

// text returns a claim that is a text, and the empty text for any other.
func (c *claims) text(name string) (text string) {
	_ = json.Unmarshal(c.texts[name], &text)
	return text
}

// checkToken checks that the ID token is for this client and this transaction, and new (OpenID
// Connect Core, section
// 3.1.3.7).
func (p *Provider) checkToken(c *claims, nonce string) error {
	if c.IDToken.Issuer != p.config.Issuer {
		return refusal("issuer")
	}
	if !slices.Contains(c.Audience, p.config.ClientID) {
		return refusal("audience")
	}
	if _, isPresent := c.texts["azp"]; (isPresent || len(c.Audience) > 1) && c.text("azp") != p.config.ClientID {
		return refusal("authorized_party")
	}
	if err := p.checkTimes(c); err != nil {
		return err
	}
	if !hmac.Equal([]byte(c.Nonce), []byte(nonce)) {
		return refusal("nonce")
	}
	return nil
}

// checkTimes logs the distance of a time from the clock, so that operators can find a wrong clock.
func (p *Provider) checkTimes(c *claims) error {
	now := p.config.Now()
	var notBefore struct {
		At *float64 `json:"nbf"`
	}
	if err := c.Claims(&notBefore); err != nil {
		return refusal("claims")
	}
	switch ahead := c.IssuedAt.Sub(now); {
	case c.IssuedAt.IsZero():
		return refusal("issued_at", "error", "missing")
	case ahead > maxSkew, ahead < -maxTokenAge:
		return refusal("issued_at", "difference", ahead.Round(time.Second).String())
	case c.Expiry.IsZero():
		return refusal("expiry", "error", "missing")
	case now.Sub(c.Expiry) > maxSkew:
		return refusal("expiry", "difference", c.Expiry.Sub(now).Round(time.Second).String())
	case notBefore.At != nil && time.Unix(int64(*notBefore.At), 0).Sub(now) > maxSkew:
		return refusal("not_before", "difference",
			time.Unix(int64(*notBefore.At), 0).Sub(now).Round(time.Second).String())
	}
	return nil
}

// userOf returns the user of a token that has been checked.
func (p *Provider) userOf(ctx context.Context, c *claims) (User, error) {
	isNotPrintable := func(r rune) bool { return r < ' ' || r > '~' }
	if c.Subject == "" || len(c.Subject) > maxSubject || strings.ContainsFunc(c.Subject, isNotPrintable) {
		return User{}, refusal("subject")
	}
	email, err := p.config.CheckEmail(c.text("email"))
	if err != nil {
		return User{}, refusal("email")
	}
	if !c.hasVerifiedEmail() {
		return User{}, refusal("email_verified")
	}
	domain := email[strings.LastIndexByte(email, '@')+1:]
	if len(p.config.EmailDomains) > 0 && !slices.Contains(p.config.EmailDomains, domain) {
		return User{}, refusal("email_domain")
	}
	u := User{Issuer: p.config.Issuer, Subject: c.Subject, Email: email, Name: c.text("name")}
	if !c.lacksGroups {
		u.Groups = p.groups(ctx, c)
	}
	return u, nil
}

// hasVerifiedEmail reports whether the provider has verified the address. Microsoft Entra ID has no
// email_verified, but the optional claim xms_edov for an address whose domain the tenant has proved
// to be its own.
func (c *claims) hasVerifiedEmail() bool {
	if verified, isPresent := c.texts["email_verified"]; isPresent {
		return isTrue(verified)
	}
	return isTrue(c.texts["xms_edov"]) || slices.Contains([]string{"1", `"1"`}, string(c.texts["xms_edov"]))
}

// isTrue reports whether a value is true, or a text that says so in any case: AWS Cognito sends
// "true", others "True".
func isTrue(value json.RawMessage) bool {
	var text string
	_ = json.Unmarshal(value, &text)
	return string(value) == "true" || strings.EqualFold(strings.TrimSpace(text), "true")
}

// groups reads the claim of groups: a list of texts, or one text. Providers leave out the claim of
// a user without groups, such as Keycloak since version 22 and Okta: where groups give memberships,
// a missing one means none. It returns nil, which changes no membership, for a claim that it cannot
// use, and for one that the provider keeps elsewhere because the user has too many groups. It logs
// each of these where groups give memberships.
func (p *Provider) groups(ctx context.Context, c *claims) []string {
	value := c.texts[p.config.GroupsClaim]
	var list []*string
	var one string
	isMissing := value == nil || string(value) == "null"
	if json.Unmarshal(value, &one) == nil && !isMissing {
		list = []*string{&one}
	} else if json.Unmarshal(value, &list) != nil {
		list = nil // the first items may have been texts
	}
	isElsewhere := c.hasOverage(p.config.GroupsClaim)
	if list != nil && !slices.Contains(list, nil) && !isElsewhere {
		groups := make([]string, len(list))
		for n, group := range list {
			groups[n] = *group
		}
		return groups
	}
	if !p.config.NeedsGroups {
		return nil
	}
	warn := func(text string) {
		p.config.Log.Log(ctx, slog.LevelWarn, text, "claim", p.config.GroupsClaim, "subject", c.Subject)
	}
	switch {
	case isElsewhere:
		warn("groups of single sign-on ignored: the user has too many for a token")
	case isMissing:
		warn("single sign-on without groups: the claim is missing, so the user has no membership by a group")
		return []string{}
	default:
		warn("groups of single sign-on ignored: the claim is malformed")
	}
	return nil
}

// hasOverage reports whether the provider keeps a claim elsewhere (OpenID Connect Core, section
// 5.6.2), as Microsoft Entra ID does with the groups of users who have too many for a token.
func (c *claims) hasOverage(claim string) bool {
	var elsewhere map[string]json.RawMessage
	_ = json.Unmarshal(c.texts["_claim_names"], &elsewhere)
	_, isElsewhere := elsewhere[claim]
	return isElsewhere || claim == "groups" && slices.Contains([]string{"true", `"true"`}, string(c.texts["hasgroups"]))
}
