package workspace

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/validate"
)

const (
	// shownPrefix is how much of a key's secret is shown, for people to tell keys apart: 8 of its 26 random characters,
	// with 90 bits left to guess.
	shownPrefix = len(account.KeyPrefix) + 8
	// usedEvery is how exact the last use of a key is: it is written down this often at most.
	usedEvery = time.Minute
)

// Key is an API key: programs log in with it. The secret itself is not kept.
type Key struct {
	bun.BaseModel `bun:"table:api_keys,alias:api_key"`

	ID          string `bun:",pk"`
	WorkspaceID string
	Name        string
	// Prefix is how the secret begins.
	Prefix string
	Hash   []byte
	// Scopes are permissions, separated by spaces.
	Scopes     string
	CreatedBy  string
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	LastUsedAt *time.Time
	RevokedAt  *time.Time
}

// Permissions are the key's scopes.
func (k *Key) Permissions() []Permission {
	var all []Permission
	for _, scope := range strings.Fields(k.Scopes) {
		all = append(all, Permission(scope))
	}
	return all
}

// NewKey is what a caller says of a key to be made.
type NewKey struct {
	Name   string
	Scopes []Permission
	// ExpiresAt is when it ends; nil means never.
	ExpiresAt *time.Time
}

// CreateKey makes an API key, and answers with its secret, which is told this once. It returns InvalidInput or
// Forbidden.
func (s *Store) CreateKey(ctx context.Context, m Membership, in NewKey) (_ *Key, secret string, err error) {
	ctx, err = m.Enter(ctx, WriteKeys)
	if err != nil {
		return nil, "", err
	}
	name, err := validate.Line("The name", in.Name, 1, 100)
	if err != nil {
		return nil, "", errs.From(err).At("name")
	}
	scopes, err := checkScopes(in.Scopes)
	if err != nil {
		return nil, "", err
	}
	made := s.now()
	if in.ExpiresAt != nil && !in.ExpiresAt.After(made) {
		return nil, "", errs.New(errs.InvalidInput, "expiresAt must be in the future.").At("expiresAt")
	}
	secret = account.KeyPrefix + rand.Text()
	k := &Key{
		ID: id.New(id.Key), WorkspaceID: m.ID(), Name: name, Prefix: secret[:shownPrefix], Hash: hashOf(secret), Scopes: scopes,
		CreatedBy: m.accountID, CreatedAt: made, ExpiresAt: in.ExpiresAt,
	}
	// A key outlives its maker's membership: it is made while that is sure to last.
	err = s.changeMembers(ctx, m, func(ctx context.Context, tx bun.Tx, now roster) error {
		if err := now.may(m, WriteKeys); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(k).Exec(ctx); err != nil {
			return err
		}
		return m.Audit(ctx, tx, made, audit.KeyCreated, k.ID, audit.Details{"scopes": in.Scopes})
	})
	if err != nil {
		return nil, "", fmt.Errorf("keeping an API key: %w", err)
	}
	return k, secret, nil
}

func checkScopes(scopes []Permission) (string, error) {
	if len(scopes) == 0 {
		return "", errs.New(errs.InvalidInput, "A key needs at least one scope.").At("scopes")
	}
	var all []string
	for _, scope := range scopes {
		if !slices.ContainsFunc(Rules, func(r Rule) bool { return r.Permission == scope && r.Keys }) {
			return "", errs.New(errs.InvalidInput, "%s is no scope of API keys.", validate.Quote(string(scope))).At("scopes")
		}
		all = append(all, string(scope))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " "), nil
}

// Keys is one page of the workspace's API keys that have not been revoked, newest first. It returns Forbidden.
func (s *Store) Keys(ctx context.Context, m Membership, r page.Request) (page.Page[*Key], error) {
	return s.keys().page(ctx, m, r)
}

// KeysByID returns the API keys with the ids that Keys lists. It returns Forbidden.
func (s *Store) KeysByID(ctx context.Context, m Membership, ids ...string) ([]*Key, error) {
	return s.keys().byID(ctx, m, ids)
}

func (s *Store) keys() collection[Key] {
	return collection[Key]{store: s, permission: WriteKeys, column: "id", where: "revoked_at IS NULL"}
}

// WorkspaceOfKey finds the workspace of an API key. It says nothing of who may see it: ask Require. It returns NotFound.
func (s *Store) WorkspaceOfKey(ctx context.Context, keyID string) (string, error) {
	return s.workspaceOf(ctx, (*Key)(nil), id.Key, keyID, errNoKey())
}

// RevokeKey ends a key: no node takes it any more. Revoking it again changes nothing. It returns NotFound or Forbidden.
func (s *Store) RevokeKey(ctx context.Context, m Membership, keyID string) (*Key, error) {
	ctx, err := m.Enter(ctx, WriteKeys)
	if err != nil {
		return nil, err
	}
	k := &Key{}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := tx.NewSelect().Model(k).Where("workspace_id = ?", m.ID()).Where("id = ?", keyID)
		if err := s.DB.ForUpdate(q).Scan(ctx); err != nil || k.RevokedAt != nil {
			return err
		}
		k.RevokedAt = new(s.now())
		if _, err := tx.NewUpdate().Model(k).Column("revoked_at").WherePK().Exec(ctx); err != nil {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.KeyRevoked, k.ID, nil)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoKey()
	}
	if err != nil {
		return nil, fmt.Errorf("revoking an API key: %w", err)
	}
	return k, nil
}

func errNoKey() error { return errs.New(errs.NotFound, "There is no such API key.").At("id") }

// Authenticate implements account.Keys: the database is asked each time, so that a revoked key is good for nothing at
// once, on every node.
func (s *Store) Authenticate(ctx context.Context, secret string) (*account.Key, error) {
	k, err := s.valid(ctx, "hash = ?", hashOf(secret))
	if err != nil {
		return nil, err
	}
	ctx, now := db.AsResolver(ctx), s.now()
	if k.LastUsedAt == nil || now.Sub(*k.LastUsedAt) >= usedEvery {
		_, err := s.DB.NewUpdate().Model(k).Set("last_used_at = ?", now).WherePK().
			Where("last_used_at IS NULL OR last_used_at <= ?", now.Add(-usedEvery)).Exec(ctx)
		if err != nil {
			return nil, fmt.Errorf("noting the use of an API key: %w", err)
		}
	}
	return k.credential(), nil
}

// ValidKey returns the API key with the id as Authenticate does, without its secret: for what the
// key has signed. It returns Unauthenticated for a key that is revoked, expired or unknown.
func (s *Store) ValidKey(ctx context.Context, keyID string) (*account.Key, error) {
	k, err := s.valid(ctx, "id = ?", keyID)
	if err != nil {
		return nil, err
	}
	return k.credential(), nil
}

// valid returns the key that the condition identifies, as the primary database has it now. It
// returns Unauthenticated.
func (s *Store) valid(ctx context.Context, where string, arg any) (*Key, error) {
	k := &Key{}
	err := s.DB.NewSelect().Model(k).Where(where, arg).Where("revoked_at IS NULL").
		Where("expires_at IS NULL OR expires_at > ?", s.now()).Scan(db.AsResolver(ctx))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errs.New(errs.Unauthenticated, "The API key is not valid, or no longer.")
	}
	if err != nil {
		return nil, fmt.Errorf("looking for an API key: %w", err)
	}
	return k, nil
}

func (k *Key) credential() *account.Key {
	return &account.Key{ID: k.ID, WorkspaceID: k.WorkspaceID, Scopes: strings.Fields(k.Scopes)}
}
