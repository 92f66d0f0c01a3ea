// Package apikey owns the API keys of workspaces: it creates, lists, rotates, revokes and
// authenticates them. The permissions of a key follow from its scopes in package workspace. Callers
// are graph, account, which authenticates requests, and the HTTP exports.
package apikey

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// shownPrefix is the length of the part of a secret that is shown to identify the key: 8 of its
	// 26 random characters, which leaves 90 bits.
	shownPrefix = len(account.KeyPrefix) + 8
	// usedEvery is the precision of LastUsedAt: it is written at most this often.
	usedEvery = time.Minute
	// maxOverlap is how long the secret before a rotation can stay valid.
	maxOverlap = 7 * 24 * time.Hour
	// maxFolders is how many folders the fence of a key may have.
	maxFolders = 100
)

// Key is an API key. Only a hash of its secret is stored.
type Key struct {
	bun.BaseModel `bun:"table:api_keys,alias:api_key"`

	ID          string `bun:",pk"`
	WorkspaceID string
	Name        string
	// Prefix is the beginning of the secret.
	Prefix string
	Hash   []byte
	// OldHash is that of the secret before the last rotation, which is valid until OldHashEndsAt.
	OldHash       []byte
	OldHashEndsAt *time.Time
	// Scopes are permissions, separated by spaces.
	Scopes string
	Limits
	// Folders are the fence of the key, see workspace.Membership.Fence; nil means none.
	Folders    []string `bun:"type:text"`
	CreatedBy  string
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	LastUsedAt *time.Time
	RevokedAt  *time.Time
	// In is the membership through which the key was loaded.
	In workspace.Membership `bun:"-"`
}

func (*Key) IsEntity() {} // an entity of Apollo Federation

// Permissions returns the key's scopes.
func (k *Key) Permissions() []workspace.Permission {
	var all []workspace.Permission
	for _, scope := range strings.Fields(k.Scopes) {
		all = append(all, workspace.Permission(scope))
	}
	return all
}

// NewKey describes a key to create.
type NewKey struct {
	Name   string
	Scopes []workspace.Permission
	Limits
	// FolderIDs are up to maxFolders folders that the key is restricted to; empty means no
	// restriction.
	FolderIDs []string
	// ExpiresAt is optional.
	ExpiresAt *time.Time
}

// Store stores API keys. It is safe for concurrent use.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// MaxKeys is the number of active keys that a workspace may have. Zero means no limit.
	MaxKeys int
}

func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Rows returns the API keys of workspaces that are not revoked, newest first.
func (s *Store) Rows() workspace.Collection[Key] {
	return workspace.Collection[Key]{
		DB: s.DB, Permission: workspace.WriteKeys, Prefix: id.Key, Column: "id", Where: "revoked_at IS NULL",
		Missing: "There is no such API key.", In: func(k *Key, m workspace.Membership) { k.In = m },
	}
}

// Create creates an API key and returns its secret, which cannot be read again. It returns
// InvalidInput, NotFound for a folder that does not exist, QuotaExceeded or Forbidden.
func (s *Store) Create(ctx context.Context, m workspace.Membership, in NewKey) (_ *Key, secret string, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteKeys)
	if err != nil {
		return nil, "", err
	}
	now := s.now()
	name, nameErr := validate.Line("The name", in.Name, 1, 100)
	scopes, scopesErr := checkScopes(in.Scopes)
	isPublishable := workspace.IsPublishable(&account.Key{Scopes: strings.Fields(scopes)})
	folders, fenceErr := checkFence(in, isPublishable)
	var expiryErr error
	if in.ExpiresAt != nil && !in.ExpiresAt.After(now) {
		expiryErr = errs.New(errs.InvalidInput, "expiresAt must be in the future.").At("expiresAt")
	}
	limits, limitsErr := in.Limits.check(isPublishable)
	err = errs.All(errs.At(nameErr, "name"), errs.Under(scopesErr, "scopes"), fenceErr, expiryErr, limitsErr)
	if err != nil {
		return nil, "", err
	}
	k := &Key{
		ID: id.New(id.Key), WorkspaceID: m.ID(), Name: name, Scopes: scopes, Folders: folders,
		CreatedBy: m.AccountID(), CreatedAt: now, ExpiresAt: in.ExpiresAt, In: m, Limits: limits,
	}
	secret = k.newSecret()
	// A key outlives its creator's membership, so the membership is locked while it is created.
	err = workspace.ChangeAs(ctx, s.DB, m, workspace.WriteKeys, func(ctx context.Context, tx bun.Tx) error {
		if err := s.checkNumber(ctx, tx, m, now); err != nil {
			return err
		}
		if err := s.lockFolders(ctx, tx, m, folders); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(k).Exec(ctx); err != nil {
			return err
		}
		return m.Audit(ctx, tx, now, audit.KeyCreated, k.ID, k.details(in.Scopes))
	})
	if err != nil {
		return nil, "", fmt.Errorf("creating an API key: %w", err)
	}
	return k, secret, nil
}

