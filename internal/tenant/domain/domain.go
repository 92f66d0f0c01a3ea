// Package domain owns the custom domains of workspaces: claims, their proof by a TXT record, the
// periodic check of that record, and which host is verified. It does not own the host that short
// URLs are shown with, which is a column of workspace. Callers are graph, the jobs, and link.
package domain

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxPerWorkspace bounds the domains of a workspace, verified or not: verified ones are checked for
// ever.
const maxPerWorkspace = 100

// Domain is a host that redirects a workspace's links once it is verified.
type Domain struct {
	bun.BaseModel `bun:"table:domains"`

	ID          string `bun:",pk"`
	WorkspaceID string
	// Host is in canonical form.
	Host string
	// CodeSpace is which codes the domain answers, and CaseSensitive whether case matters in its
	// own ones. Neither changes.
	CodeSpace     CodeSpace
	CaseSensitive bool
	// Token is the secret part of the TXT record's value.
	Token     string
	CreatedAt time.Time
	// VerifiedAt is when the record was found; nil for a mere claim.
	VerifiedAt *time.Time
	// CheckedAt is when the record was last queried, FailedAt since when a verified domain's record
	// has been missing.
	CheckedAt *time.Time
	FailedAt  *time.Time
	Settings
}

func (*Domain) IsEntity() {} // an entity of Apollo Federation

// CodeSpace is which codes a domain answers.
type CodeSpace string

// The code spaces.
const (
	Shared CodeSpace = "SHARED" // all codes of the workspace that belong to no domain
	Own    CodeSpace = "OWN"    // only codes that were created for the domain
)

// Status is the state of a domain's TXT record.
type Status string

// The statuses.
const (
	Pending  Status = "PENDING"  // not found yet, or missing for longer than grace
	Verified Status = "VERIFIED" // found by the last check
	Failing  Status = "FAILING"  // missing since a check; links still redirect
)

// Status returns the state of the domain's record.
func (d *Domain) Status() Status {
	if d.VerifiedAt == nil {
		return Pending
	}
	if d.FailedAt != nil {
		return Failing
	}
	return Verified
}

// RecordName returns the name of the TXT record that proves the domain.
func (d *Domain) RecordName() string { return recordPrefix + d.Host }

// RecordValue returns the required value of the TXT record.
func (d *Domain) RecordValue() string { return "linkforge-verification=" + d.Token }

// Store stores domains and verifies them. It is safe for concurrent use.
type Store struct {
	DB *db.DB
	// Own are the hosts of the instance, which no workspace can claim.
	Own *destination.OwnHosts
	// Destinations decides which URLs Update accepts.
	Destinations destination.Checker
	// Resolver queries DNS; only Verify and CheckAll need it.
	Resolver Resolver
	Limits   ratelimit.Limiter
	Log      *slog.Logger
	Now      func() time.Time
}

func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Rows returns the domains of workspaces, newest first.
func (s *Store) Rows() workspace.Collection[Domain] {
	return workspace.Collection[Domain]{
		DB: s.DB, Permission: workspace.ReadDomains, Prefix: id.Domain, Column: "id",
		Missing: "There is no such domain.",
	}
}

// Codes are how the codes of a new domain are found. Nil fields have their defaults, Shared and
// true, or those of the existing domain.
type Codes struct {
	Space         *CodeSpace
	CaseSensitive *bool
}

// Add claims a host for the workspace. Several workspaces can claim a host: only proof counts.
// Claiming a host again returns the existing claim. It returns InvalidInput, Conflict for other
// codes than those of the existing claim, QuotaExceeded or Forbidden.
func (s *Store) Add(ctx context.Context, m workspace.Membership, host string, codes Codes) (*Domain, error) {
	ctx, err := m.Enter(ctx, workspace.WriteDomains)
	if err != nil {
		return nil, err
	}
	host, hostErr := s.checkHost(host)
	var caseErr error
	space, isCaseSensitive := optional.Or(codes.Space, Shared), optional.Or(codes.CaseSensitive, true)
	if space == Shared && !isCaseSensitive {
		caseErr = errs.New(errs.InvalidInput,
			"The workspace decides about case in shared codes. Use codeSpace OWN, or set "+
				"caseSensitiveCodes of the workspace.").At("caseSensitive")
	}
	if err := errs.All(hostErr, caseErr); err != nil {
		return nil, err
	}
	claim := &Domain{
		ID: id.New(id.Domain), WorkspaceID: m.ID(), Host: host, CodeSpace: space, CaseSensitive: isCaseSensitive,
		Token: rand.Text(), CreatedAt: s.now(),
	}
	var stored *Domain
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		stored, err = s.insert(ctx, tx, claim)
		if err == nil && stored.CodeSpace != optional.Or(codes.Space, stored.CodeSpace) {
			return errs.New(errs.Conflict, "The domain exists with the code space %s, which never changes.",
				stored.CodeSpace).At("codeSpace")
		} else if err == nil && stored.CaseSensitive != optional.Or(codes.CaseSensitive, stored.CaseSensitive) {
			return errs.New(errs.Conflict, "The domain exists with another caseSensitive, which never changes.").
				At("caseSensitive")
		}
		if err != nil || stored.ID != claim.ID {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.DomainAdded, stored.ID, audit.Details{"host": host})
	})
	if err != nil {
		return nil, fmt.Errorf("adding a domain: %w", err)
	}
	return stored, nil
}

