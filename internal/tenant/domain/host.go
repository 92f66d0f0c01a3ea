package domain

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

const (
	// recordPrefix separates our TXT records from others of the host.
	recordPrefix = "_linkforge."
	// maxHost is the maximum length of a host: a DNS name has at most 253 characters.
	maxHost = 253 - len(recordPrefix)
)

// Find returns domains of a workspace by their ids, in the scope of the context. Texts that are no
// id of a domain are omitted.
func Find(ctx context.Context, conn bun.IDB, workspaceID string, ids []string) (map[string]*Domain, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(one string) bool { return !id.Valid(id.Domain, one) })
	var rows []*Domain
	found := map[string]*Domain{}
	if len(ids) == 0 {
		return found, nil
	}
	err := conn.NewSelect().Model(&rows).Where("workspace_id = ?", workspaceID).Where("id IN (?)", bun.In(ids)).
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading domains: %w", err)
	}
	for _, d := range rows {
		found[d.ID] = d
	}
	return found, nil
}

// IsVerified reports whether a workspace has verified the host. A TLS proxy in front of the server
// calls it before it requests a certificate, and so does the server itself. A text that is no host
// is not verified.
func (s *Store) IsVerified(ctx context.Context, host string) (bool, error) {
	host, err := CanonicalHost(host)
	if err != nil {
		return false, nil
	}
	verified, err := s.Verified(ctx, []string{host})
	return verified[host], err
}

// Verified returns which of the canonical hosts a workspace has verified.
func (s *Store) Verified(ctx context.Context, hosts []string) (map[string]bool, error) {
	var found []string
	err := s.DB.NewSelect().Model((*Domain)(nil)).Column("domain.host").
		Join("JOIN workspaces AS w ON w.id = domain.workspace_id").Where("domain.host IN (?)", bun.In(hosts)).
		Where("domain.verified_at IS NOT NULL").Where("w.deleted_at IS NULL").Scan(db.AsResolver(ctx), &found)
	if err != nil {
		return nil, fmt.Errorf("looking up hosts: %w", err)
	}
	verified := map[string]bool{}
	for _, host := range found {
		verified[host] = true
	}
	return verified, nil
}

// checkHost returns the canonical form of a host that a workspace can claim. It returns
// InvalidInput.
func (s *Store) checkHost(given string) (string, error) {
	host, err := CanonicalHost(given)
	if err != nil {
		return "", err
	}
	if len(host) > maxHost {
		return "", errs.New(errs.InvalidInput,
			"The host must not be longer than %d characters: its record's name would be too long.", maxHost).At("host")
	}
	if s.Own.Reserves(host) {
		return "", errOwnHost(host).At("host")
	}
	return host, nil
}

func errOwnHost(host string) *errs.Error {
	return errs.New(errs.InvalidInput, "%s belongs to this service itself. Use a domain of your own.", host)
}

// CanonicalHost returns a host name as canonical URLs have it. The name must contain a dot and must
// not be an IP address. It returns InvalidInput.
func CanonicalHost(given string) (string, error) {
	refused := errs.New(errs.InvalidInput,
		"%s is not the name of a host: give one like go.example.com, without scheme, port and path.",
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
