package sso_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/sso"
	"github.com/linkforge/linkforge/internal/tenant/sso/ssotest"
)

const (
	page   = "https://app.example.com/sso?a=b"
	secret = "the secret of a transaction"
)

var ada = ssotest.User{Subject: "248289761001", Email: "Ada@Example.com", Name: "Ada",
	Groups: []string{"engineering", "it"}}

// bundle is a provider, and the server's client of it. Its clock stands still until a test moves
// it.
type bundle struct {
	*sso.Provider
	server *ssotest.Server
	config sso.Config
	clock  atomic.Int64
	log    lines
}

func setup(t *testing.T, change ...func(c *sso.Config)) *bundle {
	t.Helper()
	b := &bundle{server: ssotest.Open(t)}
	b.clock.Store(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC).Unix())
	b.server.Now = b.now
	b.config = sso.Config{
		Issuer: b.server.URL, ClientID: ssotest.ClientID, ClientSecret: ssotest.ClientSecret,
		Redirects: []string{"https://app.example.com/", page}, EmailDomains: []string{"example.com"},
		Scopes: "openid email profile", GroupsClaim: "groups", NeedsGroups: true,
		Secrets:    [][]byte{[]byte(strings.Repeat("j", 32))},
		CheckEmail: account.CheckEmail, Now: b.now, Log: slog.New(slog.NewJSONHandler(&b.log, nil)),
	}
	for _, change := range change {
		change(&b.config)
	}
	b.Provider = sso.New(b.config)
	return b
}

func (b *bundle) now() time.Time { return time.Unix(b.clock.Load(), 0) }

func (b *bundle) pass(d time.Duration) { b.clock.Add(int64(d / time.Second)) }

// logIn has the user log in at the provider, and redeems the response.
func (b *bundle) logIn(t *testing.T, u ssotest.User) (sso.User, error) {
	t.Helper()
	return b.Identify(t.Context(), b.response(t, u))
}

func (b *bundle) response(t *testing.T, u ssotest.User) sso.Response {
	t.Helper()
	r := b.server.LogIn(t, must.Value(b.AuthorizationURL(t.Context(), secret, page))(t), u)
	return sso.Response{Secret: secret, RedirectURI: r.URI, Code: r.Code, State: r.State, Issuer: r.Issuer}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// take returns the lines since the last call, as JSON.
func (l *lines) take(t *testing.T) (all []map[string]any, text string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	text = l.text.String()
	l.text.Reset()
	for line := range strings.Lines(text) {
		var one map[string]any
		must.NoError(t, json.Unmarshal([]byte(line), &one))
		all = append(all, one)
	}
	return all, text
}

func TestProvider_Identifies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got, err := b.logIn(t, ada)
	want := sso.User{
		Issuer: b.server.URL, Subject: "248289761001", Email: "ada@example.com", Name: "Ada",
		Groups: []string{"engineering", "it"},
	}
	must.NoError(t, err)
	wanttest.Equal(t, want, got, "result")
	if _, text := b.log.take(t); text != "" {
		t.Errorf("a log-in logs %s", text)
	}
}

