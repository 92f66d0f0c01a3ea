package creation

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxPublishable is how many links a call with a publishable key may create, and
// publishablePerAddress how many a client address may create with the keys of a workspace.
const maxPublishable = 10

var publishablePerAddress = ratelimit.Rate{Name: "publishable-address", Attempts: 30, Window: time.Hour}

// checkPublishable checks a call with a publishable API key, and charges its links to the address
// of the client. It returns InvalidInput or RateLimited.
func (s *Store) checkPublishable(ctx context.Context, m workspace.Membership, in Batch) error {
	if len(in.Links) > maxPublishable {
		return errs.New(errs.InvalidInput, "A publishable API key creates up to %d links in a call.", maxPublishable).
			At("links")
	}
	if in.IdempotencyKey != nil {
		return errPublishable("idempotencyKey")
	}
	return s.config.Limits.SpendFrom(ctx, publishablePerAddress, int64(len(in.Links)), web.AddressOf(ctx), m.ID())
}

func errPublishable(field string) error {
	return errs.New(errs.InvalidInput, "Anyone can read a publishable API key, so it gives the url of a link alone.").
		At(field)
}

// checkPublishable returns InvalidInput for the fields besides the URL that the caller gives with a
// publishable API key.
func (it *item) checkPublishable() error {
	if !it.call.member.IsPublishable() {
		return nil
	}
	in := it.want.in
	names := in.Fields.Names()
	for name, isGiven := range map[string]bool{
		"strategy": in.Strategy != nil, "customCode": in.CustomCode != nil, "domainId": in.DomainID != nil,
	} {
		if isGiven {
			names = append(names, name)
		}
	}
	var checks []error
	for _, name := range names {
		checks = append(checks, errPublishable(name))
	}
	return errs.All(checks...)
}
