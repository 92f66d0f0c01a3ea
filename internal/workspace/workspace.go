// Package workspace holds the tenants: workspaces, their members, and the proof of membership that every
// method of a tenant's matter asks for.
package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/validate"
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
	// PrimaryHost is the verified domain that short URLs are shown with; nil means the instance's own host.
	PrimaryHost *string

	CreatedAt time.Time
	UpdatedAt time.Time
	// DeletedAt is when an owner deleted it, PurgedAt when all of it was removed but its slugs.
	DeletedAt *time.Time
	PurgedAt  *time.Time
}

// Store keeps the workspaces.
type Store struct {
	// DB is the database.
	DB *db.DB
	// People knows who is behind an account, and Mail sends what they are to get.
	People People
	Mail   Mailer
	// Limits slows down whoever has others write mail.
	Limits ratelimit.Limiter
	// PublicURL is where people reach the instance.
	PublicURL string
	// Log is told what the jobs have done.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	proofs batcher.Batcher[asked, struct{}, membershipRow]
}

// People knows who is behind an account.
type People interface {
	// Emails is the account's address, and whether it is proved to be theirs.
	Emails(ctx context.Context, a account.Actor) (email string, verified bool, err error)
}

// Mailer sends e-mail.
type Mailer interface {
	// Configured says that there is a mail server: what is sent arrives.
	Configured() bool
	// Send queues a message.
	Send(ctx context.Context, to, subject, text string)
}

// AuditLog is one page of what was changed in the workspace, newest first. It returns InvalidInput or Forbidden.
func (s *Store) AuditLog(ctx context.Context, m Membership, f *audit.Filter, r page.Request) (page.Page[*audit.Event], error) {
	ctx, err := m.Enter(ctx, ReadAudit)
	if err != nil {
		return page.Page[*audit.Event]{}, err
	}
	return audit.List(ctx, s.DB, m.ID(), f, r)
}

// EventsByID returns the events of the audit log with the ids. Unknown ids are missing from the
// result. It returns Forbidden.
func (s *Store) EventsByID(ctx context.Context, m Membership, ids ...string) ([]*audit.Event, error) {
	ctx, err := m.Enter(ctx, ReadAudit)
	if err != nil {
		return nil, err
	}
	return audit.Many(ctx, s.DB, m.ID(), ids...)
}

// now is the instant, as the database keeps it.
func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Create makes a workspace that the actor owns. It returns InvalidInput or SlugTaken.
func (s *Store) Create(ctx context.Context, a account.Actor, name, slug string) (Membership, error) {
	w, err := s.newWorkspace(name, slug)
	if err != nil {
		return Membership{}, err
	}
	m := Membership{workspace: w, accountID: a.AccountID, role: Owner}
	err = s.DB.Tx(db.InWorkspace(ctx, w.ID, a.AccountID), func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(w).On("CONFLICT (slug) DO NOTHING").Returning("id").Exec(ctx, &w.ID)
		if errors.Is(err, sql.ErrNoRows) {
			return errSlugTaken()
		}
		if err != nil {
			return err
		}
		if err := s.takeSlug(ctx, tx, w.ID, slug); err != nil {
			return err
		}
		if err := addOwner(ctx, tx, &Member{WorkspaceID: w.ID, AccountID: a.AccountID, Role: Owner, CreatedAt: w.CreatedAt}); err != nil {
			return err
		}
		return m.Audit(ctx, tx, w.CreatedAt, audit.WorkspaceCreated, w.ID, audit.Details{"slug": slug})
	})
	if err != nil {
		return Membership{}, fmt.Errorf("keeping a new workspace: %w", err)
	}
	return m, nil
}

// slugRow is a slug that a workspace has or had.
type slugRow struct {
	bun.BaseModel `bun:"table:slugs,alias:slug"`

	Slug        string `bun:",pk"`
	WorkspaceID string
	CreatedAt   time.Time
}

