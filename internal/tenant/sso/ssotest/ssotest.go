// Package ssotest is an identity provider for tests, with configurable faults.
package ssotest

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// The client that the provider knows.
const (
	ClientID     = "linkforge"
	ClientSecret = "a secret of the client: of + and %"
)

// The paths of the provider.
const (
	MetadataPath = "/.well-known/openid-configuration"
	KeysPath     = "/keys"
	TokenPath    = "/token"
	UserInfoPath = "/userinfo"
)

// Keys sign ID tokens, by algorithm. Their key IDs are the algorithms.
var Keys = sync.OnceValue(func() map[jose.SignatureAlgorithm]crypto.Signer {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	ecKey, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, edKey, err3 := ed25519.GenerateKey(rand.Reader)
	if err != nil || err2 != nil || err3 != nil {
		panic(fmt.Sprint(err, err2, err3))
	}
	return map[jose.SignatureAlgorithm]crypto.Signer{jose.RS256: rsaKey, jose.PS256: rsaKey, jose.ES256: ecKey,
		jose.EdDSA: edKey}
})

// Server is an identity provider. Its fields may be changed before requests.
type Server struct {
	// URL is the issuer.
	URL string
	// Now is the clock.
	Now func() time.Time
	// Metadata, Claims and Redirect change the responses of the provider, if they are not nil.
	Metadata func(metadata map[string]any)
	Claims   func(claims map[string]any)
	Redirect func(r *Redirect)
	// Sign replaces the signature of ID tokens if it is not nil.
	Sign func(claims []byte) string
	// Published is the key set; nil selects the public keys of Keys.
	Published []jose.JSONWebKey
	// Respond has replacements of responses by their paths.
	Respond map[string]http.HandlerFunc
	// Lifetime replaces expires_in of a token if it is not nil.
	Lifetime any
	// PostsSecret means that the client has to send its secret in the body.
	PostsSecret bool

	mu       sync.Mutex
	grants   map[string]grant
	bearers  map[string]User // by the header of their access tokens
	requests map[string]int
}

// grant is a code that has not been redeemed.
type grant struct {
	user                          User
	nonce, challenge, redirectURI string
}

// User is who logs in. A nil claim of More is left out.
type User struct {
	Subject, Email, Name string
	Groups               []string
	// More has further claims, and replaces others.
	More map[string]any
}

// Redirect has the parameters that the provider sends to the page.
type Redirect struct{ URI, Code, State, Issuer string }

