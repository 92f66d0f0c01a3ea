// Package workspace holds the tenants: workspaces, their members, and the proof of membership that every
// method of a tenant's matter asks for.
package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/text"
)

// Workspace is a tenant.
type Workspace struct {
	bun.BaseModel `bun:"table:workspaces"`

	// ID is hashed into codes and never changes.
	ID string `bun:",pk"`
	// Slug is the workspace's part of short URLs.
	Slug string
	Name string
	// HitQuota and LinkQuota are this workspace's own; nil means the instance's.
	HitQuota  *int64
	LinkQuota *int64
	// DefaultStrategy is how codes of links are made that do not say it, DefaultRedirectStatus the HTTP status of
	// their redirects.
	DefaultStrategy       string
	DefaultRedirectStatus int

	CreatedAt time.Time
	UpdatedAt time.Time
}

// member is an account's place in a workspace.
type member struct {
	bun.BaseModel `bun:"table:members"`

	WorkspaceID string `bun:",pk"`
	AccountID   string `bun:",pk"`
	Role        Role
	CreatedAt   time.Time
}

// Store keeps the workspaces.
type Store struct {
	// DB is the database.
	DB *db.DB
	// Now is the clock.
	Now func() time.Time
}

// Create makes a workspace that the actor owns. It returns InvalidInput or SlugTaken.
func (s *Store) Create(ctx context.Context, a account.Actor, name, slug string) (Membership, error) {
	w, err := s.newWorkspace(name, slug)
	if err != nil {
		return Membership{}, err
	}
	owner := member{WorkspaceID: w.ID, AccountID: a.AccountID, Role: Owner, CreatedAt: w.CreatedAt}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(w).On("CONFLICT (slug) DO NOTHING").Returning("id").Exec(ctx, &w.ID)
		if errors.Is(err, sql.ErrNoRows) {
			return errs.New(errs.SlugTaken, "The slug is taken. Choose another one.").At("slug")
		}
		if err != nil {
			return err
		}
		return addOwner(ctx, tx, &owner)
	})
	if err != nil {
		return Membership{}, fmt.Errorf("keeping a new workspace: %w", err)
	}
	return Membership{workspace: w, accountID: a.AccountID, role: Owner}, nil
}

// addOwner makes the account a member. A token may outlive its account: whoever has none is not logged in.
func addOwner(ctx context.Context, tx bun.Tx, owner *member) error {
	known, err := tx.NewSelect().Table("accounts").Where("id = ?", owner.AccountID).Exists(ctx)
	if err != nil {
		return err
	}
	if !known {
		return errs.New(errs.Unauthenticated, "There is no such account any more. Register anew.")
	}
	_, err = tx.NewInsert().Model(owner).Exec(ctx)
	return err
}

// IDBySlug finds a workspace by its slug. It says nothing of who may see it: ask Require. It returns NotFound.
func (s *Store) IDBySlug(ctx context.Context, slug string) (string, error) {
	if !slugPattern.MatchString(slug) {
		return "", errNotFound()
	}
	var workspaceID string
	err := s.DB.NewSelect().Model((*Workspace)(nil)).Column("id").Where("slug = ?", slug).Scan(ctx, &workspaceID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", errNotFound()
	}
	if err != nil {
		return "", fmt.Errorf("looking for a slug: %w", err)
	}
	return workspaceID, nil
}

// List is one page of the actor's memberships, newest workspace first.
func (s *Store) List(ctx context.Context, a account.Actor, r page.Request) (page.Page[Membership], error) {
	var rows []membershipRow
	q := s.memberships(a).Model(&rows)
	if err := page.Limit(q, r, "workspace.id").Scan(ctx); err != nil {
		return page.Page[Membership]{}, fmt.Errorf("listing workspaces: %w", err)
	}
	memberships := make([]Membership, 0, len(rows))
	for _, row := range rows {
		memberships = append(memberships, row.membership(a))
	}
	return page.Cut(r, memberships), nil
}

func (s *Store) newWorkspace(name, slug string) (*Workspace, error) {
	name, err := text.Line("The name", name, 1, 100)
	if err != nil {
		return nil, errs.From(err).At("name")
	}
	if err := checkSlug(slug); err != nil {
		return nil, err
	}
	now := db.Instant(s.Now())
	return &Workspace{
		ID: id.New(id.Workspace), Slug: slug, Name: name, CreatedAt: now, UpdatedAt: now,
		DefaultStrategy: "DETERMINISTIC", DefaultRedirectStatus: 302,
	}, nil
}

// slugPattern is a label as host names have it: it may become one, and case never tells two apart.
var slugPattern = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{1,46}[a-z0-9])$`)

func checkSlug(slug string) error {
	if !slugPattern.MatchString(slug) {
		return errs.New(errs.InvalidInput,
			"A slug has 3 to 48 characters: lower-case letters, digits and, not at its ends, hyphens.").At("slug")
	}
	if shortcode.Reserved(slug) {
		return errs.New(errs.SlugTaken, "The server keeps this word for itself. Choose another slug.").At("slug")
	}
	return nil
}
