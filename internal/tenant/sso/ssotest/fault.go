package ssotest

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Fault is a misbehavior of a provider, or of an attacker between it and the server.
type Fault struct {
	Name string
	// Check is the name in the log of the check that fails.
	Check string
	// Outage means that the log-in is Unavailable and not BadCredentials.
	Outage bool
	// Apply has the provider misbehave. It is called before the first request.
	Apply func(s *Server)
}

// Faults returns all faults that concern one log-in. Servers accept the domain example.com only,
// and wait less than Slow.
func Faults() []Fault {
	return concat(redirectFaults(), metadataFaults(), tokenFaults(), algorithmFaults(), signatureFaults(),
		claimFaults())
}

// Slow is how long a slow provider takes.
const Slow = 5 * time.Second

func concat(groups ...[]Fault) (all []Fault) {
	for _, group := range groups {
		all = append(all, group...)
	}
	return all
}

func redirectFaults() []Fault {
	redirect := func(name, check string, change func(r *Redirect)) Fault {
		return Fault{Name: name, Check: check, Apply: func(s *Server) { s.Redirect = change }}
	}
	return []Fault{
		redirect("foreign state", "state", func(r *Redirect) { r.State = strings.Repeat("A", len(r.State)) }),
		redirect("no state", "state", func(r *Redirect) { r.State = "" }),
		redirect("longer state", "state", func(r *Redirect) { r.State += "A" }),
		redirect("mixed-up issuer", "iss_parameter", func(r *Redirect) { r.Issuer = "https://other.example" }),
		redirect("issuer with a slash", "iss_parameter", func(r *Redirect) { r.Issuer += "/" }),
		redirect("announced issuer is missing", "iss_parameter", func(r *Redirect) { r.Issuer = "" }),
		redirect("no code", "code", func(r *Redirect) { r.Code = "" }),
		redirect("unknown code", "code", func(r *Redirect) { r.Code = "unknown" }),
		redirect("endless code", "code", func(r *Redirect) { r.Code = strings.Repeat("A", 5<<10) }),
	}
}

func metadataFaults() []Fault {
	metadata := func(name, check, claim string, value func(s *Server) any) Fault {
		return Fault{Name: name, Check: check, Outage: check == "metadata", Apply: func(s *Server) {
			s.Metadata = func(m map[string]any) { m[claim] = value(s) }
		}}
	}
	keys := func(name string, published ...jose.JSONWebKey) Fault {
		return Fault{Name: name, Check: "keys", Outage: true, Apply: func(s *Server) { s.Published = published }}
	}
	encrypting := PublicKey(jose.ES256)
	encrypting.Use = "enc"
	return concat([]Fault{
		metadata("metadata of another issuer", "metadata_issuer", "issuer",
			func(*Server) any { return "https://other.example" }),
		metadata("metadata issuer with a slash", "metadata_issuer", "issuer",
			func(s *Server) any { return s.URL + "/" }),
		metadata("no token endpoint", "metadata", "token_endpoint", func(*Server) any { return "" }),
		metadata("token endpoint of another scheme", "metadata", "token_endpoint",
			func(*Server) any { return "file:///etc/passwd" }),
		metadata("no key set", "metadata", "jwks_uri", func(*Server) any { return "" }),
		metadata("malformed metadata", "metadata", "jwks_uri", func(*Server) any { return 5 }),
		keys("no keys", []jose.JSONWebKey{}...),
		keys("keys for encryption only", encrypting),
		keys("symmetric keys only", jose.JSONWebKey{Key: []byte(strings.Repeat("k", 32)), KeyID: "ES256"}),
	}, away("metadata", MetadataPath), away("keys", KeysPath))
}

// away are the ways in which an endpoint is unavailable.
func away(check, path string) []Fault {
	respond := func(name string, respond http.HandlerFunc) Fault {
		return Fault{Name: name + " of " + check, Check: check, Outage: true,
			Apply: func(s *Server) { s.Respond[path] = respond }}
	}
	return []Fault{
		respond("failure", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "failure", http.StatusInternalServerError)
		}),
		respond("limited rate", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "slow", http.StatusTooManyRequests)
		}),
		respond("aborted response", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		respond("slow response", func(_ http.ResponseWriter, r *http.Request) { waitFor(r) }),
		respond("slow body", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "{")
			_ = http.NewResponseController(w).Flush()
			waitFor(r)
		}),
	}
}

// waitFor ends when the client disconnects, which the server notices once the body is read.
func waitFor(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	select {
	case <-r.Context().Done():
	case <-time.After(Slow):
	}
}

