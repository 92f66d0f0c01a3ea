package account

import (
	"context"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Actor is the authenticated user or API key of a request.
type Actor struct {
	// AccountID and SessionID are empty for an API key.
	AccountID, SessionID string
	// Methods are how the user was authenticated, at AuthenticatedAt.
	Methods         Methods
	AuthenticatedAt time.Time
	// HasSecondFactor means that one was among them, or a provider that is trusted with factors.
	HasSecondFactor bool
	// Key is nil for a user.
	Key *Key
}

// LacksSecondFactor reports whether the actor is a session that has proved none. What acts without
// a session was accepted before.
func (a Actor) LacksSecondFactor() bool { return a.SessionID != "" && !a.HasSecondFactor }

// CountsGroups reports whether memberships by groups of the provider count: in sessions that came
// from it, which end soon after it has removed the user. What acts without a session was accepted
// before.
func (a Actor) CountsGroups() bool { return a.SessionID == "" || a.Methods.has(Provider) }

// Key is an authenticated API key. It belongs to a workspace, not to a user.
type Key struct {
	ID, WorkspaceID string
	// CreatedBy is the account that created it; empty if that was deleted.
	CreatedBy string
	// Scopes are names of workspace permissions.
	Scopes []string
	// DestinationHosts are where links of the key may lead, see workspace.Membership.MayLeadTo, and
	// Origins the pages that may use it; empty means any.
	DestinationHosts, Origins []string
	// RequestsPerMinute is the rate of the key; nil means the server's.
	RequestsPerMinute *int
	// LinksPerDay is how many links a publishable key may create on a day; nil means the default.
	LinksPerDay *int
	// Folders are the only ones whose links the key can see; empty means no restriction. See
	// workspace.Membership.Fence.
	Folders []string
}

// Keys authenticates API keys.
type Keys interface {
	// Authenticate returns the key with the secret, or Unauthenticated.
	Authenticate(ctx context.Context, secret string) (*Key, error)
	// PermitsOrigin reports whether the key with the secret names the origin of a page.
	PermitsOrigin(ctx context.Context, secret, origin string) bool
}

// The prefixes distinguish the secrets of API keys from tokens, and, for users and secret scanners,
// publishable keys from secret ones.
const (
	KeyPrefix            = "lfk_"
	PublishableKeyPrefix = "lfp_"
)

// IsKey reports whether a token is the secret of an API key.
func IsKey(token string) bool {
	return strings.HasPrefix(token, KeyPrefix) || strings.HasPrefix(token, PublishableKeyPrefix)
}

type actorKey struct{}

// WithActor returns a context with the actor.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// Current returns the actor of the context, or Unauthenticated.
func Current(ctx context.Context) (Actor, error) {
	a, ok := ctx.Value(actorKey{}).(Actor)
	if !ok {
		return Actor{}, errs.New(errs.Unauthenticated,
			"Authentication is required. Log in, and send the token as Authorization: Bearer.")
	}
	return a, nil
}

// RequireUser returns the user of the context. It returns Unauthenticated if there is none, or
// Forbidden for an API key.
func RequireUser(ctx context.Context) (Actor, error) {
	a, err := Current(ctx)
	if err == nil && a.Key != nil {
		return Actor{}, errs.New(errs.Forbidden, "This operation requires a logged-in user. API keys are not accepted.")
	}
	return a, err
}

// PermitsOrigin reports whether an Authorization header has an API key that names the origin of a
// page.
func (s *Store) PermitsOrigin(ctx context.Context, authorization, origin string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	token = strings.TrimSpace(token)
	return strings.EqualFold(scheme, "Bearer") && IsKey(token) && s.Keys.PermitsOrigin(ctx, token, origin)
}

// Authenticate returns a context with the actor of an Authorization header. An empty header is
// anonymous. It returns Unauthenticated.
func (s *Store) Authenticate(ctx context.Context, authorization string) (context.Context, error) {
	if authorization == "" {
		return ctx, nil
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ctx, errs.New(errs.Unauthenticated, "The Authorization header must be Bearer, followed by a token.")
	}
	token = strings.TrimSpace(token)
	if IsKey(token) {
		key, err := s.Keys.Authenticate(ctx, token)
		if err != nil {
			return ctx, err
		}
		return WithActor(ctx, Actor{Key: key}), nil
	}
	actor, err := s.tokenCache.check(s.Tokens, token, s.Now())
	if err != nil {
		return ctx, err
	}
	hasEnded, present := s.revoked.of(actor.SessionID)
	if hasEnded {
		return ctx, errEnded()
	}
	if present != nil {
		actor.Methods = actor.Methods.in(*present)
	}
	actor.HasSecondFactor = s.provesFactor(actor.Methods)
	return WithActor(ctx, actor), nil
}

func errEnded() error {
	return errs.New(errs.Unauthenticated, "You have been logged out. Log in again.")
}

// ActorOf returns the user of a session.
func (s *Store) ActorOf(session *Session) Actor {
	return Actor{
		AccountID: session.AccountID, SessionID: session.ID, Methods: session.Methods,
		AuthenticatedAt: session.AuthenticatedAt,
		HasSecondFactor: s.provesFactor(session.Methods),
	}
}

// provesFactor reports whether the methods prove a second factor.
func (s *Store) provesFactor(m Methods) bool {
	return m.has(TOTP, RecoveryCode, Passkey) || s.SSO != nil && s.SSO.TrustsFactors && m.has(Provider)
}
