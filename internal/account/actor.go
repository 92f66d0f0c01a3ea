package account

import (
	"context"
	"strings"

	"github.com/linkforge/linkforge/internal/errs"
)

// Actor is who a request acts for.
type Actor struct {
	// AccountID is the person's id, SessionID that of their log-in.
	AccountID, SessionID string
}

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
	actor, err := s.Tokens.check(strings.TrimSpace(token), s.Now())
	if err != nil {
		return ctx, err
	}
	if s.revoked.has(actor.SessionID) {
		return ctx, errs.New(errs.Unauthenticated, "You have been logged out. Log in again.")
	}
	return WithActor(ctx, actor), nil
}
