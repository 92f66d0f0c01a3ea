package link

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// MaxPasswords is how many passwords one call may set: each takes as long as 50 other fields.
const MaxPasswords = 20

// Passwords is the part of account.LinkPasswords that this package calls.
type Passwords interface {
	// Hash hashes a password, unless the present hash is that of it; Matches compares one. Calls
	// with a subject in common wait for each other.
	Hash(ctx context.Context, present, password string, subjects ...string) (string, error)
	Matches(ctx context.Context, hash, password string, subjects ...string) (bool, error)
}

// Routed is a change of a routing, and how to find the link that it may change: by id, by external
// id, or not at all.
type Routed struct {
	Change             *routing.Change
	LinkID, ExternalID string
}

// PrepareRoutings replaces the UTM templates that changes name by their values, and the passwords
// that they set by hashes. A password that the link has already is replaced by the present hash, so
// that it changes nothing. Passwords that are not valid are left for the change to refuse. It
// returns InvalidInput for too many passwords, and RateLimited or Unavailable.
func (s *Store) PrepareRoutings(ctx context.Context, m workspace.Membership, all []Routed) error {
	changes := make([]*routing.Change, 0, len(all))
	var setting []Routed
	for _, r := range all {
		changes = append(changes, r.Change)
		if p := r.Change.NewPassword(); p != nil && check.IsPassword(p.Text) {
			setting = append(setting, r)
		}
	}
	if err := s.FillTemplates(ctx, m, changes); err != nil || len(setting) == 0 {
		return err
	}
	if len(setting) > MaxPasswords {
		return errs.New(errs.InvalidInput, "A call may set at most %d passwords; this one sets %d.",
			MaxPasswords, len(setting))
	}
	links, err := s.linksWithPassword(ctx, m, setting)
	if err != nil {
		return err
	}
	for _, r := range setting {
		var present routing.Password
		for _, l := range links {
			if l.ID == r.LinkID || r.ExternalID != "" && optional.Equal(l.ExternalID, &r.ExternalID) {
				present = routing.Password{ID: l.Routing.Gate.PasswordID, Hash: *l.PasswordHash}
			}
		}
		if err := s.hashPassword(ctx, m, r.Change.NewPassword(), present); err != nil {
			return err
		}
	}
	return nil
}

// linksWithPassword returns those of the links which changes may change that have a password.
func (s *Store) linksWithPassword(
	ctx context.Context, m workspace.Membership, changes []Routed,
) (links []*Link, err error) {
	var ids, externalIDs []string
	for _, r := range changes {
		ids, externalIDs = append(ids, r.LinkID), append(externalIDs, r.ExternalID)
	}
	err = s.DB.NewSelect().Model(&links).Column("id", "external_id", "routing", "password_hash").
		Where("workspace_id = ?", m.ID()).Where("password_hash IS NOT NULL").
		Where("id IN (?) OR external_id IN (?)", bun.In(ids), bun.In(externalIDs)).Apply(m.Inside("folder_id")).
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the passwords of links: %w", err)
	}
	return slices.DeleteFunc(links, func(l *Link) bool { return !l.Routing.HasPassword() }), nil
}

// hashPassword sets the id and the hash of a password, which are the present ones if it is the
// same.
func (s *Store) hashPassword(
	ctx context.Context, m workspace.Membership, p *routing.Password, present routing.Password,
) (err error) {
	p.ID = present.ID
	p.Hash, err = s.Passwords.Hash(ctx, present.Hash, p.Text, m.Responsible(), m.ID())
	if p.Hash != present.Hash {
		p.ID = rand.Text()[:passwordIDLength]
	}
	return err
}

// passwordIDLength is the length of the name of a password, in characters of 5 bits.
const passwordIDLength = 16

// Fingerprint returns a keyed hash of the password that a change sets, so that an idempotency key
// covers it: the text and its hash, which differs between calls, cannot be part of the stored one.
func (s *Store) Fingerprint(c *routing.Change) string {
	p := c.NewPassword()
	if p == nil {
		return ""
	}
	mac := hmac.New(sha256.New, s.DrawKey)
	mac.Write([]byte("link password\x00" + p.Text))
	return hex.EncodeToString(mac.Sum(nil)) // the key is JSON, which has no bytes that are not UTF-8
}
