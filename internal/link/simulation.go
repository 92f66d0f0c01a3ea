package link

import (
	"context"
	"maps"
	"slices"

	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/explain"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// Simulation is a link, one of its short URLs, and a visit that has not taken place. Only Link is
// required.
type Simulation struct {
	Link  *Link
	At    resolve.Address
	Visit *routing.Sample
	// Change is a change of the routing to try.
	Change *routing.Change
	// OverQuota means that the monthly hits are used up.
	OverQuota bool
}

// Explain returns the answer of a link to a visit, and the reason. Scheduled changes that are due
// by the visit have taken effect. It consumes nothing. It returns InvalidInput for the visit, and
// the errors of an update for the change.
func (s *Store) Explain(ctx context.Context, e Simulation) (*explain.Explanation, error) {
	if e.Visit == nil {
		e.Visit = &routing.Sample{}
	}
	l, err := *e.Link, errs.Under(check.Sample(e.Visit), "visit")
	if e.Change != nil {
		draft, draftErr := s.Draft(ctx, e.Link, e.Change)
		if err = errs.All(err, draftErr); err == nil {
			l = *draft
		}
	}
	if err != nil {
		return nil, err
	}
	if err := s.Advance(ctx, &l, optional.Or(e.Visit.At, s.now())); err != nil {
		return nil, err
	}
	if e.At == (resolve.Address{}) || l.OwnAddress != nil {
		e.At = s.Address(&l)
	}
	at, err := s.Resolver.Resolve(ctx, e.At, s.now(), nil)
	if err != nil {
		return nil, err
	}
	p := l.Program()
	p.Lifecycle = l.Lifecycle()
	p.WorkspaceDeleted, p.NotFoundURL, p.EndedURL = at.WorkspaceDeleted, at.NotFoundURL, at.EndedURL
	r := s.SampleRequest(e.Visit, &l, e.At, s.now())
	r.Exhausted, r.OverQuota, p.Exhausted = p.Exhausted, e.OverQuota, false
	if r.ExhaustedTargets, err = s.exhaustedTargets(ctx, &l); err != nil {
		return nil, err
	}
	if l.OwnAddress != nil {
		host, _, err := s.Resolver.Host(ctx, e.At.Host, s.now(), nil)
		if err != nil {
			return nil, err
		}
		if host.OwnID != optional.Value(l.DomainID) { // the domain is not verified
			p.Unknown, p.NotFoundURL = true, ""
		}
	}
	if isAtRoot := e.At.Slug == "" && e.At.Host == ""; isAtRoot && r.Path != "" && r.Path != "/" {
		p.Unknown, p.NotFoundURL = true, "" // its first segment is an unknown slug
	}
	return explain.Decision(&p, &r), nil
}

// Draft returns a copy of a link with a change of its routing that is not saved. It returns the errors
// of an update.
func (s *Store) Draft(ctx context.Context, of *Link, c *routing.Change) (*Link, error) {
	l := *of
	if err := s.FillTemplates(ctx, l.In, []*routing.Change{c}); err != nil {
		return nil, err
	}
	assumePassword(c)
	if err := l.ChangeRouting(c); err != nil {
		return nil, err
	}
	if err := s.RunTests(&l); err != nil {
		return nil, err
	}
	ctx, err := l.In.Enter(ctx, workspace.ReadLinks) // whose domains are looked up
	if err != nil {
		return nil, err
	}
	return &l, s.Refuse(ctx, s.DB, &l)
}

// assumePassword gives a password that is not stored a hash that no visitor's password has.
func assumePassword(c *routing.Change) {
	if p := c.NewPassword(); p != nil && check.IsPassword(p.Text) {
		p.ID, p.Hash = "assumed", "assumed"
	}
}

// exhaustedTargets returns the targets of the link's rules that have reached their maximum.
func (s *Store) exhaustedTargets(ctx context.Context, l *Link) (ids []string, err error) {
	maxima := l.Routing.MaxClicks()
	if len(maxima) == 0 {
		return nil, nil
	}
	if ctx, err = l.In.Enter(ctx, workspace.ReadLinks); err != nil {
		return nil, err
	}
	granted, err := GrantedBy(ctx, s.DB, slices.Collect(maps.Keys(maxima)))
	for target, maximum := range maxima {
		if granted[target] >= *maximum {
			ids = append(ids, target)
		}
	}
	return ids, err
}

// Warnings returns the parts of a link's routing that cannot have their effect on this server,
// which may know countries.
func (s *Store) Warnings(ctx context.Context, l *Link, hasCountries bool) ([]*check.Warning, error) {
	if l.Routing == nil {
		return nil, nil
	}
	var urls []string
	for _, u := range l.Routing.URLs() {
		urls = append(urls, u.URL)
	}
	own, err := s.Destinations.Circular(ctx, s.DB, urls...)
	if err != nil {
		return nil, err
	}
	at := s.Address(l)
	return check.Warnings(l.Routing, &check.WarningContext{
		HasCountries: hasCountries, AtRoot: at.Slug == "" && at.Host == "",
		IsBrowser: visitor.IsBrowser, IsOS: visitor.IsOS, Own: own,
	}), nil
}
