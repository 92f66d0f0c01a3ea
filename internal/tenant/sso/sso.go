// Package sso is the client of the identity provider of the instance: single sign-on by OpenID
// Connect, with the authorization code flow and PKCE. It has no tables and no cookies: package
// account stores transactions and decides which account an identity opens.
package sso

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/outbound"
)

// requestTimeout bounds a request to the provider with its body. A login takes four requests at
// most.
const requestTimeout = 4 * time.Second

// Config has the settings and dependencies of a Provider.
type Config struct {
	// Issuer is the provider, exactly as its metadata and tokens have it. ClientID and ClientSecret
	// are registered there.
	Issuer, ClientID, ClientSecret string
	// Redirects are the pages that the provider may redirect to.
	Redirects []string
	// EmailDomains, in lower case and ASCII, are those of users; empty for all.
	EmailDomains []string
	// Scopes are the requested scopes, separated by spaces.
	Scopes string
	// GroupsClaim is the claim that lists the groups of a user; a dot leads into an object.
	// NeedsGroups means that groups give memberships, and that a missing claim is worth a warning.
	GroupsClaim string
	NeedsGroups bool
	// Secrets are the keys of access tokens. The first derives the values that a transaction sends
	// to the provider; all finish transactions, so that they outlive the rotation of a key.
	Secrets [][]byte
	// CheckEmail returns the stored form of an address, with its domain in lower case and ASCII, or
	// an error.
	CheckEmail func(email string) (string, error)
	Now        func() time.Time
	Log        *slog.Logger
	// Timeout bounds a request to the provider; zero selects 4 seconds.
	Timeout time.Duration
}

// Provider is the identity provider of the instance. It is safe for concurrent use.
type Provider struct {
	config Config
	client *http.Client
	flight singleflight.Group

	mu    sync.Mutex
	known *metadata // nil before the first request
	// triedAt is when the metadata were last requested, with or without success.
	triedAt time.Time
}

// New returns a provider, without connecting to it.
func New(c Config) *Provider {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = requestTimeout
	}
	// The operator has chosen the provider, which may be in a private network.
	client := outbound.NewClient(outbound.Config{
		UserAgent: "Linkforge", Timeout: timeout, NoRedirects: true, Allow: func(netip.Addr) bool { return true },
	})
	client.Transport = bounded{client.Transport}
	return &Provider{config: c, client: client}
}

// Response has the parameters of the provider's redirect to a page, and the transaction that the
// page had started.
type Response struct {
	// Secret and RedirectURI are those of AuthorizationURL.
	Secret, RedirectURI string
	// Code, State and Issuer are the parameters code, state and iss; empty if absent.
	Code, State, Issuer string
}

// User is a user whom the provider has authenticated.
type User struct {
	// Issuer and Subject identify the user for ever.
	Issuer, Subject string
	// Email is verified by the provider, of an allowed domain, and in the form of
	// Config.CheckEmail.
	Email string
	// Name is as the provider has it; it may be empty.
	Name string
	// Groups is nil if it is not known whether the user has some; else it may be empty.
	Groups []string
}

// AuthorizationURL returns where a browser begins the transaction with the secret, which has at
// least 128 random bits. It returns InvalidInput at redirectUri unless that is listed in the
// configuration, and Unavailable.
func (p *Provider) AuthorizationURL(ctx context.Context, secret, redirectURI string) (string, error) {
	if !slices.Contains(p.config.Redirects, redirectURI) {
		return "", errs.New(errs.InvalidInput,
			"The operator has not listed this URL. It must be one of LINKFORGE_SSO_REDIRECTS exactly.").
			At("redirectUri")
	}
	m, err := p.metadata(ctx, false)
	if err != nil {
		return "", p.unavailable(ctx, err)
	}
	d := p.derive(p.config.Secrets[0], secret)
	return p.oauth(m, redirectURI).AuthCodeURL(d.state, oidc.Nonce(d.nonce), oauth2.S256ChallengeOption(d.verifier)),
		nil
}

// Identify redeems a response of the provider for the identity of the user. The caller has consumed
// the transaction. It returns BadCredentials, with one message for all failed checks, or
// Unavailable. Each is logged with the name of the check.
func (p *Provider) Identify(ctx context.Context, r Response) (User, error) {
	i, err := p.identify(ctx, r)
	if err != nil {
		return User{}, p.report(ctx, err)
	}
	return i, nil
}

func (p *Provider) identify(ctx context.Context, r Response) (User, error) {
	var d *derived
	for _, key := range p.config.Secrets {
		if candidate := p.derive(key, r.Secret); hmac.Equal([]byte(candidate.state), []byte(r.State)) {
			d = &candidate
			break
		}
	}
	if d == nil {
		return User{}, refusal("state")
	}
	if r.Issuer != "" && r.Issuer != p.config.Issuer {
		return User{}, refusal("iss_parameter")
	}
	m, err := p.metadata(ctx, false)
	if err != nil {
		return User{}, err
	}
	if r.Issuer == "" && m.sendsIssuer {
		return User{}, refusal("iss_parameter")
	}
	idToken, accessToken, err := p.exchange(ctx, m, r, d.verifier)
	if err != nil {
		return User{}, err
	}
	claims, err := p.verify(ctx, idToken)
	if err != nil {
		return User{}, err
	}
	if err := p.checkToken(claims, d.nonce); err != nil {
		return User{}, err
	}
	if err := p.complete(ctx, m, claims, accessToken); err != nil {
		return User{}, err
	}
	return p.userOf(ctx, claims)
}

// derived has the values that a transaction sends to the provider.
type derived struct{ state, nonce, verifier string }

// derive computes the values of a transaction from its secret and a key of access tokens, so that
// none is stored.
func (p *Provider) derive(key []byte, secret string) derived {
	value := func(label string) string {
		return base64.RawURLEncoding.EncodeToString(mac(mac(key, "linkforge sso "+label), secret))
	}
	return derived{state: value("state"), nonce: value("nonce"), verifier: value("verifier")}
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func (p *Provider) oauth(m *metadata, redirectURI string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, Endpoint: m.endpoint,
		RedirectURL: redirectURI,
		Scopes:      []string{p.config.Scopes},
	}
}
