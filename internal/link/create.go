package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/idempotency"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/workspace"
)

// MaxBatch is how many links one call may create.
const MaxBatch = 1000

// Result is what creating one link came to: the link, or why there is none.
type Result struct {
	Link *Link
	// Created says that this call made the link.
	Created bool
	Err     error
}

// Create makes a link, or answers with the one that is there: a deterministic link for the same
// URL, a custom one for the same code and URL. However many ask at once, on however many nodes, one
// of them makes it and hears true; it alone takes quota. A deleted link is revived with what the
// caller says now.
//
// It returns InvalidInput, InvalidURL, UnsafeURL, CodeReserved, CodeTaken, CodeExhausted,
// QuotaExceeded or Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, in New) (*Link, bool, error) {
	results, err := s.CreateMany(ctx, m, Batch{Links: []*New{&in}})
	if err != nil {
		return nil, false, err
	}
	return results[0].Link, results[0].Created, results[0].Err
}

// Policy says what becomes of a batch some of whose links have errors.
type Policy string

// The policies.
const (
	// SkipFailed does what can be done.
	SkipFailed Policy = "SKIP_FAILED"
	// AllOrNothing does nothing.
	AllOrNothing Policy = "ALL_OR_NOTHING"
)

// Batch is a number of links to be made.
type Batch struct {
	Links []*New
	// OnError is the policy; empty means SkipFailed.
	OnError Policy
	// IdempotencyKey names the call: the same batch with the same key is made once, and answered the
	// same again.
	IdempotencyKey *string
}

// CreateMany is Create of up to MaxBatch links, with a result each, in the order of the calls.
// Links that are the same within the batch are made once: the first hears true. It takes a handful
// of statements, however many links. An error means that nothing was done: InvalidInput,
// IdempotencyConflict, CodeExhausted when all counters have been given out, or Forbidden.
func (s *Store) CreateMany(ctx context.Context, m workspace.Membership, in Batch) ([]Result, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	if err := checkBatch(len(in.Links), "links"); err != nil {
		return nil, err
	}
	key, err := newKey(m, in)
	if err != nil {
		return nil, err
	}
	if len(in.Links) == 1 && key == nil && in.Links[0].MaxClicks == nil {
		one, err := s.createGathered(ctx, m, in.Links[0])
		return []Result{one}, err
	}
	for {
		if key != nil {
			if results, found, err := s.savedResults(ctx, m, key); found || err != nil {
				return results, err
			}
		}
		b := &batch{Store: s, member: m, now: s.now(), policy: in.OnError, key: key}
		for _, one := range in.Links {
			b.add(m, one)
		}
		if err := b.prepare(ctx); err != nil {
			return nil, err
		}
		err = b.settle(ctx)
		if err == nil {
			results := b.results()
			return results, internal(results)
		}
		if !errors.Is(err, idempotency.ErrTaken) { // else the same call was faster: return its results
			return nil, fmt.Errorf("making links: %w", err)
		}
	}
}

// codes are the codes that a caller gives the link; none for other strategies.
func codes(draft *Link, custom *string) ([]string, error) {
	if draft.Strategy != Custom && custom != nil {
		return nil, errs.New(errs.InvalidInput, "customCode goes with the strategy CUSTOM only.").At("customCode")
	}
	if draft.Strategy == Custom {
		return customCodes(custom)
	}
	return nil, nil
}

func customCodes(custom *string) ([]string, error) {
	if custom == nil {
		return nil, errs.New(errs.InvalidInput, "The strategy CUSTOM needs a customCode.").At("customCode")
	}
	if err := shortcode.ValidateCustom(*custom); err != nil {
		return nil, errs.New(errs.InvalidInput, "%s", err).At("customCode")
	}
	if shortcode.Reserved(*custom) {
		return nil, errs.New(errs.CodeReserved, "The server keeps this word for itself. Choose another code.").
			At("customCode")
	}
	return []string{*custom}, nil
}

// deterministic finds the workspace's deterministic link for a URL. It returns NotFound.
func deterministic(ctx context.Context, conn bun.IDB, m workspace.Membership, hash []byte) (*Link, error) {
	return find(ctx, conn, m, "canonical_hash = ? AND strategy = 'DETERMINISTIC'", hash)
}

// find loads the one link of the workspace that meets the condition. It returns NotFound.
func find(ctx context.Context, conn bun.IDB, m workspace.Membership, where string, args ...any) (*Link, error) {
	l := &Link{In: m}
	err := conn.NewSelect().Model(l).Where("workspace_id = ?", m.ID()).Where("purged_at IS NULL").Where(where, args...).
		Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a link: %w", err)
	}
	return l, nil
}
