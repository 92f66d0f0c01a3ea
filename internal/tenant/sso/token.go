package sso

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"
)

// algorithms are those of ID tokens: asymmetric, and of current strength.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// maxCode bounds a code, in bytes.
const maxCode = 4 << 10

// grantErrors are the errors of a token endpoint (RFC 6749, section 5.2). Others are not logged:
// they could repeat the request.
var grantErrors = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
	"invalid_scope",
}

// exchange returns the ID token and the access token for a code. The client authenticates with its
// secret.
func (p *Provider) exchange(
	ctx context.Context, m *metadata, r Response, verifier string,
) (idToken, accessToken string, err error) {
	if r.Code == "" || len(r.Code) > maxCode {
		return "", "", refusal("code")
	}
	client := *p.client
	client.Transport = withoutLifetime{client.Transport}
	token, err := p.oauth(m, r.RedirectURI).
		Exchange(oidc.ClientContext(ctx, &client), r.Code, oauth2.VerifierOption(verifier))
	refused, isRefused := errors.AsType[*oauth2.RetrieveError](err)
	failed, isFailed := errors.AsType[*url.Error](err) // without a response
	_, isTooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case isFailed && !isTooLarge:
		return "", "", outage("token", "error", abbreviated(failed.Error()))
	case isRefused && isOutage(refused.Response.StatusCode):
		return "", "", outage("token", "status", refused.Response.StatusCode)
	case isRefused && slices.Contains(grantErrors, refused.ErrorCode):
		return "", "", refusal("code", "error", refused.ErrorCode)
	default: // the text of the error could repeat the token
		return "", "", refusal("token_response", "too_large", isTooLarge)
	}
	idToken, ok := token.Extra("id_token").(string)
	if !ok {
		return "", "", refusal("token_response", "error", "no id_token")
	}
	return idToken, token.AccessToken, nil
}

// withoutLifetime removes expires_in from a response of the token endpoint. The lifetime of the
// access token is of no use here, and the library refuses a response whose lifetime is not a whole
// number, as of providers that send 300.0.
type withoutLifetime struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l withoutLifetime) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body) // bounded
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) == nil {
		isLifetime := func(name string, _ json.RawMessage) bool { return strings.EqualFold(name, "expires_in") }
		maps.DeleteFunc(fields, isLifetime)
		if body, err = json.Marshal(fields); err != nil {
			return nil, err
		}
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

func isOutage(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// verify returns the claims of an ID token that the provider has signed.
func (p *Provider) verify(ctx context.Context, token string) (*claims, error) {
	var names []string
	for _, algorithm := range algorithms {
		names = append(names, string(algorithm))
	}
	signed := &signature{provider: p}
	verified, err := oidc.NewVerifier(p.config.Issuer, signed, &oidc.Config{
		SupportedSigningAlgs: names,
		// checkToken does, with names: go-oidc accepts another issuer of Google, and has no
		// tolerance.
		SkipClientIDCheck: true, SkipIssuerCheck: true, SkipExpiryCheck: true,
	}).Verify(ctx, token)
	switch {
	case signed.err != nil:
		return nil, signed.err
	case !signed.isValid:
		return nil, refusal("algorithm")
	case err != nil:
		return nil, refusal("claims")
	}
	return parseClaims(verified)
}

// signature implements oidc.KeySet for one token, whose errors have no types.
type signature struct {
	provider *Provider
	isValid  bool
	err      error
}

// VerifySignature implements oidc.KeySet. It is called for tokens with an algorithm of the list.
func (s *signature) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := s.provider.verifySignature(ctx, token)
	s.isValid, s.err = err == nil, err
	return payload, err
}

func (p *Provider) verifySignature(ctx context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, refusal("algorithm")
	}
	header := jws.Signatures[0].Header
	for _, refresh := range []bool{false, true} {
		m, err := p.metadata(ctx, refresh)
		if err != nil {
			return nil, err
		}
		for _, key := range m.keys {
			if header.KeyID != "" && header.KeyID != key.KeyID ||
				key.Algorithm != "" && key.Algorithm != header.Algorithm {
				continue
			}
			if payload, err := jws.Verify(key); err == nil {
				return payload, nil
			}
		}
	}
	return nil, refusal("signature")
}

// claims are those of an ID token.
type claims struct {
	*oidc.IDToken
	// texts has all claims by their exact names: encoding/json would read Email_Verified as
	// email_verified.
	texts map[string]json.RawMessage
	// lacksGroups means that the groups are not known, because the provider did not return them.
	lacksGroups bool
}
