package graph

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// passwordFields returns the mutations that may hash a password: those whose input has one, or a
// proof of identity.
func passwordFields(s *ast.Schema) (names []string) {
	for _, mutation := range s.Mutation.Fields {
		for _, argument := range mutation.Arguments {
			if slices.ContainsFunc(s.Types[argument.Type.Name()].Fields, func(f *ast.FieldDefinition) bool {
				return f.Type.Name() == "ProofInput" || f.Name == "password" || f.Name == "newPassword"
			}) {
				names = append(names, mutation.Name)
			}
		}
	}
	return names
}

func (c *Config) authenticate(ctx context.Context, authorization string) (transport.Caller, error) {
	ctx, err := c.Accounts.Authenticate(ctx, authorization)
	caller := transport.Caller{RequestsPerMinute: requestRate(ctx), Subject: subject(ctx), Groups: groups(ctx),
		Owner: owner(ctx), Anonymous: true}
	caller.Attach = func(ctx context.Context) context.Context { return withLists(admission.OwnedBy(ctx, caller.Owner)) }
	if actor, anonymous := account.Current(ctx); anonymous == nil {
		caller.Anonymous = false
		caller.Attach = func(ctx context.Context) context.Context {
			return account.WithActor(withLists(admission.OwnedBy(ctx, caller.Owner)), actor)
		}
	}
	return caller, err
}

// requestRate returns the requests per minute of an API key that has a rate of its own; zero for
// other callers.
func requestRate(ctx context.Context) int64 {
	if actor, err := account.Current(ctx); err == nil && actor.Key != nil {
		return int64(optional.Value(actor.Key.RequestsPerMinute))
	}
	return 0
}

// subject identifies the caller for rate limits: an API key, an account or an address.
func subject(ctx context.Context) string {
	actor, err := account.Current(ctx)
	switch {
	case err != nil:
		return web.AddressOf(ctx)
	case actor.Key != nil:
		return actor.Key.ID
	}
	return actor.AccountID
}

// The rates of groups, as multiples of the rate of one caller.
const (
	callersOfKeys        = 5  // all API keys of a workspace, and all that one account created
	callersOfNetwork     = 10 // all callers of an IPv4 address or an IPv6 network of 64 bits
	callersOfWideNetwork = 40 // all callers of an IPv6 network of 48 bits
)

// groups returns the groups of the caller. Their subjects differ from those of callers.
func groups(ctx context.Context) (all []transport.Group) {
	if actor, err := account.Current(ctx); err == nil && actor.Key != nil {
		all = append(all, transport.Group{Subject: "keys:" + actor.Key.WorkspaceID, Callers: callersOfKeys})
		if creator := actor.Key.CreatedBy; creator != "" {
			all = append(all, transport.Group{Subject: "keys:" + creator, Callers: callersOfKeys})
		}
	}
	if address := web.AddressOf(ctx); address != "" {
		all = append(all, transport.Group{Subject: "network:" + address, Callers: callersOfNetwork})
	}
	if site := web.Site(web.AddressOf(ctx)); site != "" {
		all = append(all, transport.Group{Subject: "network:" + site, Callers: callersOfWideNetwork})
	}
	return all
}

// owner identifies who is responsible for an operation: an account, also for the API keys that it
// has created, or a network. Who has many API keys, workspaces or addresses has one turn.
func owner(ctx context.Context) string {
	actor, err := account.Current(ctx)
	switch {
	case err != nil:
		address := web.AddressOf(ctx)
		return cmp.Or(web.Site(address), address)
	case actor.Key != nil:
		return cmp.Or(actor.Key.CreatedBy, actor.Key.WorkspaceID)
	}
	return actor.AccountID
}

// requests is the name of the budget of requests. An API key may have a rate of its own.
const requests = "requests"

// budget returns the points that a caller and its groups may spend in a minute.
func (c *Config) budget(name string, perMinute int64) transport.Budget {
	rate := ratelimit.Rate{Name: name, Attempts: perMinute, Window: time.Minute}
	return func(ctx context.Context, caller transport.Caller, points int64) (limit.Allowance, error) {
		own := rate
		if name == requests && caller.RequestsPerMinute > 0 {
			own.Attempts = min(own.Attempts, caller.RequestsPerMinute)
		}
		a, err := c.Meter.Spend(ctx, own, caller.Subject, points)
		allowance := limit.Allowance{
			Known: a.Known, Limit: own.Attempts, Left: a.Left, Window: own.Window, Reset: a.Reset,
		}
		for _, g := range caller.Groups {
			if err != nil {
				break
			}
			wider := ratelimit.Rate{Name: name, Attempts: g.Callers * perMinute, Window: time.Minute}
			if _, err = c.Meter.Spend(ctx, wider, g.Subject, points); err != nil {
				allowance.OfGroup = true
				err = errs.New(errs.RateLimited,
					"Your account, workspace or network has exceeded its rate. Try again in %s.",
					errs.From(err).RetryAfter).After(errs.From(err).RetryAfter)
			}
		}
		return allowance, err
	}
}

// chargePasswords counts attempts to log in against the caller's address.
func (c *Config) chargePasswords(ctx context.Context, attempts int) {
	c.Accounts.ChargeLogins(ctx, web.AddressOf(ctx), attempts)
}
