package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
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

// Create makes a link, or answers with the one that is there: a deterministic link for the same URL, a custom
// one for the same code and URL. However many ask at once, on however many nodes, one of them makes it and hears
// true; it alone takes quota. A deleted link is revived with what the caller says now.
//
// It returns InvalidInput, InvalidURL, UnsafeURL, CodeReserved, CodeTaken, CodeExhausted, QuotaExceeded or
// Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, by string, in New) (*Link, bool, error) {
	results, err := s.CreateMany(ctx, m, by, []*New{&in}, SkipFailed)
	if err != nil {
		return nil, false, err
	}
	return results[0].Link, results[0].Created, results[0].Err
}

// Policy says what becomes of a batch some of whose links cannot be made.
type Policy string

// The policies.
const (
	// SkipFailed makes those that can be made.
	SkipFailed Policy = "SKIP_FAILED"
	// AllOrNothing makes none.
	AllOrNothing Policy = "ALL_OR_NOTHING"
)

// CreateMany is Create of up to MaxBatch links, with a result each, in the order of the calls. Links that are the
// same within the batch are made once: the first hears true. It takes a handful of statements, however many links.
// An error means that nothing was done.
func (s *Store) CreateMany(ctx context.Context, m workspace.Membership, by string, in []*New, policy Policy) ([]Result, error) {
	if err := m.Need(workspace.Editor); err != nil {
		return nil, err
	}
	if len(in) == 0 || len(in) > MaxBatch {
		return nil, errs.New(errs.InvalidInput, "From 1 to %d links can be created at once; these are %d.", MaxBatch, len(in))
	}
	b := &batch{Store: s, member: m, by: by, now: db.Instant(s.Now()), policy: policy}
	if err := b.prepare(ctx, in); err != nil {
		return nil, err
	}
	if err := b.settle(ctx); err != nil {
		return nil, fmt.Errorf("making links: %w", err)
	}
	return b.results(ctx)
}

// codes are the codes that a caller or the URL gives the link, in the order in which they are tried; none for
// strategies that generate them.
func (s *Store) codes(draft *Link, custom *string) ([]string, error) {
	if draft.Strategy != Custom && custom != nil {
		return nil, errs.New(errs.InvalidInput, "customCode goes with the strategy CUSTOM only.").At("customCode")
	}
	switch draft.Strategy {
	case Deterministic:
		return slices.DeleteFunc(s.candidates(draft.CanonicalURL, draft.WorkspaceID), shortcode.Reserved), nil
	case Custom:
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
		return nil, errs.New(errs.CodeReserved, "The server keeps this word for itself. Choose another code.").At("customCode")
	}
	return []string{*custom}, nil
}

// revive brings a deleted link back, as the draft describes it. It returns UnsafeURL for a link that the
// operator has disabled.
func (s *Store) revive(ctx context.Context, draft, l *Link) (*Link, error) {
	if l.DisabledAt != nil {
		return nil, errDisabled().At("url")
	}
	revived := &Link{In: l.In}
	_, err := s.DB.NewUpdate().Model(draft).
		Column("original_url", "title", "redirect_status", "starts_at", "expires_at", "updated_at").
		Set("deleted_at = NULL").
		Where("id = ?", l.ID).Where("deleted_at IS NOT NULL").Where("disabled_at IS NULL").
		Returning("*").Exec(ctx, revived)
	if errors.Is(err, sql.ErrNoRows) {
		return s.Get(ctx, l.In, l.ID) // somebody else was faster
	}
	if err != nil {
		return nil, fmt.Errorf("reviving a link: %w", err)
	}
	return revived, nil
}

// deterministic finds the workspace's deterministic link for a URL. It returns NotFound.
func deterministic(ctx context.Context, conn bun.IDB, m workspace.Membership, hash []byte) (*Link, error) {
	return find(ctx, conn, m, "canonical_hash = ? AND strategy = 'DETERMINISTIC'", hash)
}

// find loads the one link of the workspace that meets the condition. It returns NotFound.
func find(ctx context.Context, conn bun.IDB, m workspace.Membership, where string, args ...any) (*Link, error) {
	l := &Link{In: m}
	err := conn.NewSelect().Model(l).Where("workspace_id = ?", m.ID()).Where(where, args...).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a link: %w", err)
	}
	return l, nil
}
