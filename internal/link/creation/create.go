// Package creation creates links: single ones, bulk calls, upserts and links without an account.
// Every call is part of a batch, which reads, decides and writes in one transaction. gather.go
// forms batches, batch.go runs them, codes.go finds codes, decide.go is the contract, quota.go
// consumes the monthly quota, and insert.go writes. import.go has the batch of an import, which is
// part of a transaction of the importer. The GraphQL resolvers call the others.
package creation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/codecounter"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Config configures a Store.
type Config struct {
	Links *link.Store
	Quota *link.Quota
	// CodeSecrets are the keys of the strategy Counter: the current one, then its predecessors.
	CodeSecrets [][]byte
	// Cell is the cell whose counters they are.
	Cell int
	// AnonymousTTL is the lifetime of anonymous links; zero disables them. Limits limits their
	// creation.
	AnonymousTTL time.Duration
	Limits       ratelimit.Limiter
}

// Store creates links. It has the methods of the store of links.
type Store struct {
	*link.Store
	config     Config
	quota      *link.Quota
	counters   *codecounter.Counter
	gatherer   gatherer
	lanes      uint32 // of shared batches
	collisions atomic.Int64
	exhausted  atomic.Int64
}

// NewStore returns a Store that creates links in the store of links, within the quotas.
func NewStore(c Config) *Store {
	return &Store{
		Store: c.Links, config: c, quota: c.Quota, counters: codecounter.New(c.Links.DB, c.CodeSecrets, c.Cell),
		gatherer: gatherer{MaxBatch: maxBatchCalls, Serial: true}, lanes: defaultLanes,
	}
}

// Collisions returns how many generated codes were taken, since this node started.
func (s *Store) Collisions() int64 { return s.collisions.Load() }

// ExhaustedCodes returns how many links were refused with CodeExhausted, since this node started.
func (s *Store) ExhaustedCodes() int64 { return s.exhausted.Load() }

// now returns the current time in the precision of the database.
func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Batch is a list of links to create in one call.
type Batch struct {
	Links []*Input
	// OnError is the policy; empty means SkipFailed.
	OnError link.Policy
	// IdempotencyKey identifies the call: a repeated call returns the results of the first.
	IdempotencyKey *string
	// OperationID is the id under which package edit undoes the call; empty for a call that is no
	// operation. The key does not depend on it.
	OperationID string `json:"-"`
}

// Create creates a link. If a deterministic link with this URL, or a custom link with this code and
// URL, exists, it returns that. If several nodes get the same request at once, exactly one creates
// the link, consumes quota, and returns true in created. A deleted link is revived: it keeps its
// ID, code, external ID and creator, takes its other values from the argument, consumes no quota,
// and created is false, see Result.Dropped; that requires WriteLinks. An existing link stays as it
// is, see Result.Ignored.
//
// It returns InvalidInput, InvalidURL, UnsafeURL, CodeReserved, CodeTaken, CodeExhausted,
// QuotaExceeded or Forbidden, and Conflict if the existing link does not have a restriction of the
// argument, or was deleted and the caller may not revive it.
func (s *Store) Create(ctx context.Context, m workspace.Membership, in Input) (l *link.Link, created bool, err error) {
	results, err := s.CreateMany(ctx, m, Batch{Links: []*Input{&in}})
	if err != nil {
		return nil, false, err
	}
	return results[0].Link, results[0].Created, results[0].Err
}

