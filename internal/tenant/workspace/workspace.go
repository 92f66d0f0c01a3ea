// Package workspace owns the tenants: workspaces, their slugs, members, roles, permissions and
// invitations. A Membership, which only this package creates, proves access: every method that
// reads or changes a tenant's data takes one. It does not own domains, API keys or links. Callers
// are graph, the HTTP exports, the jobs, and every package with tenant data.
package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/platform/batcher"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// Workspace is a tenant.
type Workspace struct {
	bun.BaseModel `bun:"table:workspaces"`

	// ID never changes: it is hashed into codes.
	ID string `bun:",pk"`
	// Slug is part of short URLs.
	Slug string
	Name string
	// HitQuota and LinkQuota are monthly; nil selects the instance's.
	HitQuota  *int64
	LinkQuota *int64
	// DefaultStrategy generates codes, and DefaultRedirectStatus is the HTTP status, of links that
	// choose none.
	DefaultStrategy       string
	DefaultRedirectStatus int
	// CaseSensitiveCodes means that upper and lower case differ in custom codes. It is false in new
	// workspaces, and never becomes true.
	CaseSensitiveCodes bool
	// RoutingDefaults are copied into new links: how queries and paths are forwarded, and UTM
	// values.
	RoutingDefaults *routing.Routing
	// NotFoundURL and EndedURL are where visitors of unknown and ended links are redirected, unless
	// the domain or link has a URL of its own; nil means nowhere.
	NotFoundURL *string
	EndedURL    *string
	// Inspectable means that short URLs followed by + show their destinations.
	Inspectable bool
	// RequireSecondFactor means that sessions of members open it only with a second factor.
	RequireSecondFactor bool
	// QRStyle is the style of QR codes without its logo, see Store.QRStyle; nil selects the
	// default.
	QRStyle *qr.Style `bun:"qr_style"`
	// PrimaryHost is the verified domain that short URLs are shown with; nil selects the instance's
	// host.
	PrimaryHost *string

	CreatedAt time.Time
	UpdatedAt time.Time
	// DeletedAt is when an owner deleted it, PurgedAt when everything but its slugs was removed.
	DeletedAt *time.Time
	PurgedAt  *time.Time
}

// Store stores workspaces, members and invitations. It is safe for concurrent use.
type Store struct {
	DB *db.DB
	// Destinations decides which URLs Update accepts.
	Destinations destination.Checker
	// Accounts and Mail are required for invitations.
	Accounts Accounts
	Mail     Mailer
	Limits   ratelimit.Limiter
	// PublicURL names this instance in mail.
	PublicURL string
	Log       *slog.Logger
	Now       func() time.Time
	// MaxWorkspaces is the number of workspaces that an account may own when it creates another,
	// SlugChanges the number of new slugs of a workspace in a calendar month (UTC). Zero means no
	// limit.
	MaxWorkspaces, SlugChanges int

	proofs       batcher.Batcher[proofKey, struct{}, membershipRow]
	rememberOnce sync.Once
	memory       memory
}

// Accounts looks up accounts.
type Accounts interface {
	// Emails returns the account's address and whether it is verified.
	Emails(ctx context.Context, a account.Actor) (email string, verified bool, err error)
}

// Mailer sends mail without blocking the caller.
type Mailer interface {
	// Configured reports whether there is a mail server.
	Configured() bool
	// Send queues a message.
	Send(ctx context.Context, to, subject, text string)
}

func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Create creates a workspace that the actor owns. It returns InvalidInput, SlugTaken or Forbidden.
func (s *Store) Create(ctx context.Context, a account.Actor, name, slug string) (Membership, error) {
	if s.sendsMail() { // no account loses its verification later
		_, verified, err := s.Accounts.Emails(ctx, a)
		if err != nil {
			return Membership{}, err
		}
		if !verified {
			return Membership{}, errUnverified()
		}
	}
	return s.create(ctx, Membership{accountID: a.AccountID, role: Owner}, name, slug)
}

