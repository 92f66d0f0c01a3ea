package edit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// MaxClaims is how many claim tokens one call may present.
const MaxClaims = 100

// ClaimStatus is the outcome of a claim.
type ClaimStatus string

// The outcomes.
const (
	Claimed        ClaimStatus = "CLAIMED"
	AlreadyClaimed ClaimStatus = "ALREADY_CLAIMED"
	ClaimExpired   ClaimStatus = "EXPIRED"
	ClaimUnknown   ClaimStatus = "UNKNOWN"
	ClaimRefused   ClaimStatus = "REFUSED"
)

// Claim is the result of claiming with one token.
type Claim struct {
	Status ClaimStatus
	// Link is the claimed link, also when this workspace had claimed it before.
	Link *link.Link
	// Err is why the workspace does not own the link: NotFound, Expired, Conflict for a link that
	// another workspace has claimed, CodeTaken, QuotaExceeded or UnsafeURL.
	Err error
}

// Claim moves anonymous links to the workspace, with their codes and clicks and without an
// expiration, and consumes its link quota. Each token has its own transaction and result. It
// returns InvalidInput or Forbidden.
func (s *Store) Claim(ctx context.Context, m workspace.Membership, tokens []string) ([]Claim, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	if len(tokens) < 1 || len(tokens) > MaxClaims {
		return nil, errs.New(errs.InvalidInput, "From 1 to %d links can be claimed at once; these are %d.", MaxClaims,
			len(tokens)).At("claimTokens")
	}
	if _, err := m.NewFolder(nil); err != nil { // links in no folder are outside
		return nil, errs.New(errs.Forbidden,
			"The API key is restricted to several folders, so that it can claim no links.")
	}
	claims := make([]Claim, 0, len(tokens))
	for _, token := range tokens {
		c, err := s.claim(ctx, m, token)
		if err != nil {
			return nil, fmt.Errorf("claiming a link: %w", err)
		}
		claims = append(claims, c)
	}
	return claims, nil
}

func (s *Store) claim(ctx context.Context, m workspace.Membership, token string) (c Claim, err error) {
	hash := link.HashClaim(token)
	known, err := s.DB.NewSelect().Model((*link.Link)(nil)).Where("claim_hash = ?", hash).Exists(db.AsResolver(ctx))
	if err != nil {
		return Claim{}, err
	}
	if !known { // no transaction for guessed tokens
		return Claim{Status: ClaimUnknown, Err: errNoClaim()}, nil
	}
	// The transaction needs both workspaces, the public one and this one.
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		c, err = s.move(ctx, tx, m, hash)
		if err != nil {
			return err
		}
		return c.Err
	})
	if db.IsUniqueViolation(err) { // of (workspace, code)
		c = Claim{Err: errs.New(errs.CodeTaken, "Another link of this workspace has the same code.")}
		err = c.Err
	}
	if err != nil && !errs.From(err).Kind.IsUserError() {
		return Claim{}, err
	}
	c.Status = c.status(err)
	if c.Link != nil {
		s.Forget(c.Link)
	}
	return c, nil
}

func (c Claim) status(err error) ClaimStatus {
	switch {
	case c.Status != "":
		return c.Status
	case err == nil:
		return Claimed
	case errs.Is(err, errs.NotFound):
		return ClaimUnknown
	case errs.Is(err, errs.Expired):
		return ClaimExpired
	}
	return ClaimRefused
}

// move moves the link with the token and its clicks to the workspace. It locks the quota's row
// before the link's, as package creation does.
func (s *Store) move(ctx context.Context, tx bun.Tx, m workspace.Membership, hash []byte) (Claim, error) {
	now := s.now()
	used, err := link.AddUsage(ctx, tx, "", link.NewUsage(m.ID(), now, 0))
	if err != nil {
		return Claim{}, err
	}
	l, err := s.byClaim(ctx, tx, hash)
	if err != nil {
		return Claim{Err: err}, nil
	}
	if c, done := s.claimable(ctx, tx, m, l); done {
		return c, nil
	}
	if used[0].Links >= s.Quota.Limit(m) {
		return Claim{Err: s.Quota.Exceeded(m, now)}, nil
	}
	before := *l
	l.In, l.WorkspaceID, l.CreatedBy, l.ExpiresAt, l.EndedAt = m, m.ID(), optional.Of(m.AccountID()), nil, nil
	if l.FolderID, err = m.NewFolder(nil); err != nil {
		return Claim{}, err
	}
	l.Touch(now)
	if err := s.Apply(ctx, tx, claimed, []link.Rewrite{{Before: &before, After: l}}); err != nil {
		return Claim{}, err
	}
	if err := s.Clicks.Move(ctx, tx, l.ID, m.ID()); err != nil {
		return Claim{}, err
	}
	if _, err := link.AddUsage(ctx, tx, "", link.NewUsage(m.ID(), now, 1)); err != nil {
		return Claim{}, err
	}
	return Claim{Link: l}, nil
}

// byClaim locks the link with the token. It returns NotFound.
func (s *Store) byClaim(ctx context.Context, tx bun.Tx, hash []byte) (*link.Link, error) {
	l := &link.Link{}
	err := s.DB.ForUpdate(tx.NewSelect().Model(l).Where("claim_hash = ?", hash)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoClaim()
	}
	return l, err
}

func errNoClaim() error { return errs.New(errs.NotFound, "There is no link with this claim token.") }

// claimable reports in done whether the claim has ended, with its result.
func (s *Store) claimable(ctx context.Context, tx bun.Tx, m workspace.Membership, l *link.Link) (c Claim, done bool) {
	switch {
	case l.WorkspaceID == m.ID() && m.IsInside(l.FolderID):
		l.In = m
		return Claim{Status: AlreadyClaimed, Link: l}, true
	case l.WorkspaceID == m.ID():
		return Claim{Status: AlreadyClaimed,
			Err: errs.New(errs.Conflict, "The link has been claimed by this workspace, and is "+
				"outside of the folders of the API key.")}, true
	case l.WorkspaceID != id.PublicWorkspace:
		return Claim{Status: AlreadyClaimed,
				Err: errs.New(errs.Conflict, "The link has been claimed by another workspace.")},
			true
	case l.DisabledAt != nil:
		return Claim{Err: link.ErrDisabled()}, true
	case l.Status(s.now()) == routing.Expired:
		return Claim{Err: errs.New(errs.Expired, "The link expired before it was claimed. Create a new link.")}, true
	}
	l.In = m // whose API key may be limited to hosts
	if err := s.Refuse(ctx, tx, l); err != nil {
		return Claim{Err: err}, true
	}
	return Claim{}, false
}
