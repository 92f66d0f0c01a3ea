package link

import (
	"time"

	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// HasPublicStats reports whether the link's stats page is public.
func (l *Link) HasPublicStats(now time.Time) bool {
	return l.StatsPublic && !l.IsHidden(now) && l.DisabledAt == nil && l.PurgedAt == nil &&
		l.WorkspaceID != id.PublicWorkspace
}

// PublicDestination is the Location that the redirect sends, as strangers may see it. It is empty for
// a link that has not started, and for one with maxClicks or a gate, whose destination only the
// redirect reveals.
func (l *Link) PublicDestination(now time.Time) string {
	isGated := l.Routing != nil && l.Routing.Gate != nil
	if l.MaxClicks != nil || isGated || l.IsHidden(now) {
		return ""
	}
	return urlnorm.Location(l.OriginalURL)
}