// CreateMany is Create for up to MaxBatch links, with one result each, in the same order. Equal
// links within the batch are created once; the first result has Created. A repeated call with the
// same IdempotencyKey and the same links, by the same caller within 24 hours, returns the results
// of the first. Calls with a presumed membership have neither a key nor a routing. The number of
// statements does not depend on the number of links. An error means that nothing was created:
// InvalidInput, IdempotencyConflict or Forbidden. With an invalid key, the results still have the
// errors of the links.
func (s *Store) CreateMany(ctx context.Context, m workspace.Membership, in Batch) ([]link.Result, error) {
	ctx, err := m.Enter(ctx, workspace.CreateLinks)
	if err != nil {
		return nil, err
	}
	if err := link.CheckBatch(len(in.Links), "links"); err != nil {
		return nil, err
	}
	if m.IsPublishable() {
		if err := s.checkPublishable(ctx, m, in); err != nil {
			return nil, err
		}
	}
	hasRouting := slices.ContainsFunc(in.Links, func(l *Input) bool { return l.Fields.Routing.Set })
	// they read before the transaction checks the membership
	if m.IsPresumed() && (in.IdempotencyKey != nil || hasRouting) {
		return nil, errors.New("creating links with a presumed membership")
	}
	key, keyErr := s.newKey(m, in)
	c := &call{member: m, policy: in.OnError, key: key, operationID: in.OperationID}
	if err := s.addLinks(ctx, c, creations, in.Links); err != nil {
		return nil, err
	}
	if keyErr != nil {
		return s.validated(c), keyErr
	}
	for {
		if key != nil {
			if results, found, err := s.savedResults(ctx, m, key); found || err != nil {
				return results, err
			}
		}
		err := s.create(ctx, c)
		if err == nil {
			return c.results, link.InternalError(c.results)
		}
		if !errors.Is(err, errKeyTaken) { // else the same call was faster: return its results
			return nil, fmt.Errorf("creating links: %w", err)
		}
	}
}

// validated returns the results of links that are only validated.
func (s *Store) validated(c *call) (results []link.Result) {
	b := s.newBatch(c)
	for _, it := range c.items {
		b.validate(it)
		results = append(results, link.Result{Err: it.final.Err})
	}
	return results
}

// addLinks adds links to a call. It fills in what their routings name, and hashes their passwords.
func (s *Store) addLinks(ctx context.Context, c *call, k kind, links []*Input) error {
	routings, needClicks := make([]link.Routed, 0, len(links)), false
	for _, in := range links {
		c.add(k, in)
		change := link.Routed{Change: in.Fields.Routing.To}
		if k == upserts {
			change.ExternalID = in.externalID()
		}
		routings, needClicks = append(routings, change), needClicks || in.Fields.MaxClicks.To != nil
	}
	if err := s.PrepareRoutings(ctx, c.member, routings); err != nil {
		return err
	}
	if needClicks { // the redirects of this node count towards the limit of a link that exists, or is revived
		s.AwaitClicks(ctx)
	}
	return nil
}

func (c *call) add(k kind, in *Input) {
	c.items = append(c.items, &item{call: c, want: proposal{kind: k, in: in}})
}

// anonymousPerAddress is how many links a client address may create without an account.
var anonymousPerAddress = ratelimit.Rate{Name: "anonymous-address", Attempts: 60, Window: time.Hour}

// claimPrefix identifies claim tokens, for users and for secret scanners.
const claimPrefix = "claim_"

// CreateAnonymous creates a link without an owner that expires after AnonymousTTL, and the token
// for claiming it, which is not stored. The address is the client's, for the rate limit. It returns
// InvalidURL, UnsafeURL, RateLimited, or Forbidden where links need an account.
func (s *Store) CreateAnonymous(ctx context.Context, address, url string) (l *link.Link, claimToken string, err error) {
	if s.config.AnonymousTTL == 0 {
		return nil, "", errs.New(errs.Forbidden, "This instance makes no links without an account. Log in, and use "+
			"createLink.")
	}
	if err := s.config.Limits.SpendFrom(ctx, anonymousPerAddress, 1, address); err != nil {
		return nil, "", err
	}
	claimToken = claimPrefix + rand.Text()
	end := s.now().Add(s.config.AnonymousTTL)
	l, _, err = s.Create(ctx, workspace.Public(),
		Input{URL: url, Fields: linkfield.Change{ExpiresAt: optional.Set(&end)}, ClaimHash: link.HashClaim(claimToken)})
	return l, claimToken, err
}
