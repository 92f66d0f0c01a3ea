package sso_test

import (
	"bufio"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/sso"
	"github.com/linkforge/linkforge/internal/tenant/sso/ssotest"
)

// realProvider starts the provider of scripts/oidc-provider, and returns its issuer.
func realProvider(t *testing.T) string {
	t.Helper()
	if os.Getenv("LINKFORGE_TEST_OIDC_PROVIDER") != "on" {
		t.Skip("runs by make test-sso")
	}
	provider := exec.CommandContext(t.Context(), "node", "../../../scripts/oidc-provider/server.js",
		ssotest.ClientSecret, page)
	provider.Stderr = os.Stderr
	stdin, stdout := must.Value(provider.StdinPipe())(t), must.Value(provider.StdoutPipe())(t)
	must.NoError(t, provider.Start())
	t.Cleanup(func() {
		must.NoError(t, stdin.Close())
		_ = provider.Wait()
	})
	issuer := must.Value(bufio.NewReader(stdout).ReadString('\n'))(t)
	return strings.TrimSpace(issuer)
}

// logInAt fills in the pages of oidc-provider until it redirects to the page of the client.
func logInAt(t *testing.T, authorizationURL string) sso.Response {
	t.Helper()
	errArrived := errors.New("arrived")
	browser := &http.Client{Jar: must.Value(cookiejar.New(nil))(t),
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if strings.HasPrefix(r.URL.String(), page) {
				return errArrived
			}
			return nil
		}}
	response, err := browser.Get(authorizationURL)
	for _, prompt := range []string{"login", "consent"} {
		must.NoError(t, err)
		must.NoError(t, response.Body.Close())
		response, err = browser.PostForm(response.Request.URL.String(), url.Values{
			"prompt": {prompt}, "login": {"ada"}, "password": {"a"},
		})
	}
	arrived, ok := errors.AsType[*url.Error](err)
	if !ok || !errors.Is(err, errArrived) {
		t.Fatalf("the provider does not redirect to the page: %v", err)
	}
	q := must.Value(url.Parse(arrived.URL))(t).Query()
	return sso.Response{Secret: secret, RedirectURI: page, Code: q.Get("code"), State: q.Get("state"),
		Issuer: q.Get("iss")}
}

// TestProvider_IdentifiesAtRealProvider logs in at oidc-provider, which is certified, with each
// algorithm.
func TestProvider_IdentifiesAtRealProvider(t *testing.T) {
	t.Parallel()
	issuer := realProvider(t)
	for _, algorithm := range []string{"RS256", "PS256", "ES256", "EdDSA"} {
		b := setup(t, func(c *sso.Config) {
			c.Issuer, c.ClientID, c.Now = issuer, "linkforge "+algorithm, time.Now
		})
		r := logInAt(t, must.Value(b.AuthorizationURL(t.Context(), secret, page))(t))
		got, err := b.Identify(t.Context(), r)
		want := sso.User{
			Issuer: issuer, Subject: "ada", Email: "ada@example.com", Name: "Ada", Groups: []string{"engineering"},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || r.Issuer != issuer {
			_, text := b.log.take(t)
			t.Errorf("%s: %v, issuer %q (-want +got):\n%s\n%s", algorithm, err, r.Issuer, diff, text)
		}
		if _, err := b.Identify(t.Context(), r); err == nil {
			t.Errorf("%s: the same code again", algorithm)
		}
	}
}
