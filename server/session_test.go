package main

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/polltest"
)

const refreshSession = `mutation ($x: String!) {
	refreshSession(input: {refreshToken: $x}) { token refreshToken errors { code message field } }
}`

// tokens are the result of a log-in or a refresh.
type tokens struct {
	Token, RefreshToken string
	Errors              []userError
}

func (s *server) login(t *testing.T, who tenant) tokens {
	t.Helper()
	var got struct{ Login tokens }
	client{server: s}.must(t, &got, `mutation ($email: EmailAddress!, $password: String!) {
		login(input: {email: $email, password: $password}) { token refreshToken errors { code message field } } }`,
		map[string]any{"email": who.email, "password": who.password})
	return got.Login
}

// TestRefresh_SucceedsOnceConcurrently, on all nodes, get one successor.
func TestRefresh_SucceedsOnceConcurrently(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		who := nodes[0].tenant(t, "tabs")
		first := nodes[0].login(t, who)
		var mu sync.Mutex
		successors := map[string]bool{}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				var got struct{ RefreshSession tokens }
				err := client{server: nodes[i%len(nodes)]}.try(&got, refreshSession, map[string]any{"x": first.RefreshToken})
				if err != nil || len(got.RefreshSession.Errors) > 0 {
					t.Errorf("%+v, %v", got, err)
				}
				mu.Lock()
				defer mu.Unlock()
				successors[got.RefreshSession.RefreshToken] = true
			})
		}
		all.Wait()
		if len(successors) != 1 {
			t.Errorf("%d successors", len(successors))
		}
	})
}

// TestLogout_ReachesEveryNode within a second.
func TestLogout_ReachesEveryNode(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		who := nodes[0].tenant(t, "leaver")
		other := nodes[len(nodes)-1]
		session := client{server: other, token: nodes[0].login(t, who).Token}
		session.must(t, &struct{}{}, `{ me { id } }`, nil)
		var got struct{ Logout struct{ LoggedOut bool } }
		client{server: nodes[0], token: session.token}.must(t, &got,
			`mutation { logout(input: {}) { loggedOut errors { code } } }`, nil)
		if !got.Logout.LoggedOut {
			t.Errorf("%+v", got)
		}
		ended := time.Now()
		polltest.Until(t, "the other node refuses the token", func() bool {
			a, err := session.run(`{ me { id } }`, nil)
			return err == nil && a.status == http.StatusUnauthorized && a.code() == "UNAUTHENTICATED"
		})
		t.Logf("refused after %s", time.Since(ended).Round(time.Millisecond))
		nodes[0].login(t, who)
		if a, err := who.onServer(other).run(`{ me { id } }`, nil); err != nil || a.status != http.StatusOK {
			t.Errorf("the session that registered: %+v, %v", a, err)
		}
	})
}