// TestProvider_AcceptsVariants has providers that are within the standard.
func TestProvider_AcceptsVariants(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string]func(s *ssotest.Server){
		"RS256":            func(s *ssotest.Server) { s.Sign = sign(jose.RS256, "RS256") },
		"PS256":            func(s *ssotest.Server) { s.Sign = sign(jose.PS256, "PS256") },
		"EdDSA":            func(s *ssotest.Server) { s.Sign = sign(jose.EdDSA, "EdDSA") },
		"no key ID":        func(s *ssotest.Server) { s.Sign = sign(jose.ES256, "") },
		"secret in a form": func(s *ssotest.Server) { s.PostsSecret = true },
		"audiences": claims(map[string]any{"aud": []string{"other", ssotest.ClientID},
			"azp": ssotest.ClientID}),
		"verified as text":    claims(map[string]any{"email_verified": "true"}),
		"verified as True":    claims(map[string]any{"email_verified": "True"}),
		"verified as TRUE":    claims(map[string]any{"email_verified": " TRUE "}),
		"verified by Entra":   claims(map[string]any{"email_verified": nil, "xms_edov": true}),
		"verified by Entra 1": claims(map[string]any{"email_verified": nil, "xms_edov": "1"}),
		"lifetime 300.0":      lifetime("300.0"),
		"lifetime as text":    lifetime(`"300.0"`),
		"lifetime 3e2":        lifetime("3e2"),
		"empty lifetime":      lifetime(`""`),
		"subject of 255":      claims(map[string]any{"sub": strings.Repeat("s", 255)}),
		"no name":             claims(map[string]any{"name": nil}),
		"name of a type":      claims(map[string]any{"name": 5}),
		"custom claims":       claims(map[string]any{"Email_Verified": false, "EMAIL": "x", "Azp": "x"}),
		"fractions of time":   claims(map[string]any{"exp": 1.9e9 + 0.5}),
		"issuer not announced": func(s *ssotest.Server) {
			s.Metadata = func(m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") }
			s.Redirect = func(r *ssotest.Redirect) { r.Issuer = "" }
		},
		"clock 59s behind": func(s *ssotest.Server) {
			s.Claims = func(c map[string]any) { c["iat"] = s.Now().Add(59 * time.Second).Unix() }
		},
		"clock 59s ahead": func(s *ssotest.Server) {
			s.Claims = func(c map[string]any) { c["exp"] = s.Now().Add(-59 * time.Second).Unix() }
		},
		"ten minutes old": func(s *ssotest.Server) {
			s.Claims = func(c map[string]any) { c["iat"] = s.Now().Add(-10 * time.Minute).Unix() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			apply(b.server)
			if _, err := b.logIn(t, ada); err != nil {
				_, text := b.log.take(t)
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}

// lifetime has the provider send expires_in as a text of JSON.
func lifetime(value string) func(s *ssotest.Server) {
	return func(s *ssotest.Server) { s.Lifetime = json.RawMessage(value) }
}

func sign(algorithm jose.SignatureAlgorithm, keyID string) func([]byte) string {
	return func(claims []byte) string { return ssotest.Sign(algorithm, keyID, claims) }
}

func claims(changes map[string]any) func(s *ssotest.Server) {
	return func(s *ssotest.Server) {
		s.Claims = func(c map[string]any) {
			for name, value := range changes {
				c[name] = value
			}
		}
	}
}

// TestProvider_RefusesFaults: each fault has one line in the log, which names the check and no
// secret.
func TestProvider_RefusesFaults(t *testing.T) {
	t.Parallel()
	faults := ssotest.Faults()
	if len(faults) < 40 {
		t.Errorf("only %d faults", len(faults))
	}
	for _, fault := range faults {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			started := must.Value(sso.New(b.config).AuthorizationURL(t.Context(), secret, page))(t) // by another node
			fault.Apply(b.server)
			if strings.HasPrefix(fault.Name, "slow") {
				b.config.Timeout = ssotest.Slow / 5
				b.Provider = sso.New(b.config)
			}
			r := b.server.LogIn(t, started, ada)
			got, err := b.Identify(t.Context(), sso.Response{
				Secret: secret, RedirectURI: r.URI, Code: r.Code, State: r.State, Issuer: r.Issuer,
			})
			kind := errs.BadCredentials
			if fault.Outage {
				kind = errs.Unavailable
			}
			b.expectFault(t, err, kind, fault.Check, started, r.Code)
			if diff := gocmp.Diff(sso.User{}, got); diff != "" {
				t.Errorf("an identity: %s", diff)
			}
			if strings.HasPrefix(fault.Check, "metadata") || fault.Check == "keys" {
				_, err := sso.New(b.config).AuthorizationURL(t.Context(), secret, page)
				b.expectFault(t, err, errs.Unavailable, fault.Check, started, r.Code)
			}
			if n := b.server.Requests("/elsewhere"); n > 0 {
				t.Errorf("%d requests after a redirect", n)
			}
			if n := b.server.Requests(ssotest.TokenPath); n > 1 || n == 1 && fault.Name == "endless code" {
				t.Errorf("%d requests for a token", n)
			}
		})
	}
}

// expectFault checks an error and its line in the log.
func (b *bundle) expectFault(t *testing.T, err error, kind errs.Kind, check, started, code string) {
	t.Helper()
	logged, text := b.log.take(t)
	if !errs.Is(err, kind) || len(logged) != 1 || logged[0]["check"] != check {
		t.Errorf("%v, want %s and a line of the check %s:\n%s", err, kind, check, text)
	}
	if kind == errs.BadCredentials && errs.From(err).Public() != "The log-in at the provider failed, or is too old. "+
		"Start again." {
		t.Errorf("the message discloses the check: %v", err)
	}
	q := must.Value(url.Parse(started))(t).Query()
	for _, hidden := range []string{secret, q.Get("state"), q.Get("nonce"), code, ssotest.ClientSecret, "code_verifier",
		"eyJ", "jjjj"} {
		if hidden != "" && (strings.Contains(text, hidden) || strings.Contains(err.Error(), hidden)) {
			t.Errorf("%q is shown: %v\n%s", hidden, err, text)
		}
	}
}

// TestProvider_LogsClockDifference: operators read from the line how wrong the clock is.
func TestProvider_LogsClockDifference(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behind            time.Duration
		check, difference string
	}{
		"behind": {2 * time.Minute, "issued_at", "2m0s"},
		"ahead":  {-7 * time.Minute, "expiry", "-2m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.server.Now = func() time.Time { return b.now().Add(c.behind) }
			_, err := b.logIn(t, ada)
			logged, text := b.log.take(t)
			if !errs.Is(err, errs.BadCredentials) || len(logged) != 1 || logged[0]["check"] != c.check ||
				logged[0]["difference"] != c.difference {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}

func TestAuthorizationURL_TakesListedPagesOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, uri := range []string{
		"", "https://app.example.com", "https://app.example.com/sso", page + "&c", page + "#", strings.ToUpper(page),
		"https://app.example.com/sso?a=b ", "https://evil.example/sso?a=b", "http://app.example.com/sso?a=b",
	} {
		_, err := b.AuthorizationURL(t.Context(), secret, uri)
		if !errs.Is(err, errs.InvalidInput) || !gocmp.Equal(errs.From(err).Field, []string{"redirectUri"}) {
			t.Errorf("%q: %v", uri, err)
		}
	}
	if n := b.server.Requests(ssotest.MetadataPath); n != 0 {
		t.Errorf("%d requests for pages that are not listed", n)
	}
	q := must.Value(url.Parse(must.Value(b.AuthorizationURL(t.Context(), secret, page))(t)))(t).Query()
	other := must.Value(url.Parse(must.Value(b.AuthorizationURL(t.Context(), "another", page))(t)))(t).Query()
	seen := map[string]bool{}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		seen[q.Get(name)], seen[other.Get(name)] = true, true
	}
	if len(seen) != 6 || q.Get("redirect_uri") != page || q.Get("scope") != "openid email profile" ||
		strings.Contains(q.Encode(), secret) {
		t.Errorf("%v", q)
	}
}

// TestIdentify_BindsResponses: a response is good for the transaction that it answers, once.
func TestIdentify_BindsResponses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.response(t, ada)
	for name, c := range map[string]struct {
		check  string
		change func(r *sso.Response)
	}{
		"another browser's transaction": {"state", func(r *sso.Response) { r.Secret = "another" }},
		"another page":                  {"code", func(r *sso.Response) { r.RedirectURI = "https://app.example.com/" }},
		"state of another transaction": {"state", func(r *sso.Response) {
			started := must.Value(b.AuthorizationURL(t.Context(), "another", page))(t)
			r.State = must.Value(url.Parse(started))(t).Query().Get("state")
		}},
		"code of another transaction": {"code", func(r *sso.Response) {
			r.Code = b.server.LogIn(t, must.Value(b.AuthorizationURL(t.Context(), "another", page))(t), ada).Code
		}},
	} {
		changed := b.response(t, ada)
		c.change(&changed)
		_, err := b.Identify(t.Context(), changed)
		if logged, text := b.log.take(t); !errs.Is(err, errs.BadCredentials) || len(logged) != 1 ||
			logged[0]["check"] != c.check {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	must.Value(b.Identify(t.Context(), r))(t)
	_, err := b.Identify(t.Context(), r)
	if logged, text := b.log.take(t); !errs.Is(err, errs.BadCredentials) || len(logged) != 1 ||
		logged[0]["check"] != "code" ||
		logged[0]["error"] != "invalid_grant" {
		t.Errorf("the same code again: %v: %s", err, text)
	}
}

// TestIdentify_OutlivesRotatedSecret: a transaction that began before the rotation of a secret ends
// after it, and not without the old secret.
func TestIdentify_OutlivesRotatedSecret(t *testing.T) {
	t.Parallel()
	b := setup(t)
	started, next := b.response(t, ada), b.response(t, ada)
	secrets := b.config.Secrets
	b.config.Secrets = append([][]byte{[]byte(strings.Repeat("n", 32))}, secrets...)
	must.Value(sso.New(b.config).Identify(t.Context(), started))(t)
	b.config.Secrets = b.config.Secrets[:1]
	errstest.Want(t, errs.BadCredentials, "without the secret")(sso.New(b.config).Identify(t.Context(), next))
}

// TestProvider_CachesMetadata for an hour, and reads them again at most once a minute for tokens
// that no key verifies.
func TestProvider_CachesMetadata(t *testing.T) {
	t.Parallel()
	b := setup(t)
	requests := func() [2]int {
		return [2]int{b.server.Requests(ssotest.MetadataPath), b.server.Requests(ssotest.KeysPath)}
	}
	expect := func(what string, want int, ok bool) {
		t.Helper()
		_, err := b.logIn(t, ada)
		if got := requests(); got != [2]int{want, want} || ok != (err == nil) {
			t.Errorf("%s: %v requests, want %d: %v", what, got, want, err)
		}
	}
	if requests() != [2]int{} {
		t.Error("New connects")
	}
	expect("first log-in", 1, true)
	b.pass(59 * time.Minute)
	expect("within an hour", 1, true)
	b.pass(2 * time.Minute)
	expect("after an hour", 2, true)

	b.server.Sign = sign(jose.RS256, "RS256") // a new key, which is not published in time
	b.server.Published = []jose.JSONWebKey{ssotest.PublicKey(jose.ES256)}
	b.pass(time.Hour)
	expect("a new key", 3, false)
	expect("a new key within a minute", 3, false)
	b.server.Published = append(b.server.Published, ssotest.PublicKey(jose.RS256))
	b.pass(59 * time.Second)
	expect("a published key within a minute", 3, false)
	b.pass(time.Second)
	expect("a published key after a minute", 4, true)

	b.pass(time.Minute)
	b.server.Respond[ssotest.KeysPath] = func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "", http.StatusBadGateway)
	}
	b.server.Sign = sign(jose.EdDSA, "EdDSA")
	expect("no keys", 5, false)
	expect("no keys within a minute", 5, false)
	b.server.Sign = sign(jose.RS256, "RS256")
	expect("a known key", 5, true)
}

// TestProvider_SharesRequests: users who log in at once wait for one request.
func TestProvider_SharesRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	arrived, release := make(chan struct{}, 20), make(chan struct{})
	b.server.Respond[ssotest.KeysPath] = func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
		panic(http.ErrAbortHandler)
	}
	failed := make(chan error, 20)
	for range cap(failed) {
		go func() {
			_, err := b.AuthorizationURL(t.Context(), secret, page)
			failed <- err
		}()
	}
	<-arrived
	close(release)
	for range cap(failed) {
		if err := <-failed; !errs.Is(err, errs.Unavailable) {
			t.Error(err)
		}
	}
	if n := b.server.Requests(ssotest.KeysPath); n > 5 { // calls that began after the failure
		t.Errorf("%d requests", n)
	}
}

