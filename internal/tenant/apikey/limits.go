package apikey

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	maxDestinationHosts = 100
	maxOrigins          = 20
	maxNetworks         = 20
	// maxRequestsPerMinute bounds the rate of a key. publishableRequests is that of a publishable
	// key without one.
	maxRequestsPerMinute = 60000
	publishableRequests  = 60
	// maxLinksPerDay bounds the links of a publishable key in a day.
	maxLinksPerDay = 1000000
)

// Limits restrict a key in addition to its scopes. Empty lists limit nothing.
type Limits struct {
	// DestinationHosts are where links of the key may lead: canonical hosts, with a leading dot all
	// hosts below too.
	DestinationHosts []string `bun:"type:text"`
	// Origins are the pages that may use the key. Programs send no origin, so that they may use it,
	// too.
	Origins []string `bun:"type:text"`
	// Networks are those of the clients that may use the key, in CIDR notation.
	Networks []string `bun:"type:text"`
	// RequestsPerMinute is the rate of the key; nil means the server's.
	RequestsPerMinute *int
	// LinksPerDay is how many links a publishable key may create on a day in UTC; nil means a tenth
	// of the workspace's quota of a month.
	LinksPerDay *int
}

// check validates the limits of a new key, and returns them as they are stored. It returns
// InvalidInput.
func (l Limits) check(isPublishable bool) (stored Limits, err error) {
	var hostsErr, originsErr, networksErr, rateErr, linksErr error
	stored.DestinationHosts, hostsErr = each("destinationHosts", maxDestinationHosts, l.DestinationHosts, canonicalHost)
	stored.Origins, originsErr = each("origins", maxOrigins, l.Origins, checkOrigin)
	stored.Networks, networksErr = each("networks", maxNetworks, l.Networks, canonicalNetwork)
	stored.RequestsPerMinute = l.RequestsPerMinute
	switch rate := l.RequestsPerMinute; {
	case rate != nil && (*rate < 1 || *rate > maxRequestsPerMinute):
		rateErr = errs.New(errs.InvalidInput, "requestsPerMinute must be 1 to %d.", maxRequestsPerMinute).
			At("requestsPerMinute")
	case rate == nil && isPublishable:
		stored.RequestsPerMinute = new(publishableRequests)
	}
	stored.LinksPerDay = l.LinksPerDay
	switch links := l.LinksPerDay; {
	case links != nil && !isPublishable:
		linksErr = errs.New(errs.InvalidInput,
			"linksPerDay is for keys with the only scope LINKS_CREATE. Omit it.").At("linksPerDay")
	case links != nil && (*links < 1 || *links > maxLinksPerDay):
		linksErr = errs.New(errs.InvalidInput, "linksPerDay must be 1 to %d.", maxLinksPerDay).At("linksPerDay")
	}
	if isPublishable && len(l.DestinationHosts) == 0 {
		hostsErr = errs.New(errs.InvalidInput,
			"Anyone can read a key with the only scope LINKS_CREATE: name the hosts that its "+
				"links may lead to.").At("destinationHosts")
	}
	return stored, errs.All(hostsErr, originsErr, networksErr, rateErr, linksErr)
}

// each returns the canonical forms of a list's values, each once. It returns InvalidInput.
func each(field string, most int, values []string, canonical func(string) (string, bool)) ([]string, error) {
	if len(values) > most {
		return nil, errs.New(errs.InvalidInput, "%s has at most %d values; these are %d.", field, most, len(values)).
			At(field)
	}
	all, err := errs.Map(values, func(value string) (_ string, err error) {
		one, ok := canonical(value)
		if !ok {
			err = errs.New(errs.InvalidInput, "%s is not allowed here. %s",
				cmp.Or(validate.Quote(value), "An empty text"), forms[field])
		}
		return one, err
	})
	slices.Sort(all)
	return slices.Compact(all), errs.Under(err, field)
}

// forms describe the values of lists.
var forms = map[string]string{
	"destinationHosts": "Give hosts like example.com, or .example.com for all hosts below too, without scheme, port " +
		"and path.",
	"origins":  "Give origins as browsers send them, like https://app.example.com, without path.",
	"networks": "Give networks in CIDR notation, like 192.0.2.0/24 or 2001:db8::/32.",
}

// canonicalHost returns a host as canonical URLs have it, with the leading dot if there is one.
func canonicalHost(given string) (string, bool) {
	name, isBelow := strings.CutPrefix(given, ".")
	host, err := urlnorm.Host(name)
	if isBelow {
		host = "." + host
	}
	return host, err == nil
}

func canonicalNetwork(given string) (string, bool) {
	network, err := netip.ParsePrefix(given)
	if err != nil || network.Masked() != network || network.Addr().Is4In6() {
		return "", false
	}
	return network.String(), true
}

// credential returns the credential that the key proves.
func (k *Key) credential() *account.Key {
	return &account.Key{
		ID: k.ID, WorkspaceID: k.WorkspaceID, CreatedBy: k.CreatedBy, Scopes: strings.Fields(k.Scopes),
		Folders: k.Folders, DestinationHosts: k.DestinationHosts, Origins: k.Origins,
		RequestsPerMinute: k.RequestsPerMinute, LinksPerDay: k.LinksPerDay,
	}
}

// details are the properties of a new key in the audit log.
func (k *Key) details(scopes []workspace.Permission) map[string]any {
	details := map[string]any{"scopes": scopes}
	for name, list := range map[string][]string{
		"folders": k.Folders, "destinationHosts": k.DestinationHosts, "origins": k.Origins, "networks": k.Networks,
	} {
		if len(list) > 0 {
			details[name] = list
		}
	}
	if k.RequestsPerMinute != nil {
		details["requestsPerMinute"] = fmt.Sprint(*k.RequestsPerMinute)
	}
	if k.LinksPerDay != nil {
		details["linksPerDay"] = fmt.Sprint(*k.LinksPerDay)
	}
	return details
}