// takeSlug makes a slug the workspace's for ever. One that it had before is still its own. It returns SlugTaken.
func (s *Store) takeSlug(ctx context.Context, tx bun.Tx, workspaceID, slug string) error {
	row := &slugRow{Slug: slug, WorkspaceID: workspaceID, CreatedAt: s.now()}
	if _, err := tx.NewInsert().Model(row).On("CONFLICT (slug) DO NOTHING").Returning("NULL").Exec(ctx); err != nil {
		return err
	}
	own, err := tx.NewSelect().Model((*slugRow)(nil)).Where("slug = ?", slug).Where("workspace_id = ?", workspaceID).Exists(ctx)
	if err == nil && !own {
		return errSlugTaken()
	}
	return err
}

func errSlugTaken() error {
	return errs.New(errs.SlugTaken, "The slug is taken. Choose another one.").At("slug")
}

// addOwner makes the account a member. A token may outlive its account: whoever has none is not logged in.
func addOwner(ctx context.Context, tx bun.Tx, owner *Member) error {
	known, err := tx.NewSelect().Table("accounts").Where("id = ?", owner.AccountID).Where("deleted_at IS NULL").Exists(ctx)
	if err != nil {
		return err
	}
	if !known {
		return errs.New(errs.Unauthenticated, "There is no such account any more. Register anew.")
	}
	_, err = tx.NewInsert().Model(owner).Exec(ctx)
	return err
}

// IDBySlug finds a workspace by a slug that it has or had. It says nothing of who may see it: ask Require. It returns NotFound.
func (s *Store) IDBySlug(ctx context.Context, slug string) (string, error) {
	if !slugPattern.MatchString(slug) {
		return "", errNotFound()
	}
	var workspaceID string
	err := s.DB.NewSelect().Model((*slugRow)(nil)).Column("workspace_id").Where("slug = ?", slug).Scan(db.AsResolver(ctx), &workspaceID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", errNotFound()
	}
	if err != nil {
		return "", fmt.Errorf("looking for a slug: %w", err)
	}
	return workspaceID, nil
}

// List is one page of the actor's memberships, newest workspace first: of workspaces that are there, or of those that
// have been deleted and can be restored by the actor.
func (s *Store) List(ctx context.Context, a account.Actor, deleted bool, r page.Request) (page.Page[Membership], error) {
	ctx, q := s.memberships(ctx, a, nil)
	if deleted {
		q = q.Where("workspace.deleted_at IS NOT NULL").Where("member.role = ?", Owner)
	} else {
		q = q.Where("workspace.deleted_at IS NULL")
	}
	var rows []membershipRow
	if err := page.Limit(q.Model(&rows), r, "workspace.id").Scan(ctx); err != nil {
		return page.Page[Membership]{}, fmt.Errorf("listing workspaces: %w", err)
	}
	memberships := make([]Membership, 0, len(rows))
	for _, row := range rows {
		memberships = append(memberships, row.membership(a))
	}
	return page.Cut(r, memberships), nil
}

func (s *Store) newWorkspace(name, slug string) (*Workspace, error) {
	name, err := validate.Line("The name", name, 1, 100)
	if err != nil {
		return nil, errs.From(err).At("name")
	}
	if err := checkSlug(slug); err != nil {
		return nil, err
	}
	now := s.now()
	return &Workspace{
		ID: id.New(id.Workspace), Slug: slug, Name: name, CreatedAt: now, UpdatedAt: now,
		DefaultStrategy: "DETERMINISTIC", DefaultRedirectStatus: 302,
	}, nil
}

// slugPattern is a label as host names have it: it may become one, and case never tells two apart. Browsers and mail
// programs decode a label that starts with xn--, so that it would show as another name; a custom code is no label.
var slugPattern = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{1,46}[a-z0-9])$`)

func checkSlug(slug string) error {
	if !slugPattern.MatchString(slug) {
		return errs.New(errs.InvalidInput,
			"A slug has 3 to 48 characters: lower-case letters, digits and, not at its ends, hyphens.").At("slug")
	}
	if strings.HasPrefix(slug, "xn--") {
		return errs.New(errs.InvalidInput, "A slug must not start with xn--: that prefix marks an encoded host name.").At("slug")
	}
	if shortcode.Reserved(slug) {
		return errs.New(errs.SlugTaken, "The server keeps this word for itself. Choose another slug.").At("slug")
	}
	return nil
}
