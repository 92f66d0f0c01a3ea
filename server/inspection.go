package main

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/linkforge/linkforge/internal/click/statspage"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/visit/resolve"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

// view is a link, and which of its parts the caller may see.
type view struct {
	*link.Link
	showsStats, isInspectable bool
}

// viewed looks up a link if the caller may see its stats or its destination. It returns NotFound, or
// Unauthenticated for a bad token. An unknown link gets the same response as one of another workspace; if
// the short URL does not redirect either, after the same statements.
func (a *app) viewed(ctx context.Context, at resolve.Address, authorization string) (v view, err error) {
	if authorization != "" {
		if ctx, err = a.Accounts.Authenticate(ctx, authorization); err != nil {
			return v, err
		}
	}
	l, err := a.Links.At(ctx, at)
	isKnown := err == nil
	if errs.Is(err, errs.NotFound) {
		l, err = &link.Link{WorkspaceID: id.PublicWorkspace}, nil
	}
	if err != nil {
		return v, err
	}
	v.Link = l
	isMember := false
	if authorization != "" {
		if isMember, err = a.joins(ctx, l); err != nil {
			return v, err
		}
	}
	isActive := isKnown && l.PurgedAt == nil && l.Status(a.now()) == routing.Active
	v.showsStats = isMember || l.HasPublicStats(a.now())
	switch {
	case l.WorkspaceID == id.PublicWorkspace:
		v.isInspectable = isActive
	case v.showsStats || isActive:
		if !isMember {
			if l.In, err = a.Workspaces.Observe(ctx, l.WorkspaceID); err != nil {
				return v, err
			}
		}
		v.isInspectable = isActive && l.In.Workspace().Inspectable
	}
	if !v.showsStats && !v.isInspectable {
		return v, errs.New(errs.NotFound, "There is no such link, or it does not show where it leads.")
	}
	return v, nil
}

// joins gives a link the membership of its reader, and reports whether there is one that can see it.
func (a *app) joins(ctx context.Context, l *link.Link) (bool, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return false, err
	}
	m, err := a.Workspaces.Require(ctx, actor, l.WorkspaceID)
	if errs.Is(err, errs.NotFound) || err == nil && !m.IsInside(l.FolderID) {
		return false, nil
	}
	l.In = m
	return err == nil && !m.IsPublishable(), err
}

// inspect answers with where a link leads. Stats follow if they are not nil.
func (a *app) inspect(w http.ResponseWriter, r *http.Request, l *link.Link, stats *statspage.Page) {
	in := statspage.Inspection{ShortURL: a.shortURLOf(l), CreatedAt: l.CreatedAt, Stats: stats}
	in.ReportURL = a.config.PublicURL + "/abuse?link=" + url.QueryEscape(in.ShortURL)
	if destination := l.PublicDestination(a.now()); destination != "" {
		in.URL, in.Host = destination, l.Host()
		in.Others = slices.DeleteFunc(hostsOfRules(l.Routing), func(host string) bool { return host == in.Host })
	}
	statspage.WriteInspection(w, r, visitorpage.LanguageOf(r), in)
}

// shortURLOf returns the short URL of a link, which may be anonymous.
func (a *app) shortURLOf(l *link.Link) string {
	if l.WorkspaceID == id.PublicWorkspace {
		return a.Links.ShortURLBelow("", l)
	}
	return a.Links.ShortURL(l)
}

// hostsOfRules returns the hosts of the targets that a rule may choose, each once.
func hostsOfRules(r *routing.Routing) (hosts []string) {
	for _, target := range r.EnabledURLs() {
		u, err := urlnorm.Canonical(target)
		if err == nil && !slices.Contains(hosts, u.Host()) {
			hosts = append(hosts, u.Host())
		}
	}
	return hosts
}