func tokenFaults() []Fault {
	token := func(name, check string, respond http.HandlerFunc) Fault {
		return Fault{Name: name, Check: check, Apply: func(s *Server) { s.Respond[TokenPath] = respond }}
	}
	reply := func(status int, body map[string]any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, status, body) }
	}
	return concat([]Fault{
		token("client refused", "code", reply(http.StatusUnauthorized, map[string]any{"error": "invalid_client"})),
		token("error with status 200", "code", reply(http.StatusOK, map[string]any{"error": "invalid_grant"})),
		token("unknown error", "token_response", reply(http.StatusBadRequest, map[string]any{"error": "custom"})),
		token("no ID token", "token_response", reply(http.StatusOK, map[string]any{"access_token": "a"})),
		token("ID token of another type", "token_response",
			reply(http.StatusOK, map[string]any{"access_token": "a", "id_token": 5})),
		token("no JSON", "token_response", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }),
		token("redirecting token endpoint", "token_response", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, KeysPath, http.StatusTemporaryRedirect)
		}),
		token("endless response", "token_response", reply(http.StatusOK,
			map[string]any{"access_token": "a", "id_token": strings.Repeat("a", 1<<20)})),
		{"redirecting metadata", "metadata", true, func(s *Server) {
			s.Respond[MetadataPath] = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			}
			s.Respond["/elsewhere"] = func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, http.StatusOK, s.metadata())
			}
		}},
		{"redirecting keys", "keys", true, func(s *Server) {
			s.Respond[KeysPath] = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			}
			s.Respond["/elsewhere"] = func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, http.StatusOK, map[string]any{"keys": s.published()})
			}
		}},
		{"endless metadata", "metadata", true, func(s *Server) {
			s.Metadata = func(m map[string]any) { m["more"] = strings.Repeat("a", 1<<20) }
		}},
	}, away("token", TokenPath))
}

// encode is the encoding of the parts of a token.
var encode = base64.RawURLEncoding.EncodeToString

func signed(name, check string, sign func(claims []byte) string) Fault {
	return Fault{Name: name, Check: check, Apply: func(s *Server) { s.Sign = sign }}
}

func algorithmFaults() []Fault {
	hs256 := func(key []byte, claims []byte) string {
		text := encode([]byte(`{"alg":"HS256","kid":"RS256"}`)) + "." + encode(claims)
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return text + "." + encode(m.Sum(nil))
	}
	return []Fault{
		signed("algorithm none", "algorithm", func(claims []byte) string {
			return encode([]byte(`{"alg":"none"}`)) + "." + encode(claims) + "."
		}),
		signed("algorithm None with a signature", "algorithm", func(claims []byte) string {
			_, rest, _ := strings.Cut(Sign(jose.ES256, "ES256", claims), ".")
			return encode([]byte(`{"alg":"None"}`)) + "." + rest
		}),
		signed("HMAC with the public key", "algorithm", func(claims []byte) string {
			der, err := x509.MarshalPKIXPublicKey(Keys()[jose.RS256].Public())
			if err != nil {
				panic(err)
			}
			return hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), claims)
		}),
		signed("HMAC with the secret of the client", "algorithm",
			func(claims []byte) string { return hs256([]byte(ClientSecret), claims) }),
		signed("algorithm RS512", "algorithm", func(claims []byte) string {
			return SignWith(jose.SigningKey{Algorithm: jose.RS512, Key: Keys()[jose.RS256]}, "RS256", claims)
		}),
	}
}

func signatureFaults() []Fault {
	return []Fault{
		signed("key of another provider", "signature", func(claims []byte) string {
			other, err := rsa.GenerateKey(rand.Reader, 2048)
			if err != nil {
				panic(err)
			}
			return SignWith(jose.SigningKey{Algorithm: jose.RS256, Key: other}, "RS256", claims)
		}),
		signed("key in the header", "signature", func(claims []byte) string {
			other, err := rsa.GenerateKey(rand.Reader, 2048)
			if err != nil {
				panic(err)
			}
			return signAs(jose.SigningKey{Algorithm: jose.RS256, Key: other}, &jose.SignerOptions{EmbedJWK: true},
				claims)
		}),
		signed("unknown key ID", "signature", func(claims []byte) string { return Sign(jose.ES256, "other", claims) }),
		signed("key for another algorithm", "signature",
			func(claims []byte) string { return Sign(jose.RS256, "PS256", claims) }),
		signed("changed claims", "signature", func(claims []byte) string {
			parts := strings.Split(Sign(jose.ES256, "ES256", claims), ".")
			changed := strings.Replace(string(claims), `"email_verified":true`, `"email_verified": true`, 1)
			return parts[0] + "." + encode([]byte(changed)) + "." + parts[2]
		}),
		signed("no signature", "signature", func(claims []byte) string {
			token := Sign(jose.ES256, "ES256", claims)
			return token[:strings.LastIndexByte(token, '.')+1]
		}),
		signed("JSON serialization", "algorithm", func(claims []byte) string {
			parts := strings.Split(Sign(jose.ES256, "ES256", claims), ".")
			text, _ := json.Marshal(map[string]string{"protected": parts[0], "payload": parts[1],
				"signature": parts[2]})
			return string(text)
		}),
		signed("critical header", "signature", func(claims []byte) string {
			return signAs(jose.SigningKey{Algorithm: jose.ES256, Key: Keys()[jose.ES256]},
				(&jose.SignerOptions{}).WithHeader("crit", []string{"custom"}).WithHeader("custom", true), claims)
		}),
		signed("no JWT", "algorithm", func([]byte) string { return "a.b" }),
		signed("no claims", "claims", func([]byte) string { return Sign(jose.ES256, "ES256", []byte(`[]`)) }),
	}
}

