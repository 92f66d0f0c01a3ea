package graph

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/web"
)

// passwordFields are the mutations that hash a password.
var passwordFields = []string{
	"login", "register", "changePassword", "resetPassword", "exportMyData", "deleteMyAccount",
}

func (c *Config) authenticate(ctx context.Context, authorization string) (transport.Caller, error) {
	ctx, err := c.Accounts.Authenticate(ctx, authorization)
	caller := transport.Caller{Subject: subject(ctx), Anonymous: true}
	if actor, anonymous := account.Current(ctx); anonymous == nil {
		caller.Anonymous = false
		caller.Attach = func(ctx context.Context) context.Context { return account.WithActor(ctx, actor) }
	}
	return caller, err
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

// budget returns the points that a subject may spend in a minute.
func (c *Config) budget(name string, perMinute int64) transport.Budget {
	rate := ratelimit.Rate{Name: name, Attempts: perMinute, Window: time.Minute}
	return func(ctx context.Context, subject string, points int64) (transport.Allowance, error) {
		a, err := c.Limits.Spend(ctx, rate, subject, points)
		return transport.Allowance{
			Known: a.Known, Limit: rate.Attempts, Left: a.Left, Window: rate.Window, Reset: a.Reset,
		}, err
	}
}

// chargePasswords counts attempts to log in against the caller's address.
func (c *Config) chargePasswords(ctx context.Context, attempts int) {
	c.Accounts.ChargeLogins(ctx, web.AddressOf(ctx), attempts)
}
