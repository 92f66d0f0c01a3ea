package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/ratelimit"
)

const (
	// checkEvery is how often a verified domain's record is looked for. One that is missing is looked for in every run.
	checkEvery = 6 * time.Hour
	// grace is how long the record may be missing: somebody moves to another provider of DNS over a weekend.
	grace = 72 * time.Hour
	// lookupDeadline bounds a look-up. Without an answer nothing is verified, and nothing lost.
	lookupDeadline = 5 * time.Second
	// checkBatch is how many domains are read at once, checksAtOnce how many are looked up at the same time.
	checkBatch   = 500
	checksAtOnce = 8
	// lastCheck is when a verified domain's record was last looked for.
	lastCheck = "COALESCE(checked_at, verified_at)"
)

// verificationsPerWorkspace is how often a workspace may have DNS asked.
var verificationsPerWorkspace = ratelimit.Rate{Name: "verifications", Attempts: 30, Window: time.Hour}

// Names answers questions of DNS, as net.Resolver does.
type Names interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// VerifyDomain looks for the domain's record, and makes the domain the workspace's when it is there. Should another one
// have the host, fresh proof beats a record that has gone. It returns NotFound, InvalidInput, DomainTaken, RateLimited,
// Unavailable or Forbidden.
func (s *Store) VerifyDomain(ctx context.Context, m Membership, domainID string) (*Domain, error) {
	ctx, err := m.Enter(ctx, WriteDomains)
	if err != nil {
		return nil, err
	}
	d, err := s.domain(ctx, m, domainID)
	if err != nil {
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
		return nil, errs.New(errs.Unavailable, "DNS does not answer for %s. Try again in a few minutes.", d.RecordName()).Because(err)
	}
	if !found.prove(d) {
		return nil, errs.New(errs.InvalidInput, "There is no TXT record %s with the value %s. Set it where the domain's DNS is kept, "+
			"and verify again: it can take a while, sometimes hours, until a change is seen everywhere.", d.RecordName(), d.RecordValue()).At("id")
	}
	return s.verify(ctx, m, domainID, found)
}

// records are what the TXT records of a name say. All claims of a host have theirs at one name, so that one look-up
// tells of each.
type records struct {
	texts   []string
	askedAt time.Time
}

func (r records) prove(d *Domain) bool { return slices.Contains(r.texts, d.RecordValue()) }

// lookUp asks for the domain's records; that there are none is an answer too. An error means that nobody can tell.
func (s *Store) lookUp(ctx context.Context, d *Domain, now time.Time) (records, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupDeadline)
	defer cancel()
	// With a dot at its end the name is looked for as it is, and not in the search domains of this machine.
	texts, err := s.Names.LookupTXT(ctx, d.RecordName()+".")
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return records{askedAt: now}, nil
	}
	return records{texts, now}, err
}

// verify makes a domain that is proved the workspace's. It returns NotFound or DomainTaken.
func (s *Store) verify(ctx context.Context, m Membership, domainID string, found records) (d *Domain, err error) {
	// The host may be another workspace's, which only the system sees: it is taken from there and given here in one
	// transaction.
	err = s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		if d, err = s.lockDomain(ctx, tx, m, domainID); err != nil {
			return err
		}
		again := d.VerifiedAt != nil
		if !again {
			if err := s.displace(ctx, tx, d, found); err != nil {
				return err
			}
		}
		if err := s.markVerified(ctx, tx, d, found); err != nil || again {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.DomainVerified, d.ID, audit.Details{"host": d.Host})
	})
	if db.IsUniqueViolation(err) {
		return nil, errDomainTaken() // by another one that verified it at the same time
	}
	if err != nil {
		return nil, fmt.Errorf("verifying a domain: %w", err)
	}
	return d, nil
}

func (s *Store) markVerified(ctx context.Context, tx bun.Tx, d *Domain, found records) error {
	if d.VerifiedAt == nil {
		d.VerifiedAt = new(s.now())
	}
	d.CheckedAt, d.FailedAt = &found.askedAt, nil
	_, err := tx.NewUpdate().Model(d).Column("verified_at", "checked_at", "failed_at").WherePK().Exec(ctx)
	return err
}

