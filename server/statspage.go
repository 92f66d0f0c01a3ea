package main

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/statspage"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/resolve"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

// statsSuffix is the end of a short URL's stats page. No code ends in it.
const statsSuffix = "+"

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

// pageOf reads the contents of the page.
func (a *app) pageOf(ctx context.Context, l *link.Link) (*statspage.Page, error) {
	now := a.now()
	s, err := a.Stats.Stats(ctx, l.In, clickstore.Subject{LinkID: l.ID}, statspage.Range(now), "UTC",
		clickstore.Filter{})
	if err != nil {
		return nil, err
	}
	p, err := statspage.Read(ctx, s)
	if err != nil {
		return nil, err
	}
	p.ShortURL, p.IsDBIP = a.Links.ShortURL(l), a.countries.Edition().IsDBIP()
	if l.HasPublicStats(now) || l.In.May(workspace.ReadLinks) { // title and destination are the link's, not its stats
		p.Destination, p.Title = l.PublicDestination(now), *cmp.Or(l.Title, new(string))
	}
	return p, nil
}

func (a *app) refuseStats(w http.ResponseWriter, r *http.Request, err error) {
	a.refuse(w, r, err, "stats page failed", func() {
		visitorpage.Write(w, r, http.StatusNotFound, visitorpage.NoStats)
	})
}
