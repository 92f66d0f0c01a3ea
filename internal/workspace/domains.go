package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/validate"
)

const (
	// maxDomains is how many domains a workspace may have, verified or not: each one verified is looked up for ever.
	maxDomains = 100
	// recordPrefix keeps our records away from those that a host has for others.
	recordPrefix = "_linkforge."
	// maxHost leaves room for the prefix in the 253 characters of a name.
	maxHost = 253 - len(recordPrefix)
)

// Domain is a host at which a workspace's links answer, once it is verified.
type Domain struct {
	bun.BaseModel `bun:"table:domains"`

	ID          string `bun:",pk"`
	WorkspaceID string
	// Host is in canonical form.
	Host string
	// Token is what the TXT record must say.
	Token     string
	CreatedAt time.Time
	// VerifiedAt is when the record was found; nil means that it is only claimed.
	VerifiedAt *time.Time
	// CheckedAt is when the record was last looked for, FailedAt since when a verified domain's has been missing.
	CheckedAt *time.Time
	FailedAt  *time.Time
}

// DomainStatus says what is known of a domain's record.
type DomainStatus string

// The statuses.
const (
	DomainPending  DomainStatus = "PENDING"  // it has not been found yet, or has been missing for too long
	DomainVerified DomainStatus = "VERIFIED" // it was there
	DomainFailing  DomainStatus = "FAILING"  // it was there, and is missing; links still answer
)

// Status is what is known of the domain's record.
func (d *Domain) Status() DomainStatus {
	if d.VerifiedAt == nil {
		return DomainPending
	}
	if d.FailedAt != nil {
		return DomainFailing
	}
	return DomainVerified
}

// RecordName is the name of the TXT record that proves the domain.
func (d *Domain) RecordName() string { return recordPrefix + d.Host }

// RecordValue is what the record must say.
func (d *Domain) RecordValue() string { return "linkforge-verification=" + d.Token }

// AddDomain claims a host for the workspace. Any host can be claimed, and by many: only proof counts. Claiming one's own
// again changes nothing. It returns InvalidInput or Forbidden.
func (s *Store) AddDomain(ctx context.Context, m Membership, host string) (*Domain, error) {
	ctx, err := m.Enter(ctx, WriteDomains)
	if err != nil {
		return nil, err
	}
	if host, err = s.checkHost(host); err != nil {
		return nil, err
	}
	claim := &Domain{ID: id.New(id.Domain), WorkspaceID: m.ID(), Host: host, Token: rand.Text(), CreatedAt: s.now()}
	var kept *Domain
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		kept, err = s.keepClaim(ctx, tx, claim)
		if err != nil || kept.ID != claim.ID {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.DomainAdded, kept.ID, audit.Details{"host": host})
	})
	if err != nil {
		return nil, fmt.Errorf("keeping a domain: %w", err)
	}
	return kept, nil
}

// keepClaim writes a claim, or finds the one that is there. Claims of a workspace take turns, so that the last place is
// not given twice.
func (s *Store) keepClaim(ctx context.Context, tx bun.Tx, claim *Domain) (*Domain, error) {
	turn := tx.NewSelect().Model((*Workspace)(nil)).Column("id").Where("id = ?", claim.WorkspaceID)
	if err := s.DB.ForChange(turn).Scan(ctx, new(string)); err != nil {
		return nil, err
	}
	_, err := tx.NewInsert().Model(claim).On("CONFLICT (workspace_id, host) DO NOTHING").Returning("NULL").Exec(ctx)
	if err != nil {
		return nil, err
	}
	kept := &Domain{}
	err = tx.NewSelect().Model(kept).Where("workspace_id = ?", claim.WorkspaceID).Where("host = ?", claim.Host).Scan(ctx)
	if err != nil || kept.ID != claim.ID {
		return kept, err
	}
	n, err := tx.NewSelect().Model((*Domain)(nil)).Where("workspace_id = ?", claim.WorkspaceID).Count(ctx)
	if err == nil && n > maxDomains {
		return nil, errs.New(errs.InvalidInput, "A workspace has at most %d domains. Remove one first.", maxDomains).At("host")
	}
	return kept, err
}

