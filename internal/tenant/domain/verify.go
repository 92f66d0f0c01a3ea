package domain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// lookupDeadline bounds a DNS query. Without an answer no domain is verified or lost.
const lookupDeadline = 5 * time.Second

// verificationsPerWorkspace bounds the DNS queries of a workspace.
var verificationsPerWorkspace = ratelimit.Rate{Name: "verifications", Attempts: 30, Window: time.Hour}

// Resolver queries DNS, as net.Resolver does.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// Verify queries the domain's record and, if it exists, makes the domain the workspace's. If
// another workspace has the host, fresh proof beats a record that is missing. It returns NotFound,
// InvalidInput, DomainTaken, RateLimited, Unavailable or Forbidden.
func (s *Store) Verify(ctx context.Context, m workspace.Membership, domainID string) (*Domain, error) {
	ctx, err := m.Enter(ctx, workspace.WriteDomains)
	if err != nil {
		return nil, err
	}
	d := &Domain{}
	if err := s.read(ctx, s.DB.NewSelect().Model(d), m, domainID); err != nil {
		return nil, err
	}
	if s.Own.Reserves(d.Host) { // claimed before the operator configured it
		return nil, errOwnHost(d.Host).At("id")
	}
	if err := s.Limits.Charge(ctx, verificationsPerWorkspace, m.ID()); err != nil {
		return nil, err
	}
	found, err := s.lookUp(ctx, d, s.now())
	if err != nil {
		return nil, errs.New(errs.Unavailable, "DNS does not answer for %s. Try again in a few minutes.",
			d.RecordName()).
			Because(err)
	}
	if !found.prove(d) {
		return nil, errs.New(errs.InvalidInput,
			"There is no TXT record %s with the value %s. Set it where the domain's DNS is "+
				"kept, and verify again: it can take a while, sometimes hours, until a change is seen everywhere.",
			d.RecordName(), d.RecordValue()).At("id")
	}
	return s.verify(ctx, m, domainID, found)
}

// records are the values of the TXT records of a name. All claims of a host share the name, so one
// query proves or disproves each of them.
type records struct {
	texts     []string
	queriedAt time.Time
}

func (r records) prove(d *Domain) bool { return slices.Contains(r.texts, d.RecordValue()) }

// lookUp queries the domain's records. A name without records is no error.
func (s *Store) lookUp(ctx context.Context, d *Domain, now time.Time) (records, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupDeadline)
	defer cancel()
	// The final dot keeps the resolver from appending the search domains of this machine.
	texts, err := s.Resolver.LookupTXT(ctx, d.RecordName()+".")
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return records{queriedAt: now}, nil
	}
	return records{texts, now}, err
}

// verify makes a proved domain the workspace's. It returns NotFound or DomainTaken.
func (s *Store) verify(
	ctx context.Context, m workspace.Membership, domainID string, found records,
) (d *Domain, err error) {
	// Another workspace may have the host, which only the system's scope sees. One transaction
	// takes the host from there and gives it to this workspace.
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		if d, err = s.lock(ctx, tx, m, domainID); err != nil {
			return err
		}
		before := d.Status()
		if d.VerifiedAt == nil {
			if err := s.displace(ctx, tx, d, found); err != nil {
				return err
			}
			d.VerifiedAt = new(s.now())
			if err := startOwnership(ctx, tx, d, *d.VerifiedAt); err != nil {
				return err
			}
		}
		d.CheckedAt, d.FailedAt = &found.queriedAt, nil
		_, err := tx.NewUpdate().Model(d).Column("verified_at", "checked_at", "failed_at").WherePK().Exec(ctx)
		if err != nil {
			return err
		}
		return s.writeStatus(ctx, tx, m.ActorID(), before, d)
	})
	if db.IsUniqueViolation(err) {
		return nil, errDomainTaken() // verified by another workspace at the same time
	}
	if err != nil {
		return nil, fmt.Errorf("verifying a domain: %w", err)
	}
	return d, nil
}
