package link

import (
	"time"

	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// HasPublicStats reports whether anyone may see the link's stats page. It is false for hidden, disabled
// and purged links, and for links without an account.
func (l *Link) HasPublicStats(now time.Time) bool {
	return l.StatsPublic && !l.IsHidden(now) && l.DisabledAt == nil && l.PurgedAt == nil &&
		l.WorkspaceID != id.PublicWorkspace
}

// PublicDestination returns the Location of the redirect, for pages that anyone may see. It is empty for
// a link that has not started, and for one with maxClicks or a gate, whose destination only the
// redirect reveals.
func (l *Link) PublicDestination(now time.Time) string {
	isGated := l.Routing != nil && l.Routing.Gate != nil
	if l.MaxClicks != nil || isGated || l.IsHidden(now) {
		return ""
	}
	return urlnorm.Location(l.OriginalURL)
}
