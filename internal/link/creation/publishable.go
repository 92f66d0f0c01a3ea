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

// otherField returns the name in the API of a field that is given, other than the URL; empty if there
// is none.
func (in *Input) otherField() string {
	switch names := in.Fields.Names(); {
	case in.Strategy != nil:
		return "strategy"
	case in.CustomCode != nil:
		return "customCode"
	case in.DomainID != nil:
		return "domainId"
	case len(names) > 0:
		return names[0]
	}
	return ""
}