func TestIdentify_ReadsGroups(t *testing.T) {
	t.Parallel()
	many := make([]string, 2000)
	for n := range many {
		many[n] = strings.Repeat("g", 20)
	}
	for name, c := range map[string]struct {
		value  any
		groups []string
	}{
		"list": {[]string{"a", "b c"}, []string{"a", "b c"}}, "empty list": {[]string{}, []string{}},
		"one text": {"a", []string{"a"}}, "many": {many, many}, "named null": {[]string{"nullable"},
			[]string{"nullable"}},
		"missing": {nil, []string{}}, "number": {5, nil}, "null in a list": {[]any{"a", nil}, nil},
		"object": {map[string]any{"a": true}, nil}, "mixed list": {[]any{"a", 5}, nil},
		"JSON null": {json.RawMessage("null"), []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			claims(map[string]any{"groups": c.value, "Groups": "other"})(b.server)
			got, err := b.logIn(t, ada)
			logged, text := b.log.take(t)
			if diff := gocmp.Diff(c.groups, got.Groups); diff != "" || err != nil ||
				len(logged) == 1 != (c.groups == nil || name == "missing" || name == "JSON null") {
				t.Errorf("%v (-want +got):\n%s\n%s", err, diff, text)
			}
		})
	}
	for name, c := range map[string]map[string]any{
		"elsewhere": {"groups": nil, "_claim_names": map[string]string{"groups": "src1"},
			"_claim_sources": map[string]any{"src1": map[string]string{"endpoint": "https://graph.example/groups"}}},
		"elsewhere and here": {"groups": []string{"a"}, "_claim_names": map[string]string{"groups": "src1"},
			"_claim_sources": map[string]any{"src1": map[string]string{"endpoint": "https://graph.example/groups"}}},
		"too many": {"groups": nil, "hasgroups": true},
	} {
		b := setup(t)
		claims(c)(b.server)
		got, err := b.logIn(t, ada)
		if logged, text := b.log.take(t); err != nil || got.Groups != nil || len(logged) != 1 {
			t.Errorf("%s: %v, %v\n%s", name, got.Groups, err, text)
		}
	}
	b := setup(t, func(c *sso.Config) { c.NeedsGroups = false })
	must.Value(b.logIn(t, ssotest.User{Subject: "a", Email: "a@example.com"}))(t)
	if _, text := b.log.take(t); text != "" {
		t.Errorf("groups that nobody wants are missed: %s", text)
	}
}