// Domains is one page of the workspace's domains, newest first. It returns Forbidden.
func (s *Store) Domains(ctx context.Context, m Membership, r page.Request) (page.Page[*Domain], error) {
	return s.domains().page(ctx, m, r)
}

// DomainsByID returns the domains with the ids. Unknown ids are missing from the result. It returns
// Forbidden.
func (s *Store) DomainsByID(ctx context.Context, m Membership, ids ...string) ([]*Domain, error) {
	return s.domains().byID(ctx, m, ids)
}

func (s *Store) domains() collection[Domain] {
	return collection[Domain]{store: s, permission: ReadDomains, column: "id"}
}

// WorkspaceOfDomain finds the workspace of a domain. It says nothing of who may see it: ask Require. It returns NotFound.
func (s *Store) WorkspaceOfDomain(ctx context.Context, domainID string) (string, error) {
	return s.workspaceOf(ctx, (*Domain)(nil), id.Domain, domainID, errNoDomain())
}

// HostKnown reports whether a workspace has verified the host: whoever ends TLS in front of the server asks before
// getting a certificate for it. Anybody can have that asked of anything, so what is no host is not known.
func (s *Store) HostKnown(ctx context.Context, host string) (bool, error) {
	host, err := canonicalHost(host)
	if err != nil {
		return false, nil
	}
	known, err := s.DB.NewSelect().Model((*Domain)(nil)).Join("JOIN workspaces AS w ON w.id = domain.workspace_id").
		Where("domain.host = ?", host).Where("domain.verified_at IS NOT NULL").Where("w.deleted_at IS NULL").Exists(db.AsResolver(ctx))
	if err != nil {
		return false, fmt.Errorf("looking for a host: %w", err)
	}
	return known, nil
}

// RemoveDomain gives a host up: no link answers there any more. It returns NotFound or Forbidden.
func (s *Store) RemoveDomain(ctx context.Context, m Membership, domainID string) (*Domain, error) {
	ctx, err := m.Enter(ctx, WriteDomains)
	if err != nil {
		return nil, err
	}
	var removed *Domain
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		removed, err = s.lockDomain(ctx, tx, m, domainID)
		if err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model(removed).WherePK().Exec(ctx); err != nil {
			return err
		}
		if err := s.clearPrimary(ctx, tx, removed); err != nil {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.DomainRemoved, domainID, audit.Details{"host": removed.Host})
	})
	if err != nil {
		return nil, fmt.Errorf("removing a domain: %w", err)
	}
	return removed, nil
}

// SetPrimaryDomain has the workspace's short URLs be shown with a domain that is verified. It returns NotFound,
// InvalidInput or Forbidden.
func (s *Store) SetPrimaryDomain(ctx context.Context, m Membership, domainID string) (Membership, error) {
	ctx, err := m.Enter(ctx, WriteDomains)
	if err != nil {
		return Membership{}, err
	}
	var d *Domain
	now := s.now()
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		d, err = s.lockDomain(ctx, tx, m, domainID)
		if errs.Is(err, errs.NotFound) {
			return errNoDomain().At("domainId")
		}
		if err != nil {
			return err
		}
		verified := tx.NewSelect().Model((*Domain)(nil)).Where("domain.id = ?", d.ID).Where("domain.verified_at IS NOT NULL")
		result, err := tx.NewUpdate().Model((*Workspace)(nil)).Set("primary_host = ?", d.Host).Set("updated_at = ?", now).
			Where("id = ?", m.ID()).Where("EXISTS (?)", verified).Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errs.New(errs.InvalidInput, "%s is not verified. Verify it first.", d.Host).At("domainId"))
		}
		return m.Audit(ctx, tx, now, audit.DomainPrimary, d.ID, audit.Details{"host": d.Host})
	})
	if err != nil {
		return Membership{}, fmt.Errorf("choosing a primary domain: %w", err)
	}
	return m.shownWith(&d.Host, now), nil
}

