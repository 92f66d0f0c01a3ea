package account

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
)

const (
	// tokenType is the header typ. It excludes other tokens signed with the same key (RFC 9068,
	// section 2.1; RFC 8725, section 3.11).
	tokenType = "at+jwt"
	// audience is the claim aud.
	audience = "linkforge"
)

// Tokens issues and checks access tokens: JWTs signed with HS256.
type Tokens struct {
	// Secrets are the keys, at least 32 bytes each: the first signs, all verify.
	Secrets [][]byte
	// Issuer is the claim iss: this instance's public URL.
	Issuer string
	// TTL is the lifetime of a token.
	TTL time.Duration
}

type claims struct {
	jwt.RegisteredClaims
	// SessionID is the claim sid (OpenID Connect Front-Channel Logout, section 3).
	SessionID string `json:"sid"`
	// Methods are the claim amr, and AuthenticatedAt auth_time (OpenID Connect Core, section 2).
	Methods         []Method         `json:"amr,omitempty"`
	AuthenticatedAt *jwt.NumericDate `json:"auth_time,omitempty"`
}

// Issue signs a token for the actor.
func (t Tokens) Issue(a Actor, now time.Time) (token string, expires time.Time, err error) {
	expires = now.Add(t.TTL).UTC().Truncate(time.Second)
	c := claims{SessionID: a.SessionID, Methods: a.Methods.List(), RegisteredClaims: jwt.RegisteredClaims{
		Issuer: t.Issuer, Subject: a.AccountID, Audience: jwt.ClaimStrings{audience},
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires),
	}}
	if !a.AuthenticatedAt.IsZero() {
		c.AuthenticatedAt = jwt.NewNumericDate(a.AuthenticatedAt)
	}
	unsigned := jwt.NewWithClaims(jwt.SigningMethodHS256, c)
	unsigned.Header["typ"] = tokenType
	token, err = unsigned.SignedString(t.Secrets[0])
	if err != nil {
		return "", time.Time{}, fmt.Errorf("signing a token: %w", err)
	}
	return token, expires, nil
}

// check returns the actor and expiry of a valid token, or Unauthenticated.
func (t Tokens) check(token string, now time.Time) (a Actor, expires time.Time, err error) {
	var c claims
	_, err = jwt.ParseWithClaims(token, &c, t.key,
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithIssuer(t.Issuer),
		jwt.WithAudience(audience),
		jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }),
	)
	if err != nil || !id.Valid(id.Account, c.Subject) || !id.Valid(id.Session, c.SessionID) {
		return Actor{}, time.Time{}, errs.New(errs.Unauthenticated,
			"The token is invalid or has expired. Log in again.").
			Because(err)
	}
	a = Actor{AccountID: c.Subject, SessionID: c.SessionID}
	if c.AuthenticatedAt != nil {
		a.AuthenticatedAt = c.AuthenticatedAt.UTC()
	}
	for _, method := range c.Methods {
		a.Methods = a.Methods.and(method)
	}
	return a, c.ExpiresAt.Time, nil
}

// key refuses other types of tokens and critical extensions, which the library accepts (RFC 7515,
// section 4.1.11).
func (t Tokens) key(token *jwt.Token) (any, error) {
	if token.Header["typ"] != tokenType {
		return nil, fmt.Errorf("typ is not %s", tokenType)
	}
	if _, ok := token.Header["crit"]; ok {
		return nil, fmt.Errorf("unknown critical extension")
	}
	var keys jwt.VerificationKeySet
	for _, secret := range t.Secrets {
		keys.Keys = append(keys.Keys, secret)
	}
	return keys, nil
}
