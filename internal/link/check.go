package link

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Check is the last check of a URL, and the time of the next one.
type Check struct {
	// DestinationStatus is the HTTP status of the last check; nil means that there was no response.
	DestinationStatus *int
	LastCheckedAt     *time.Time
	// CheckAt is when the next check is due, CheckFailures how many in a row have failed.
	CheckAt       *time.Time
	CheckFailures int
	// ReportedState is the state that the event log has: BROKEN or UNREACHABLE after
	// DESTINATION_FAILED, otherwise OK, or empty before the first response.
	ReportedState DestinationState `bun:",nullzero"`
}

// HasFailed reports whether the last check failed.
func (s DestinationState) HasFailed() bool {
	return s == DestinationBroken || s == DestinationUnreachable
}

// URLCheck is the last check of one URL of a link.
type URLCheck struct {
	URL string
	// Field is the position in the link, as in url, or routing, rules, 0, targets, 1, url.
	Field []string
	Check
}

// DestinationState is how a URL responded at its last check.
type DestinationState string

// The states.
const (
	DestinationOK          DestinationState = "OK"
	DestinationUnchecked   DestinationState = "UNCHECKED"
	DestinationBroken      DestinationState = "BROKEN"
	DestinationUnreachable DestinationState = "UNREACHABLE"
)

// State returns the state.
func (c *URLCheck) State() DestinationState {
	if c.LastCheckedAt == nil {
		return DestinationUnchecked
	}
	return StateOf(c.DestinationStatus)
}

// RefusesPrograms are the statuses from 400 of sites that answer browsers: they demand a login, or
// refuse programs, this country or this kind of request. 999 is LinkedIn's.
var RefusesPrograms = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
	http.StatusTooManyRequests, http.StatusUnavailableForLegalReasons, 999,
}

// StateOf returns the state of a URL that was checked.
func StateOf(status *int) DestinationState {
	switch {
	case status == nil:
		return DestinationUnreachable
	case *status < http.StatusBadRequest, slices.Contains(RefusesPrograms, *status):
		return DestinationOK
	}
	return DestinationBroken
}

// Checks returns the last check of each destination of the link, in the order of their positions.
// ofRouting are those of its routing, see RoutingChecks.
func (l *Link) Checks(ofRouting map[string]Check) []*URLCheck {
	checks := []*URLCheck{{URL: l.OriginalURL, Field: []string{"url"}, Check: l.Check}}
	for _, u := range l.Routing.URLs() {
		if u.IsImage {
			continue
		}
		checks = append(checks, &URLCheck{
			URL: u.URL, Field: slices.Concat([]string{"routing"}, u.Field),
			Check: ofRouting[strings.Join(u.Field, ".")],
		})
	}
	return checks
}

// WorstState returns the worst state of URLs.
func WorstState(checks []*URLCheck) DestinationState {
	bestFirst := []DestinationState{DestinationOK, DestinationUnchecked, DestinationBroken, DestinationUnreachable}
	worst := 0
	for _, c := range checks {
		worst = max(worst, slices.Index(bestFirst, c.State()))
	}
	return bestFirst[worst]
}

// RoutingChecks returns the checks of the URLs of routings, by the links' ids and the positions,
// joined by dots.
func (s *Store) RoutingChecks(
	ctx context.Context, m workspace.Membership, linkIDs ...string,
) (map[string]map[string]Check, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	var rows []URLRow
	err = s.DB.NewSelect().Model(&rows).Where("link_id IN (?)", bun.In(linkIDs)).Where("workspace_id = ?", m.ID()).
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the checks of URLs: %w", err)
	}
	checks := map[string]map[string]Check{}
	for _, row := range rows {
		if checks[row.LinkID] == nil {
			checks[row.LinkID] = map[string]Check{}
		}
		checks[row.LinkID][row.Field] = row.Check
	}
	return checks, nil
}