// ClearPrimaryDomain has the workspace's short URLs be shown with the instance's own host again. It returns Forbidden.
func (s *Store) ClearPrimaryDomain(ctx context.Context, m Membership) (Membership, error) {
	ctx, err := m.Enter(ctx, WriteDomains)
	if err != nil {
		return Membership{}, err
	}
	now := s.now()
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		result, err := tx.NewUpdate().Model((*Workspace)(nil)).Set("primary_host = NULL").Set("updated_at = ?", now).
			Where("id = ?", m.ID()).Where("primary_host IS NOT NULL").Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err
		}
		return m.Audit(ctx, tx, now, audit.WorkspaceUpdated, m.ID(), audit.Details{"primaryHost": nil})
	})
	if err != nil {
		return Membership{}, fmt.Errorf("clearing the primary domain: %w", err)
	}
	return m.shownWith(nil, now), nil
}

// shownWith is the membership of the workspace with another primary host.
func (m Membership) shownWith(host *string, now time.Time) Membership {
	w := *m.workspace
	w.PrimaryHost, w.UpdatedAt = host, now
	m.workspace = &w
	return m
}

// domain reads a domain of the workspace. It returns NotFound.
func (s *Store) domain(ctx context.Context, m Membership, domainID string) (*Domain, error) {
	d := &Domain{}
	return d, readDomain(ctx, s.DB.NewSelect().Model(d), m, domainID)
}

// lockDomain is domain, and keeps it as it is until the transaction ends. A domain is locked before its workspace's row
// is changed, by everyone: so none becomes primary while it is being lost, and none is lost and stays primary.
func (s *Store) lockDomain(ctx context.Context, tx bun.Tx, m Membership, domainID string) (*Domain, error) {
	d := &Domain{}
	return d, readDomain(ctx, s.DB.ForUpdate(tx.NewSelect().Model(d)), m, domainID)
}

func readDomain(ctx context.Context, q *bun.SelectQuery, m Membership, domainID string) error {
	if !id.Valid(id.Domain, domainID) {
		return errNoDomain()
	}
	err := q.Where("workspace_id = ?", m.ID()).Where("id = ?", domainID).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return errNoDomain()
	}
	if err != nil {
		return fmt.Errorf("looking for a domain: %w", err)
	}
	return nil
}

// clearPrimary has short URLs no longer be shown with the domain, should they be.
func (s *Store) clearPrimary(ctx context.Context, tx bun.Tx, d *Domain) error {
	_, err := tx.NewUpdate().Model((*Workspace)(nil)).Set("primary_host = NULL").Set("updated_at = ?", s.now()).
		Where("id = ?", d.WorkspaceID).Where("primary_host = ?", d.Host).Exec(ctx)
	return err
}

// checkHost is the host in canonical form, when it can be claimed. It returns InvalidInput.
func (s *Store) checkHost(given string) (string, error) {
	host, err := canonicalHost(given)
	if err != nil {
		return "", err
	}
	if len(host) > maxHost {
		return "", errs.New(errs.InvalidInput, "The host must not be longer than %d characters: its record's name would be too long.", maxHost).At("host")
	}
	if s.Own.Reserves(host) {
		return "", errOwnHost(host).At("host")
	}
	return host, nil
}

func errOwnHost(host string) *errs.Error {
	return errs.New(errs.InvalidInput, "%s belongs to this service itself. Use a domain of your own.", host)
}

// canonicalHost is a host name as canonical URLs have it: with a dot in it, and no address. It returns InvalidInput.
func canonicalHost(given string) (string, error) {
	refused := errs.New(errs.InvalidInput, "%s is not the name of a host: give one like go.example.com, without scheme, port and path.",
		cmp.Or(validate.Quote(given), "An empty text")).At("host")
	given = strings.TrimSpace(given)
	// The canonical form of a URL drops some of these.
	if strings.ContainsAny(given, "/:?#") || strings.ContainsFunc(given, unicode.IsControl) {
		return "", refused
	}
	u, err := urlnorm.Canonical("https://" + given)
	if err != nil || u.String() != "https://"+u.Host()+"/" || !strings.Contains(u.Host(), ".") {
		return "", refused
	}
	if _, err := netip.ParseAddr(u.Host()); err == nil {
		return "", refused
	}
	return u.Host(), nil
}

func errNoDomain() *errs.Error { return errs.New(errs.NotFound, "There is no such domain.").At("id") }