func claimFaults() []Fault {
	claim := func(name, check string, changes map[string]any) Fault {
		return Fault{Name: name, Check: check, Apply: func(s *Server) {
			s.Claims = func(c map[string]any) { maps.Copy(c, changes) }
		}}
	}
	at := func(name, check, claim string, distance time.Duration) Fault {
		return Fault{Name: name, Check: check, Apply: func(s *Server) {
			s.Claims = func(c map[string]any) { c[claim] = s.Now().Add(distance).Unix() }
		}}
	}
	return []Fault{
		claim("other issuer", "issuer", map[string]any{"iss": "https://other.example"}),
		claim("no issuer", "issuer", map[string]any{"iss": nil}),
		claim("other audience", "audience", map[string]any{"aud": "other"}),
		claim("no audience", "audience", map[string]any{"aud": nil}),
		claim("other audiences", "audience", map[string]any{"aud": []string{"other", "another"}}),
		claim("malformed audience", "claims", map[string]any{"aud": 5}),
		claim("audiences without azp", "authorized_party", map[string]any{"aud": []string{ClientID, "other"}}),
		claim("audiences with another azp", "authorized_party",
			map[string]any{"aud": []string{ClientID, "other"}, "azp": "other"}),
		claim("another azp", "authorized_party", map[string]any{"azp": "other"}),
		at("expired", "expiry", "exp", -2*time.Minute),
		claim("no expiry", "expiry", map[string]any{"exp": nil}),
		at("old", "issued_at", "iat", -11*time.Minute),
		at("from the future", "issued_at", "iat", 2*time.Minute),
		claim("no time", "issued_at", map[string]any{"iat": nil}),
		claim("malformed time", "claims", map[string]any{"iat": "now"}),
		at("not valid yet", "not_before", "nbf", 2*time.Minute),
		claim("foreign nonce", "nonce", map[string]any{"nonce": strings.Repeat("A", 43)}),
		claim("no nonce", "nonce", map[string]any{"nonce": nil}),
		claim("nonce in another spelling", "claims", map[string]any{"Nonce": "a"}),
		claim("subject in another spelling", "claims", map[string]any{"SUB": "admin"}),
		claim("no subject", "subject", map[string]any{"sub": nil}),
		claim("long subject", "subject", map[string]any{"sub": strings.Repeat("s", 256)}),
		claim("subject with a NUL", "subject", map[string]any{"sub": "a\x00"}),
		claim("subject beyond ASCII", "subject", map[string]any{"sub": "ä"}),
		claim("malformed subject", "claims", map[string]any{"sub": 5}),
		claim("no email", "email", map[string]any{"email": nil}),
		claim("malformed email", "email", map[string]any{"email": "ada"}),
		claim("list of emails", "email", map[string]any{"email": []string{"ada@example.com"}}),
		claim("email in another spelling", "email", map[string]any{"email": nil, "Email": "ada@example.com"}),
		claim("unverified email", "email_verified", map[string]any{"email_verified": false}),
		claim("unverified email as text", "email_verified", map[string]any{"email_verified": "false"}),
		claim("nothing about the email", "email_verified", map[string]any{"email_verified": nil}),
		claim("unverified domain of Entra", "email_verified", map[string]any{"email_verified": nil, "xms_edov": false}),
		claim("verified domain, unverified email", "email_verified",
			map[string]any{"email_verified": false, "xms_edov": true}),
		claim("number for a verified email", "email_verified", map[string]any{"email_verified": 1}),
		claim("verified in another spelling", "email_verified",
			map[string]any{"email_verified": nil, "Email_Verified": true}),
		claim("foreign domain", "email_domain", map[string]any{"email": "ada@evil.example"}),
		claim("domain that contains an allowed one", "email_domain",
			map[string]any{"email": "ada@example.com.evil.example"}),
		claim("domain that ends in an allowed one", "email_domain", map[string]any{"email": "ada@evilexample.com"}),
	}
}
