package account

import (
	"context"
	"strings"

	"github.com/linkforge/linkforge/internal/errs"
)

// Actor is who a request acts for: a person, or an API key.
type Actor struct {
	// AccountID is the person's id, SessionID that of their log-in. Both are empty for a key.
	AccountID, SessionID string
	// Key is nil for a person.
	Key *Key
}

// Key is an API key that has proved itself. It belongs to a workspace, not to a person.
type Key struct {
	ID, WorkspaceID string
	// Scopes are what it may do, as the workspace's permissions are called.
	Scopes []string
}

// Keys knows the API keys.
type Keys interface {
	// Authenticate finds the key with the secret. It returns Unauthenticated.
	Authenticate(ctx context.Context, secret string) (*Key, error)
}

// KeyPrefix tells the secret of an API key from a token.
const KeyPrefix = "lfk_"

type actorKey struct{}

// WithActor returns a context that acts for a.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// Current is who the context acts for, or Unauthenticated.
func Current(ctx context.Context) (Actor, error) {
	a, ok := ctx.Value(actorKey{}).(Actor)
	if !ok {
		return Actor{}, errs.New(errs.Unauthenticated, "Log in first: send the token as Authorization: Bearer.")
	}
	return a, nil
}

// Person is the person that the context acts for. It returns Unauthenticated, or Forbidden for an API key.
func Person(ctx context.Context) (Actor, error) {
	a, err := Current(ctx)
	if err == nil && a.Key != nil {
		return Actor{}, errs.New(errs.Forbidden, "This needs a person who is logged in: an API key cannot do it.")
	}
	return a, err
}

// Authenticate reads the value of an Authorization header. An absent one acts for nobody; one that is there
// must be good. It returns Unauthenticated.
func (s *Store) Authenticate(ctx context.Context, authorization string) (context.Context, error) {
	if authorization == "" {
		return ctx, nil
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ctx, errs.New(errs.Unauthenticated, "Only Authorization: Bearer with a token is understood.")
	}
	token = strings.TrimSpace(token)
	if strings.HasPrefix(token, KeyPrefix) {
		key, err := s.Keys.Authenticate(ctx, token)
		if err != nil {
			return ctx, err
		}
		return WithActor(ctx, Actor{Key: key}), nil
	}
	actor, err := s.known.check(s.Tokens, token, s.Now())
	if err != nil {
		return ctx, err
	}
	if s.revoked.has(actor.SessionID) {
		return ctx, errs.New(errs.Unauthenticated, "You have been logged out. Log in again.")
	}
	return WithActor(ctx, actor), nil
}