// newSecret gives the key a secret, and returns it.
func (k *Key) newSecret() string {
	prefix := account.KeyPrefix
	if workspace.IsPublishable(k.credential()) {
		prefix = account.PublishableKeyPrefix
	}
	secret := prefix + rand.Text()
	k.Prefix, k.Hash = secret[:shownPrefix], account.HashSecret(secret)
	return secret
}

// checkNumber returns QuotaExceeded if the workspace has as many active keys as it may have.
func (s *Store) checkNumber(ctx context.Context, tx bun.Tx, m workspace.Membership, now time.Time) error {
	if s.MaxKeys == 0 {
		return nil
	}
	active, err := tx.NewSelect().Model((*Key)(nil)).Where("workspace_id = ?", m.ID()).Where("revoked_at IS NULL").
		Where("expires_at IS NULL OR expires_at > ?", now).Count(ctx)
	if err == nil && int(active) >= s.MaxKeys {
		return errs.New(errs.QuotaExceeded, "The workspace has %d active API keys, the maximum. Revoke one first.",
			s.MaxKeys)
	}
	return err
}

func checkScopes(scopes []workspace.Permission) (string, error) {
	if len(scopes) == 0 {
		return "", errs.New(errs.InvalidInput, "A key needs at least one scope.")
	}
	all, err := errs.Map(scopes, func(scope workspace.Permission) (string, error) {
		if !slices.ContainsFunc(workspace.Rules, func(r workspace.Rule) bool {
			return r.Permission == scope && r.Keys
		}) {
			return "", errs.New(errs.InvalidInput, "%s is no scope of API keys.", validate.Quote(string(scope)))
		}
		return string(scope), nil
	})
	if err != nil {
		return "", err
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " "), nil
}

// lockFolders locks the folders of a new key, so that none is deleted meanwhile. It returns
// NotFound.
func (s *Store) lockFolders(ctx context.Context, tx bun.Tx, m workspace.Membership, folders []string) error {
	if folders == nil {
		return nil
	}
	ids := slices.DeleteFunc(slices.Clone(folders), func(one string) bool { return !id.Valid(id.Folder, one) })
	var found []string
	q := tx.NewSelect().Table("folders").Column("id").Where("workspace_id = ?", m.ID()).Where("id IN (?)", bun.In(ids)).
		Order("id")
	if err := s.DB.ForChange(q).Scan(ctx, &found); err != nil {
		return fmt.Errorf("locking the folders of an API key: %w", err)
	}
	if len(found) < len(folders) {
		return errs.New(errs.NotFound, "The workspace has no folder with one of these ids.").At("folderIds")
	}
	return nil
}