// displace takes the domain's host from another workspace whose record is missing. It returns DomainTaken when it is
// not, and when it was looked for later: whoever waited for the other to verify knows less.
func (s *Store) displace(ctx context.Context, tx bun.Tx, d *Domain, found records) error {
	other := &Domain{}
	q := tx.NewSelect().Model(other).Where("host = ?", d.Host).Where("verified_at IS NOT NULL")
	err := s.DB.ForUpdate(q).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	later := other.CheckedAt != nil && other.CheckedAt.After(found.askedAt)
	if other.FailedAt == nil && (later || found.prove(other)) {
		return errDomainTaken()
	}
	return s.lose(ctx, tx, other, found)
}

// lose makes a verified domain, whose row is locked, a mere claim again.
func (s *Store) lose(ctx context.Context, tx bun.Tx, d *Domain, found records) error {
	_, err := tx.NewUpdate().Model(d).Set("verified_at = NULL").Set("failed_at = NULL").Set("checked_at = ?", found.askedAt).WherePK().Exec(ctx)
	if err != nil {
		return err
	}
	if err := s.clearPrimary(ctx, tx, d); err != nil {
		return err
	}
	return audit.Write(ctx, tx, audit.New(d.WorkspaceID, "", audit.DomainLost, d.ID, audit.Details{"host": d.Host}, s.Now()))
}

func errDomainTaken() error {
	return errs.New(errs.DomainTaken, "Another workspace has verified this host, and its TXT record is there too. "+
		"Remove that record first if the host is to be yours, then verify again.").At("id")
}

// CheckDomains looks for the records of verified domains again, those first that have waited longest. A domain whose
// record has been missing for longer than grace is lost. It returns when none is left or its time is up: then the next
// run goes on.
func (s *Store) CheckDomains(ctx context.Context) error {
	began := s.now()
	for ctx.Err() == nil {
		due, err := s.dueDomains(ctx, began)
		if err == nil {
			err = s.checkAll(ctx, due, began)
		}
		if ctx.Err() == nil && (err != nil || len(due) == 0) {
			return err
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return ctx.Err()
}

// dueDomains are the next domains of a run. Whatever it has checked counts as checked when it began, and so is not due
// again.
func (s *Store) dueDomains(ctx context.Context, began time.Time) ([]*Domain, error) {
	var due []*Domain
	err := s.DB.NewSelect().Model(&due).Where("verified_at IS NOT NULL").
		Where(lastCheck+" <= ? OR "+lastCheck+" < ? AND failed_at IS NOT NULL", began.Add(-checkEvery), began).
		OrderExpr(lastCheck + ", id").Limit(checkBatch).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for domains to check: %w", err)
	}
	return due, nil
}

func (s *Store) checkAll(ctx context.Context, due []*Domain, began time.Time) error {
	checking, ctx := errgroup.WithContext(ctx)
	checking.SetLimit(checksAtOnce)
	for _, d := range due {
		checking.Go(func() error { return s.check(ctx, d, began) })
	}
	return checking.Wait()
}

// check looks for a domain's record, and writes down what it found. When DNS does not answer, what was known stays.
func (s *Store) check(ctx context.Context, d *Domain, began time.Time) error {
	found, err := s.lookUp(ctx, d, began)
	q := s.DB.NewUpdate().Model(d).Set("checked_at = ?", began)
	switch {
	case err != nil:
	case found.prove(d):
		q = q.Set("failed_at = NULL")
	case d.FailedAt != nil && !began.Before(d.FailedAt.Add(grace)):
		return s.drop(ctx, d, found)
	default:
		q = q.Set("failed_at = COALESCE(failed_at, ?)", s.now())
	}
	// Who has verified it in the meantime knows better.
	_, err = q.WherePK().Where("verified_at IS NOT NULL").Where(lastCheck+" < ?", began).Exec(ctx)
	if err != nil {
		return fmt.Errorf("recording the check of a domain: %w", err)
	}
	return nil
}

// drop takes a domain from its workspace, if it still has it and nobody has found the record since.
func (s *Store) drop(ctx context.Context, d *Domain, found records) error {
	dropped := false
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		failing := &Domain{}
		q := tx.NewSelect().Model(failing).Where("id = ?", d.ID).Where("verified_at IS NOT NULL").
			Where("failed_at <= ?", found.askedAt.Add(-grace))
		err := s.DB.ForUpdate(q).Scan(ctx)
		if dropped = err == nil; dropped {
			return s.lose(ctx, tx, failing, found)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("dropping a domain: %w", err)
	}
	if dropped {
		s.Log.InfoContext(ctx, "domain lost: its record has been missing for too long", "domain", d.ID, "workspace", d.WorkspaceID)
	}
	return nil
}
