package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/workspace"
)

// MaxClaims is how many claim tokens one call may present.
const MaxClaims = 100

// ClaimStatus is what a claim came to.
type ClaimStatus string

// The outcomes.
const (
	Claimed        ClaimStatus = "CLAIMED"
	AlreadyClaimed ClaimStatus = "ALREADY_CLAIMED"
	ClaimExpired   ClaimStatus = "EXPIRED"
	ClaimUnknown   ClaimStatus = "UNKNOWN"
	ClaimRefused   ClaimStatus = "REFUSED"
)

// Claim is what presenting a claim token came to.
type Claim struct {
	Status ClaimStatus
	// Link is the claimed link, also when this workspace had claimed it before.
	Link *Link
	// Err says why the link is not the workspace's: NotFound, Expired, Conflict for a link that
	// another workspace has claimed, CodeTaken, QuotaExceeded or UnsafeURL.
	Err error
}

// Claim makes anonymous links the workspace's own: with code and clicks, without an end, and out of
// its link quota. Each token has a transaction of its own, so that one that fails keeps no other.
// It returns InvalidInput or Forbidden.
func (s *Store) Claim(ctx context.Context, m workspace.Membership, tokens []string) ([]Claim, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	if len(tokens) < 1 || len(tokens) > MaxClaims {
		return nil, errs.New(errs.InvalidInput, "From 1 to %d links can be claimed at once; these are %d.", MaxClaims,
			len(tokens)).At("claimTokens")
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
	hash := claimHash(token)
	known, err := s.DB.NewSelect().Model((*Link)(nil)).Where("claim_hash = ?", hash).Exists(db.AsResolver(ctx))
	if err != nil {
		return Claim{}, err
	}
	if !known { // whoever guesses takes no transaction
		return Claim{Status: ClaimUnknown, Err: errNoClaim()}, nil
	}
	// The link goes from nobody's workspace to this one: both are to be seen.
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		c, err = s.move(ctx, tx, m, hash)
		if err != nil {
			return err
		}
		return c.Err
	})
	if db.IsUniqueViolation(err) { // the workspace's codes are its own: nothing else of a claimed link is unique
		c = Claim{Err: errs.New(errs.CodeTaken, "Another link of this workspace has the same code.")}
		err = c.Err
	}
	if err != nil && !errs.From(err).Kind.IsUserError() {
		return Claim{}, err
	}
	c.Status = c.status(err)
	if c.Link != nil {
		s.forget(c.Link)
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

// move gives the link with the token to the workspace, with its clicks. The quota's row is locked
// first, as whoever creates does, and the link's second.
func (s *Store) move(ctx context.Context, tx bun.Tx, m workspace.Membership, hash []byte) (Claim, error) {
	b := &batch{Store: s, member: m, now: s.now()}
	left, err := b.takeQuota(ctx, tx, 0)
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
	if left < 1 {
		return Claim{Err: b.errQuota()}, nil
	}
	before := *l
	l.In, l.WorkspaceID, l.CreatedBy, l.ExpiresAt, l.EndedAt = m, m.ID(), optional.Of(m.AccountID()), nil, nil
	l.touch(b.now)
	if err := s.apply(ctx, tx, audit.LinkClaimed, []change{{before: &before, after: l}}); err != nil {
		return Claim{}, err
	}
	if err := s.Clicks.Move(ctx, tx, l.ID, m.ID()); err != nil {
		return Claim{}, err
	}
	if _, err := b.takeQuota(ctx, tx, 1); err != nil {
		return Claim{}, err
	}
	return Claim{Link: l}, nil
}

// byClaim locks the link with the token. It returns NotFound.
func (s *Store) byClaim(ctx context.Context, tx bun.Tx, hash []byte) (*Link, error) {
	l := &Link{}
	err := s.DB.ForUpdate(tx.NewSelect().Model(l).Where("claim_hash = ?", hash)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoClaim()
	}
	return l, err
}

func errNoClaim() error { return errs.New(errs.NotFound, "There is no link with this claim token.") }

// claimable finds out whether the link is still to be had; done says that it is not.
func (s *Store) claimable(ctx context.Context, tx bun.Tx, m workspace.Membership, l *Link) (c Claim, done bool) {
	switch {
	case l.WorkspaceID == m.ID():
		l.In = m
		return Claim{Status: AlreadyClaimed, Link: l}, true
	case l.WorkspaceID != workspace.PublicID:
		return Claim{Status: AlreadyClaimed, Err: errs.New(errs.Conflict, "The link has been claimed by another workspace.")},
			true
	case l.DisabledAt != nil:
		return Claim{Err: errDisabled()}, true
	case l.Status(s.now()) == routing.Expired:
		return Claim{Err: errs.New(errs.Expired, "The link ended before it was claimed. Create it anew.")}, true
	}
	if err := s.refuse(ctx, tx, l); err != nil {
		return Claim{Err: err}, true
	}
	return Claim{}, false
}
