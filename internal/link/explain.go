package link

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/resolve"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/visitor"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Explanation is a visit of a link to explain, at one of its short URLs. All fields but Link may be
// absent.
type Explanation struct {
	Link  *Link
	At    resolve.Address
	Visit *routing.Sample
	// Change is a change of the routing to try.
	Change *routing.Change
	// OverQuota means that the monthly hits are used up.
	OverQuota bool
}

// Explain returns the answer of a link to a visit, and the reason. It consumes nothing. It returns
// InvalidInput for the visit, and the errors of Update for the change.
func (s *Store) Explain(ctx context.Context, e Explanation) (*routing.Explanation, error) {
	if e.Visit == nil {
		e.Visit = &routing.Sample{}
	}
	if err := e.Visit.Check(); err != nil {
		bad := errs.From(err)
		return nil, bad.At(append([]string{"visit"}, bad.Field...)...)
	}
	l := *e.Link
	if e.Change != nil {
		if err := s.fillTemplates(ctx, l.In, []*routing.Change{e.Change}); err != nil {
			return nil, err
		}
		if err := s.changeRouting(&l, e.Change); err != nil {
			return nil, err
		}
		if err := s.refuse(ctx, s.DB, &l); err != nil {
			return nil, err
		}
	}
	if e.At == (resolve.Address{}) {
		e.At, _ = s.Resolver.ParseShortURL(s.ShortURL(&l)) // the store makes no other URLs
	}
	at, err := s.Resolver.Resolve(ctx, e.At, s.now(), nil)
	if err != nil {
		return nil, err
	}
	p := routing.NewProgram(l.ID, &l.Settings, urlnorm.Location(l.OriginalURL))
	p.Lifecycle = l.Lifecycle()
	p.WorkspaceDeleted, p.NotFoundURL, p.EndedURL = at.WorkspaceDeleted, at.NotFoundURL, at.EndedURL
	r := s.sampleRequest(e.Visit, l.Routing)
	r.Code, r.Host = e.At.Code, cmp.Or(e.At.Host, s.Resolver.PublicHost())
	r.Exhausted, r.OverQuota = p.Exhausted, e.OverQuota
	p.Exhausted = false
	if r.Unavailable, err = s.usedTargets(ctx, &l); err != nil {
		return nil, err
	}
	isAtRoot := e.At.Slug == "" && e.At.Host == ""
	p.Unknown = isAtRoot && r.Path != "" // its first segment would be a slug
	return routing.Explain(&p, &r), nil
}

// usedTargets returns the ids of the targets of a link that have reached their maxima.
func (s *Store) usedTargets(ctx context.Context, l *Link) (used []string, err error) {
	maxima := l.Routing.MaxClicks()
	if len(maxima) == 0 {
		return nil, nil
	}
	var rows []struct {
		TargetID string
		Granted  int64
	}
	ctx, err = l.In.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	err = s.DB.NewSelect().Table("target_grants").Column("target_id", "granted").Where("link_id = ?", l.ID).
		Where("workspace_id = ?", l.WorkspaceID).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("querying the grants of targets: %w", err)
	}
	for _, row := range rows {
		if most := maxima[row.TargetID]; most != nil && row.Granted >= *most {
			used = append(used, row.TargetID)
		}
	}
	return used, nil
}

// Warnings returns the parts of a link's routing that cannot have their effect on this server.
func (s *Store) Warnings(ctx context.Context, l *Link, around routing.Surroundings) ([]*routing.Warning, error) {
	if l.Routing == nil {
		return nil, nil
	}
	at, err := s.Resolver.ParseShortURL(s.ShortURL(l))
	if err != nil {
		return nil, err
	}
	around.AtRoot = at.Slug == "" && at.Host == ""
	around.IsBrowser, around.IsOS = visitor.IsBrowser, visitor.IsOS
	var urls []string
	for _, u := range l.Routing.URLs() {
		urls = append(urls, u.URL)
	}
	if around.Own, err = s.Destinations.Circular(ctx, s.DB, urls...); err != nil {
		return nil, err
	}
	return l.Routing.Warnings(&around), nil
}

// sampleRequest returns the request that a visit describes.
func (s *Store) sampleRequest(v *routing.Sample, r *routing.Routing) routing.Request {
	return v.Request(routing.Request{Now: s.now(), DrawKey: s.DrawKey}, r, s.readHeaders)
}

// readHeaders implements routing.ReadHeaders.
func (s *Store) readHeaders(agent *string, acceptLanguage, referrer string) routing.Visit {
	v := s.samples().Sample(agent, acceptLanguage, referrer)
	return routing.Visit{
		Device: v.Device, OS: v.OS, Browser: v.Browser, Language: v.LanguageTag, Referrer: v.Referrer, Bot: v.Bot,
	}
}

// runTests runs the tests of a link's routing. It returns InvalidInput for the first that fails.
func (s *Store) runTests(l *Link) error {
	if l.Routing == nil || len(l.Routing.Tests) == 0 {
		return nil
	}
	program := routing.NewProgram(l.ID, &l.Settings, urlnorm.Location(l.OriginalURL))
	for i, test := range l.Routing.Tests {
		p := program
		if test.Visit.At == nil { // the link is active at any instant
			p.Lifecycle = routing.NewLifecycle(nil, nil)
		}
		request := s.sampleRequest(test.Visit, l.Routing)
		if got := routing.Explain(&p, &request).Check(test); got != "" {
			return errs.New(errs.InvalidInput, "The test fails: the link answers %s.", got).
				At("routing", "tests", strconv.Itoa(i))
		}
	}
	return nil
}
