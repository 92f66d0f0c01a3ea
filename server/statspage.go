package main

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/click/statspage"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/resolve"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

const (
	// statsSuffix is the end of a short URL's stats page. No code ends in it.
	statsSuffix = "+"
	// statsDays is the number of days on the page, statsSlices that of referrers and countries.
	statsDays   = 30
	statsSlices = 10
)

// statsPages limits the pages per client address.
var statsPages = ratelimit.Rate{Name: "stats-pages", Attempts: 120, Window: time.Minute}

// stats responds to a short URL followed by + with where the link leads if it is inspectable, and with its
// stats if they are public or the caller is a member. Otherwise it responds as for an unknown link, which
// counts as an unknown code for the client's network.
func (a *app) stats(w http.ResponseWriter, r *http.Request, at resolve.Address) {
	ctx := r.Context()
	at = at.TrimSuffix(statsSuffix)
	var v view
	err := a.findLink(r, statsPages, func(ctx context.Context) (err error) {
		v, err = a.viewed(ctx, at, r.Header.Get("Authorization"))
		return err
	})
	if err != nil {
		a.refuseStats(w, r, err)
		return
	}
	var p *statspage.Page
	if v.showsStats {
		if p, err = a.pageOf(ctx, v.Link); err != nil {
			a.refuseStats(w, r, err)
			return
		}
	}
	if v.isInspectable {
		a.inspect(w, r, v.Link, p)
		return
	}
	statspage.Write(w, r, *p)
}

// hasPublicStats reports whether the link's stats page is public.
func hasPublicStats(l *link.Link, now time.Time) bool {
	return l.StatsPublic && !l.IsHidden(now) && l.DisabledAt == nil && l.PurgedAt == nil &&
		l.WorkspaceID != id.PublicWorkspace
}

// pageOf reads the contents of the page.
func (a *app) pageOf(ctx context.Context, l *link.Link) (*statspage.Page, error) {
	now := a.now().UTC()
	today := now.Truncate(24 * time.Hour)
	span := &clickstore.Range{From: today.AddDate(0, 0, 1-statsDays), To: now}
	if !span.From.Before(now) {
		span.To = span.From.Add(click.BucketLength)
	}
	s, err := a.Stats.Stats(ctx, l.In, clickstore.Subject{LinkID: l.ID}, span, "UTC", clickstore.Filter{})
	if err != nil {
		return nil, err
	}
	total, err := s.Total(ctx)
	if err != nil {
		return nil, err
	}
	p := &statspage.Page{ShortURL: a.Links.ShortURL(l), Zone: "UTC", Clicks: total.Clicks, Visitors: total.Visits,
		Bots: total.Bots}
	if hasPublicStats(l, now) || l.In.May(workspace.ReadLinks) { // title and destination are the link's, not its stats
		p.Destination, p.Title = shownDestination(l, now), *cmp.Or(l.Title, new(string))
	}
	points, err := s.Series(ctx, stats.Day)
	if err != nil {
		return nil, err
	}
	for _, point := range points {
		p.Days = append(p.Days, statspage.Day{Start: point.Start, Clicks: point.Clicks, Visitors: point.Visits})
	}
	if p.Referrers, err = slicesOf(ctx, s, click.Referrer); err != nil {
		return nil, err
	}
	p.Countries, err = slicesOf(ctx, s, click.Country)
	return p, err
}

// shownDestination is the Location that the redirect sends. It is empty for a link that has not
// started, and for one with maxClicks or a gate, whose destination only the redirect reveals.
func shownDestination(l *link.Link, now time.Time) string {
	isGated := l.Routing != nil && l.Routing.Gate != nil
	if l.MaxClicks != nil || isGated || l.IsHidden(now) {
		return ""
	}
	return urlnorm.Location(l.OriginalURL)
}

func slicesOf(ctx context.Context, s *stats.Stats, by click.Dimension) (slices []statspage.Slice, err error) {
	parts, err := s.Breakdown(ctx, by, statsSlices)
	for _, part := range parts {
		slices = append(slices, statspage.Slice{Value: part.Value, Clicks: part.Clicks, Other: part.IsOther})
	}
	return slices, err
}

func (a *app) refuseStats(w http.ResponseWriter, r *http.Request, err error) {
	a.refuse(w, r, err, "stats page failed", func() {
		visitorpage.Write(w, r, http.StatusNotFound, visitorpage.NoStats)
	})
}