// insert writes a claim or returns the existing one. It locks the workspace, so that concurrent
// claims cannot exceed maxPerWorkspace.
func (s *Store) insert(ctx context.Context, tx bun.Tx, claim *Domain) (*Domain, error) {
	lock := tx.NewSelect().Model((*workspace.Workspace)(nil)).Column("id").Where("id = ?", claim.WorkspaceID)
	if err := s.DB.ForChange(lock).Scan(ctx, new(string)); err != nil {
		return nil, err
	}
	_, err := tx.NewInsert().Model(claim).On("CONFLICT (workspace_id, host) DO NOTHING").Returning("NULL").Exec(ctx)
	if err != nil {
		return nil, err
	}
	stored := &Domain{}
	err = tx.NewSelect().Model(stored).Where("workspace_id = ?", claim.WorkspaceID).Where("host = ?", claim.Host).
		Scan(ctx)
	if err != nil || stored.ID != claim.ID {
		return stored, err
	}
	n, err := tx.NewSelect().Model((*Domain)(nil)).Where("workspace_id = ?", claim.WorkspaceID).Count(ctx)
	if err == nil && n > maxPerWorkspace {
		return nil, errs.New(errs.QuotaExceeded, "A workspace has at most %d domains. Remove one first.",
			maxPerWorkspace).
			At("host")
	}
	return stored, err
}

// Remove gives a host up: its links no longer redirect there. It returns NotFound, Conflict if a
// link with a code of the domain is not deleted, or Forbidden.
func (s *Store) Remove(ctx context.Context, m workspace.Membership, domainID string) (removed *Domain, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteDomains)
	if err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if removed, err = s.lock(ctx, tx, m, domainID); err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model(removed).WherePK().Exec(ctx); err != nil {
			return err
		}
		if removed.VerifiedAt != nil {
			if err := endOwnership(ctx, tx, removed, s.now()); err != nil {
				return err
			}
		}
		if err := workspace.ClearPrimaryHost(ctx, tx, m.ID(), removed.Host, s.now()); err != nil {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.DomainRemoved, domainID, audit.Details{"host": removed.Host})
	})
	if db.IsCheckViolation(err) { // own_code_has_domain
		return nil, errs.New(errs.Conflict, "%s has links with codes of its own. Delete them first.", removed.Host).
			At("id")
	}
	if err != nil {
		return nil, fmt.Errorf("removing a domain: %w", err)
	}
	return removed, nil
}

// Primary returns a workspace.Change.PrimaryHost that selects a verified domain; nil selects the
// instance's own host. It returns NotFound or InvalidInput.
func (s *Store) Primary(m workspace.Membership, domainID *string) func(context.Context, bun.Tx) (*string, error) {
	return func(ctx context.Context, tx bun.Tx) (*string, error) {
		if domainID == nil {
			return nil, nil
		}
		d, err := s.lock(ctx, tx, m, *domainID)
		if errs.Is(err, errs.NotFound) {
			err = errs.From(err).At("primaryDomainId")
		}
		if err != nil {
			return nil, err
		}
		if d.VerifiedAt == nil {
			return nil, errs.New(errs.InvalidInput, "%s is not verified. Verify it first.", d.Host).
				At("primaryDomainId")
		}
		if d.CodeSpace == Own {
			return nil, errs.New(errs.InvalidInput,
				"%s has codes of its own, so the links of the workspace do not answer there.",
				d.Host).At("primaryDomainId")
		}
		return &d.Host, m.Audit(ctx, tx, s.Now(), audit.DomainPrimary, d.ID, audit.Details{"host": d.Host})
	}
}

// lock reads a domain of the workspace and locks its row. A domain is always locked before its
// workspace is changed: so none becomes primary while it is being lost. It returns NotFound.
func (s *Store) lock(ctx context.Context, tx bun.Tx, m workspace.Membership, domainID string) (*Domain, error) {
	d := &Domain{}
	return d, s.read(ctx, s.DB.ForUpdate(tx.NewSelect().Model(d)), m, domainID)
}

func (s *Store) read(ctx context.Context, q *bun.SelectQuery, m workspace.Membership, domainID string) error {
	if !id.Valid(id.Domain, domainID) {
		return s.Rows().NotFound()
	}
	if err := q.Where("workspace_id = ?", m.ID()).Where("id = ?", domainID).Scan(ctx); err != nil {
		return db.NoRowsAs(s.Rows().NotFound(), err, "reading a domain")
	}
	return nil
}
