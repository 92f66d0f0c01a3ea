package main

import (
	"testing"
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