func TestRefuse_LogsCheckOfCaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	err := b.Refuse(t.Context(), "transaction")
	b.expectFault(t, err, errs.BadCredentials, "transaction", "", "")
}

// TestIdentify_AllowsAllDomains unless some are listed.
func TestIdentify_AllowsAllDomains(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *sso.Config) { c.EmailDomains = nil })
	if got, err := b.logIn(t, ssotest.User{Subject: "a", Email: "a@Bücher.example"}); err != nil ||
		got.Email != "a@xn--bcher-kva.example" {
		t.Errorf("%+v: %v", got, err)
	}
	b = setup(t, func(c *sso.Config) { c.EmailDomains = []string{"xn--bcher-kva.example"} })
	must.Value(b.logIn(t, ssotest.User{Subject: "a", Email: "a@BÜCHER.example"}))(t)
}

// TestIdentify_CompletesFromUserInfo: what the ID token lacks is read from the user info endpoint, of
// the same user only, and nothing is read that the log-in does not need.
func TestIdentify_CompletesFromUserInfo(t *testing.T) {
	t.Parallel()
	verified := map[string]any{
		"email": "ada@example.com", "email_verified": "True", "groups": []string{"it"}, "name": "A",
	}
	user := func(name string, groups ...string) sso.User {
		return sso.User{Email: "ada@example.com", Name: name, Groups: groups}
	}
	const roles = "realm_access.roles"
	for name, c := range map[string]struct {
		token, info map[string]any
		status      int
		claim       string // of groups
		check       string // that fails; with a user, that is logged
		want        sso.User
		requests    int
	}{
		"complete token": {info: verified, want: user("Ada", ada.Groups...)},
		"no groups": {token: map[string]any{"groups": nil}, info: verified, requests: 1,
			want: user("Ada", "it")},
		"null groups": {token: map[string]any{"groups": json.RawMessage("null")}, info: verified, requests: 1,
			want: user("Ada", "it")},
		"no address": {token: map[string]any{"email": nil, "email_verified": nil, "name": nil}, info: verified,
			requests: 1, want: user("A", ada.Groups...)},
		"address without verification": {token: map[string]any{"email": "x@example.com", "email_verified": nil},
			info: verified, requests: 1, want: user("Ada", ada.Groups...)},
		"address that is not verified": {token: map[string]any{"email_verified": false}, info: verified,
			check: "email_verified"},
		"verification of another address": {token: map[string]any{"email": nil},
			info: map[string]any{"email": "ada@example.com"}, requests: 1, check: "email_verified"},
		"another subject": {token: map[string]any{"groups": nil}, info: map[string]any{"sub": "eve"}, requests: 1,
			check: "user_info"},
		"address refused": {token: map[string]any{"email": nil}, status: http.StatusForbidden, requests: 1,
			check: "user_info"},
		"groups refused": {token: map[string]any{"groups": nil}, status: http.StatusForbidden, requests: 1,
			check: "user_info", want: user("Ada")},
		"outage": {token: map[string]any{"groups": nil}, status: http.StatusBadGateway, requests: 1,
			check: "user_info"},
		"groups within an object": {claim: roles, token: map[string]any{"realm_access": map[string]any{
			"roles": []string{"admin"}}}, want: user("Ada", "admin")},
		"groups within an object of a name with dots": {claim: "resource_access.app.example.roles",
			token: map[string]any{"resource_access": map[string]any{"app.example": map[string]any{"roles": "admin"}}},
			want:  user("Ada", "admin")},
		"groups of a name with dots": {claim: "https://example.com/groups",
			token: map[string]any{"https://example.com/groups": []string{"admin"}},
			want:  user("Ada", "admin")},
		"groups within an object of user info": {claim: roles, requests: 1,
			info: map[string]any{"realm_access": map[string]any{"roles": []string{"admin"}}},
			want: user("Ada", "admin")},
	} {
		for _, isSigned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, signed %t", name, isSigned), func(t *testing.T) {
				t.Parallel()
				b := setup(t, func(s *sso.Config) { s.GroupsClaim = cmp.Or(c.claim, s.GroupsClaim) })
				claims(c.token)(b.server)
				b.server.OfferUserInfo(c.status, c.info, isSigned)
				got, err := b.logIn(t, ada)
				logged, text := b.log.take(t)
				if c.want.Email != "" {
					c.want.Issuer, c.want.Subject = b.server.URL, ada.Subject
				}
				if diff := gocmp.Diff(c.want, got); diff != "" || (err == nil) != (c.want.Email != "") {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
				if len(logged) != min(1, len(c.check)) || c.check != "" && logged[0]["check"] != c.check ||
					b.server.Requests(ssotest.UserInfoPath) != c.requests {
					t.Errorf("%d requests, the check %q: %s", b.server.Requests(ssotest.UserInfoPath), c.check, text)
				}
			})
		}
	}
}