// create creates the workspace of a membership whose account owns it.
func (s *Store) create(ctx context.Context, m Membership, name, slug string) (Membership, error) {
	w, err := s.newWorkspace(name, slug)
	if err != nil {
		return Membership{}, err
	}
	m.row = w
	err = s.DB.Tx(db.InWorkspace(ctx, w.ID, m.accountID), func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(w).On("CONFLICT (slug) DO NOTHING").Returning("id").Exec(ctx, &w.ID)
		if errors.Is(err, sql.ErrNoRows) {
			return errSlugTaken()
		}
		if err != nil {
			return err
		}
		if err := s.reserveSlug(ctx, tx, w.ID, slug); err != nil {
			return err
		}
		if err := requireAccount(ctx, tx, m.accountID); err != nil {
			return err
		}
		if err := s.checkNumber(ctx, tx, m.accountID); err != nil {
			return err
		}
		owner := &Member{WorkspaceID: w.ID, AccountID: m.accountID, Role: Owner, CreatedAt: w.CreatedAt}
		if _, err := tx.NewInsert().Model(owner).Exec(ctx); err != nil {
			return err
		}
		return m.Audit(ctx, tx, w.CreatedAt, audit.WorkspaceCreated, w.ID, audit.Details{"slug": slug})
	})
	if err != nil {
		return Membership{}, fmt.Errorf("creating a workspace: %w", err)
	}
	return m, nil
}

// checkNumber returns QuotaExceeded if the account owns as many workspaces as it may create. It
// locks the account, so that concurrent calls wait for each other.
func (s *Store) checkNumber(ctx context.Context, tx bun.Tx, accountID string) error {
	if s.MaxWorkspaces == 0 {
		return nil
	}
	var found string
	account := tx.NewSelect().Table("accounts").Column("id").Where("id = ?", accountID)
	if err := s.DB.ForChange(account).Scan(ctx, &found); err != nil {
		return err
	}
	owned, err := tx.NewSelect().Model((*Member)(nil)).Join("JOIN workspaces AS w ON w.id = member.workspace_id").
		Where("member.account_id = ?", accountID).Where("member.role = ?", Owner).Where("w.deleted_at IS NULL").
		Count(ctx)
	if err == nil && int(owned) >= s.MaxWorkspaces {
		return errs.New(errs.QuotaExceeded,
			"The account owns %d workspaces, the maximum. Delete one, or transfer its ownership.",
			s.MaxWorkspaces)
	}
	return err
}

// requireAccount returns Unauthenticated if the account was deleted or disabled: a token may
// outlive it.
func requireAccount(ctx context.Context, tx bun.Tx, accountID string) error {
	exists, err := tx.NewSelect().Table("accounts").Where("id = ?", accountID).Where("deleted_at IS NULL").
		Where("disabled_at IS NULL").Exists(ctx)
	if err == nil && !exists {
		return errs.New(errs.Unauthenticated, "This account no longer exists. Register a new account.")
	}
	return err
}

// IDBySlug returns the ID of the workspace that has or had the slug. It does not check permissions:
// call Require. It returns NotFound.
func (s *Store) IDBySlug(ctx context.Context, slug string) (string, error) {
	if !slugPattern.MatchString(slug) {
		return "", errNotFound()
	}
	var workspaceID string
	err := s.DB.NewSelect().Model((*slugRow)(nil)).Column("workspace_id").Where("slug = ?", slug).
		Scan(db.AsResolver(ctx), &workspaceID)
	if err != nil {
		return "", db.NoRowsAs(errNotFound(), err, "looking up a slug")
	}
	return workspaceID, nil
}

// List returns one page of the actor's memberships, newest workspace first: of active workspaces,
// or of deleted ones that the actor can restore.
func (s *Store) List(
	ctx context.Context, a account.Actor, deleted bool, r page.Request,
) (page.Page[Membership], error) {
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
	if err := errs.All(errs.At(err, "name"), checkSlug(slug)); err != nil {
		return nil, err
	}
	now := s.now()
	return &Workspace{
		ID: id.New(id.Workspace), Slug: slug, Name: name, CreatedAt: now, UpdatedAt: now,
		DefaultStrategy: "DETERMINISTIC", DefaultRedirectStatus: 302,
	}, nil
}