// Exported is an API key that a user has created.
type Exported struct {
	ID          string    `json:"id"`
	WorkspaceID string    `json:"workspaceId"`
	Name        string    `json:"name"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Export returns the API keys that the account has created, in all workspaces.
func (s *Store) Export(ctx context.Context, accountID string) ([]Exported, error) {
	return s.createdBy(ctx, accountID, "1 = 1")
}

// Active is Export without the keys that have been revoked or have expired.
func (s *Store) Active(ctx context.Context, accountID string) ([]Exported, error) {
	return s.createdBy(ctx, accountID, "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)", s.now())
}

func (s *Store) createdBy(ctx context.Context, accountID, where string, args ...any) ([]Exported, error) {
	keys := []Exported{}
	// The statement is bound to the account, not to a workspace.
	err := s.DB.NewSelect().Model((*Key)(nil)).Column("id", "workspace_id", "name", "created_at").
		Where("created_by = ?", accountID).Where(where, args...).Order("id").Scan(db.AsSystem(ctx), &keys)
	if err != nil {
		return nil, fmt.Errorf("selecting the API keys of a user: %w", err)
	}
	return keys, nil
}

// Revoke ends a key: every node refuses it at once. Revoking it again has no effect. It returns
// NotFound or Forbidden.
func (s *Store) Revoke(ctx context.Context, m workspace.Membership, keyID string) (*Key, error) {
	ctx, err := m.Enter(ctx, workspace.WriteKeys)
	if err != nil {
		return nil, err
	}
	var k *Key
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if k, err = s.Rows().Lock(ctx, tx, m, keyID); err != nil || k.RevokedAt != nil {
			return err
		}
		k.RevokedAt = new(s.now())
		if _, err := tx.NewUpdate().Model(k).Column("revoked_at").WherePK().Exec(ctx); err != nil {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.KeyRevoked, k.ID, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("revoking an API key: %w", err)
	}
	return k, nil
}

// Rotate gives a key another secret, and returns it. The present secret is valid until oldEndsAt;
// nil means that it ends now, as the one before it does in any case. It returns NotFound,
// InvalidInput, Expired for a key that has ended, or Forbidden.
func (s *Store) Rotate(
	ctx context.Context, m workspace.Membership, keyID string, oldEndsAt *time.Time,
) (_ *Key, secret string, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteKeys)
	if err != nil {
		return nil, "", err
	}
	now := s.now()
	if oldEndsAt != nil && (!oldEndsAt.After(now) || oldEndsAt.After(now.Add(maxOverlap))) {
		return nil, "", errs.New(errs.InvalidInput, "oldSecretEndsAt must be in the next seven days.").
			At("oldSecretEndsAt")
	}
	var k *Key
	err = workspace.ChangeAs(ctx, s.DB, m, workspace.WriteKeys, func(ctx context.Context, tx bun.Tx) error {
		if k, err = s.Rows().Lock(ctx, tx, m, keyID); err != nil {
			return err
		}
		if k.RevokedAt != nil || k.ExpiresAt != nil && !k.ExpiresAt.After(now) {
			return errs.New(errs.Expired, "The API key has ended. Create another one.").At("id")
		}
		k.OldHash, k.OldHashEndsAt = nil, nil
		if oldEndsAt != nil {
			k.OldHash, k.OldHashEndsAt = k.Hash, new(db.Instant(*oldEndsAt))
		}
		secret = k.newSecret()
		_, err := tx.NewUpdate().Model(k).Column("prefix", "hash", "old_hash", "old_hash_ends_at").WherePK().Exec(ctx)
		if err != nil {
			return err
		}
		return m.Audit(ctx, tx, now, audit.KeyRotated, k.ID, nil)
	})
	if err != nil {
		return nil, "", fmt.Errorf("rotating an API key: %w", err)
	}
	return k, secret, nil
}

// Authenticate returns the credential that the secret proves to the client of the context. It reads
// the database each time, so that every node refuses a revoked key at once. It implements
// account.Keys and returns Unauthenticated, also for a client that may not use the key.
func (s *Store) Authenticate(ctx context.Context, secret string) (*account.Key, error) {
	k, err := s.bySecret(ctx, secret)
	if err == nil && !k.admits(web.ExactAddressOf(ctx), web.OriginOf(ctx)) {
		err = errInvalid()
	}
	if err != nil {
		return nil, err
	}
	ctx, now := db.AsResolver(ctx), s.now()
	if k.LastUsedAt == nil || now.Sub(*k.LastUsedAt) >= usedEvery {
		_, err := s.DB.NewUpdate().Model(k).Set("last_used_at = ?", now).WherePK().
			Where("last_used_at IS NULL OR last_used_at <= ?", now.Add(-usedEvery)).Exec(ctx)
		if err != nil {
			return nil, fmt.Errorf("storing the use of an API key: %w", err)
		}
	}
	return k.credential(), nil
}

// Valid returns the credential of the API key with the ID, for requests that the key has signed. It
// returns Unauthenticated for a key that is revoked, expired or unknown.
func (s *Store) Valid(ctx context.Context, keyID string) (*account.Key, error) {
	k, err := s.valid(ctx, "id = ?", keyID)
	if err != nil {
		return nil, err
	}
	return k.credential(), nil
}

// valid returns the key that the condition identifies, as the primary database has it.
func (s *Store) valid(ctx context.Context, where string, args ...any) (*Key, error) {
	k := &Key{}
	err := s.DB.NewSelect().Model(k).Where(where, args...).Where("revoked_at IS NULL").
		Where("expires_at IS NULL OR expires_at > ?", s.now()).Scan(db.AsResolver(ctx))
	if err != nil {
		return nil, db.NoRowsAs(errInvalid(), err, "looking up an API key")
	}
	return k, nil
}

func errInvalid() error {
	return errs.New(errs.Unauthenticated, "The API key is invalid, expired, revoked, or not for this client.")
}

// PermitsOrigin reports whether the key with a secret names the origin, so that pages there may
// read the answers to it.
func (s *Store) PermitsOrigin(ctx context.Context, secret, origin string) bool {
	k, err := s.bySecret(ctx, secret)
	return err == nil && slices.Contains(k.Origins, origin)
}

// bySecret returns the key with a secret, or else with a former secret that is still valid. Two
// conditions in one statement would cost each request the plan of both.
func (s *Store) bySecret(ctx context.Context, secret string) (*Key, error) {
	hash := account.HashSecret(secret)
	k, err := s.valid(ctx, "hash = ?", hash)
	if errs.Is(err, errs.Unauthenticated) {
		return s.valid(ctx, "old_hash = ? AND old_hash_ends_at > ?", hash, s.now())
	}
	return k, err
}
