package sso

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"
)

const (
	// maxAge is how long metadata and keys are used; minAge is the time between two requests for
	// them when no key verifies a token, as after the provider has replaced its keys.
	maxAge = time.Hour
	minAge = time.Minute
	// maxBody bounds a response of the provider, in bytes. An ID token may list many groups.
	maxBody = 256 << 10
	// maxCause bounds an error in the log, in bytes: go-oidc repeats the body of a response.
	maxCause = 200
)

// metadata has the published fields of the provider's configuration.
type metadata struct {
	endpoint oauth2.Endpoint
	// sendsIssuer means that redirects have the parameter iss (RFC 9207).
	sendsIssuer bool
	// userInfo is the user info endpoint; empty if there is none.
	userInfo string
	keys     []jose.JSONWebKey
	readAt   time.Time
}

// metadata returns the provider's metadata, at most an hour old. With refresh it reads that again,
// once a minute at most. Concurrent calls share a request.
func (p *Provider) metadata(ctx context.Context, refresh bool) (*metadata, error) {
	now := p.config.Now()
	p.mu.Lock()
	known, triedAt := p.known, p.triedAt
	p.mu.Unlock()
	if known != nil && now.Sub(known.readAt) < maxAge && (!refresh || now.Sub(triedAt) < minAge) {
		return known, nil
	}
	shared := p.flight.DoChan("", func() (any, error) { return p.read(context.WithoutCancel(ctx), now) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-shared:
		m, _ := r.Val.(*metadata)
		return m, r.Err
	}
}

// read requests metadata and keys, and remembers them.
func (p *Provider) read(ctx context.Context, now time.Time) (*metadata, error) {
	p.mu.Lock()
	p.triedAt = now
	p.mu.Unlock()
	discovered, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.config.Issuer)
	if mismatch, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return nil, refusal("metadata_issuer", "metadata", abbreviated(mismatch.Discovered))
	}
	if err != nil {
		return nil, outage("metadata", "error", abbreviated(err.Error()))
	}
	var more struct {
		JWKS        string   `json:"jwks_uri"`
		SendsIssuer bool     `json:"authorization_response_iss_parameter_supported"`
		UserInfo    string   `json:"userinfo_endpoint"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := discovered.Claims(&more); err != nil {
		return nil, outage("metadata", "error", abbreviated(err.Error()))
	}
	m := &metadata{endpoint: discovered.Endpoint(), sendsIssuer: more.SendsIssuer, readAt: now}
	if isSafe(more.UserInfo, p.config.Issuer) {
		m.userInfo = more.UserInfo
	}
	m.endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default (OpenID Connect Discovery, section 3)
	if !slices.Contains(more.AuthMethods, "client_secret_basic") &&
		slices.Contains(more.AuthMethods, "client_secret_post") {
		m.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	for _, endpoint := range []string{m.endpoint.AuthURL, m.endpoint.TokenURL, more.JWKS} {
		if !isSafe(endpoint, p.config.Issuer) {
			return nil, outage("metadata", "error", "an endpoint is missing, or is not https: "+abbreviated(endpoint))
		}
	}
	if m.keys, err = p.readKeys(ctx, more.JWKS); err != nil {
		return nil, outage("keys", "error", abbreviated(err.Error()))
	}
	p.mu.Lock()
	p.known = m
	p.mu.Unlock()
	return m, nil
}

// isSafe reports whether an endpoint is as protected as the issuer: plain HTTP would reveal codes
// and the secret.
func isSafe(endpoint, issuer string) bool {
	return strings.HasPrefix(endpoint, "https://") ||
		strings.HasPrefix(endpoint, "http://") && strings.HasPrefix(issuer, "http://")
}

// readKeys returns the public keys for signatures. oidc.RemoteKeySet would read them for every
// wrong signature, and keep them until then.
func (p *Provider) readKeys(ctx context.Context, url string) ([]jose.JSONWebKey, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	var set struct{ Keys []json.RawMessage }
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		return nil, err
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		// Keys of unknown types are ignored (RFC 7517, section 5).
		if json.Unmarshal(text, &key) == nil && key.IsPublic() && key.Use != "enc" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no key for signatures")
	}
	return keys, nil
}

// bounded reads the bodies of responses, up to a limit. Libraries would read on, and hide why a
// body ended.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, maxBody))
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

func abbreviated(text string) string {
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + " …"
	}
	return text
}