// Open starts a provider, and closes it after the test.
func Open(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		Now: time.Now, grants: map[string]grant{}, bearers: map[string]User{}, requests: map[string]int{},
		Respond: map[string]http.HandlerFunc{},
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Requests returns how many requests a path has had.
func (s *Server) Requests(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[path]
}

// LogIn has the user log in at the page with an authorization URL.
func (s *Server) LogIn(t testing.TB, authorizationURL string, u User) Redirect {
	t.Helper()
	parsed := must.Value(url.Parse(authorizationURL))(t)
	q := parsed.Query()
	if parsed.Scheme+"://"+parsed.Host != s.URL || parsed.Path != "/authorize" || q.Get("response_type") != "code" ||
		q.Get("client_id") != ClientID || q.Get("code_challenge_method") != "S256" ||
		len(q.Get("code_challenge")) != 43 ||
		len(q.Get("nonce")) < 22 || len(q.Get("state")) < 22 || q.Get("scope") == "" {
		t.Fatalf("the provider refuses %s", authorizationURL)
	}
	r := Redirect{URI: q.Get("redirect_uri"), Code: rand.Text(), State: q.Get("state"), Issuer: s.URL}
	s.mu.Lock()
	s.grants[r.Code] = grant{u, q.Get("nonce"), q.Get("code_challenge"), r.URI}
	s.mu.Unlock()
	if s.Redirect != nil {
		s.Redirect(&r)
	}
	return r
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests[r.URL.Path]++
	s.mu.Unlock()
	if respond := s.Respond[r.URL.Path]; respond != nil {
		respond(w, r)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET " + MetadataPath:
		writeJSON(w, http.StatusOK, s.metadata())
	case "GET " + KeysPath:
		writeJSON(w, http.StatusOK, map[string]any{"keys": s.published()})
	case "POST " + TokenPath:
		s.token(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) metadata() map[string]any {
	m := map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + TokenPath,
		"jwks_uri":                                       s.URL + KeysPath,
		"id_token_signing_alg_values_supported":          []string{"RS256", "PS256", "ES256", "EdDSA", "HS256", "none"},
		"authorization_response_iss_parameter_supported": true,
	}
	if s.PostsSecret {
		m["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
	}
	if s.Metadata != nil {
		s.Metadata(m)
	}
	return m
}

func (s *Server) published() any {
	if s.Published != nil {
		return s.Published
	}
	// A real provider also has keys that are not for signatures, and keys of unknown types.
	all := []any{map[string]string{"kty": "OKP", "crv": "Ed448", "x": "AA"}, map[string]string{"kty": "new"}}
	for _, algorithm := range slices.Sorted(maps.Keys(Keys())) {
		all = append(all, PublicKey(algorithm))
	}
	return all
}

// PublicKey returns a key of Keys as the provider publishes it.
func PublicKey(algorithm jose.SignatureAlgorithm) jose.JSONWebKey {
	return jose.JSONWebKey{
		Key: Keys()[algorithm].Public(), KeyID: string(algorithm), Algorithm: string(algorithm), Use: "sig",
	}
}

// token redeems a code, once, for the client that has started the transaction.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	if s.PostsSecret {
		id, secret = url.QueryEscape(r.PostFormValue("client_id")), url.QueryEscape(r.PostFormValue("client_secret"))
	}
	if id != url.QueryEscape(ClientID) || secret != url.QueryEscape(ClientSecret) {
		writeJSON(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	s.mu.Lock()
	g, ok := s.grants[r.PostFormValue("code")]
	delete(s.grants, r.PostFormValue("code"))
	s.mu.Unlock()
	if !ok || r.PostFormValue("grant_type") != "authorization_code" ||
		r.PostFormValue("redirect_uri") != g.redirectURI ||
		oauth2.S256ChallengeFromVerifier(r.PostFormValue("code_verifier")) != g.challenge {
		writeJSON(w, http.StatusBadRequest, map[string]any{
			"error": "invalid_grant", "error_description": r.PostForm.Encode(), // as careless providers do
		})
		return
	}
	claims := s.claims(g)
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	sign := s.Sign
	if sign == nil {
		sign = func(claims []byte) string { return Sign(jose.ES256, "ES256", claims) }
	}
	var lifetime any = 300
	if s.Lifetime != nil {
		lifetime = s.Lifetime
	}
	accessToken := rand.Text()
	s.mu.Lock()
	s.bearers["Bearer "+accessToken] = g.user
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]any{
		"access_token": accessToken, "token_type": "Bearer", "expires_in": lifetime, "id_token": sign(payload),
	})
}

// OfferUserInfo adds the user info endpoint, with the claims of a user in addition to the subject, or
// with a status that is not zero.
func (s *Server) OfferUserInfo(status int, info map[string]any, isSigned bool) {
	change := s.Metadata
	s.Metadata = func(m map[string]any) {
		m["userinfo_endpoint"] = s.URL + UserInfoPath
		if change != nil {
			change(m)
		}
	}
	s.Respond[UserInfoPath] = func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		user, ok := s.bearers[r.Header.Get("Authorization")]
		s.mu.Unlock()
		if !ok || status != 0 {
			w.WriteHeader(cmp.Or(status, http.StatusUnauthorized))
			return
		}
		claims := map[string]any{"sub": user.Subject}
		maps.Copy(claims, info)
		if !isSigned {
			writeJSON(w, http.StatusOK, claims)
			return
		}
		payload, err := json.Marshal(claims)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/jwt; charset=utf-8")
		fmt.Fprint(w, Sign(jose.ES256, "ES256", payload))
	}
}

func (s *Server) claims(g grant) map[string]any {
	now := s.Now()
	claims := map[string]any{
		"iss": s.URL, "sub": g.user.Subject, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"nonce": g.nonce, "email": g.user.Email, "email_verified": true,
	}
	if g.user.Name != "" {
		claims["name"] = g.user.Name
	}
	if g.user.Groups != nil {
		claims["groups"] = g.user.Groups
	}
	maps.Copy(claims, g.user.More)
	if s.Claims != nil {
		s.Claims(claims)
	}
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// Sign returns a signed token with the claims.
func Sign(algorithm jose.SignatureAlgorithm, keyID string, claims []byte) string {
	return SignWith(jose.SigningKey{Algorithm: algorithm, Key: Keys()[algorithm]}, keyID, claims)
}

// SignWith is Sign with any key.
func SignWith(key jose.SigningKey, keyID string, claims []byte) string {
	options := &jose.SignerOptions{}
	if keyID != "" {
		options = options.WithHeader("kid", keyID)
	}
	return signAs(key, options, claims)
}

func signAs(key jose.SigningKey, options *jose.SignerOptions, claims []byte) string {
	signer, err := jose.NewSigner(key, options)
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		panic(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
