package link

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/resolve"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/routing/check"
	"github.com/linkforge/linkforge/internal/routing/explain"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/visitor"
	"github.com/linkforge/linkforge/internal/workspace"
)

// ExplainRequest selects a link, one of its short URLs and a visit to simulate. Only Link is required.
type ExplainRequest struct {
	Link  *Link
	At    resolve.Address
	Visit *routing.Sample
	// Change is a change of the routing to try.
	Change *routing.Change
	// OverQuota means that the monthly hits are used up.
	OverQuota bool
}

// Explain returns the answer of a link to a visit, and the reason. Scheduled changes that are due by the visit
// have taken effect. It consumes nothing. It returns InvalidInput for the visit, and the errors of an update for the
// change.
func (s *Store) Explain(ctx context.Context, e ExplainRequest) (*explain.Explanation, error) {
	if e.Visit == nil {
		e.Visit = &routing.Sample{}
	}
	if err := check.Sample(e.Visit); err != nil {
		return nil, errs.From(err).Under("visit")
	}
	l := *e.Link
	if e.Change != nil {
		if err := s.fillTemplates(ctx, l.In, []*routing.Change{e.Change}); err != nil {
			return nil, err
		}
		assumePassword(e.Change)
		if err := l.ChangeRouting(e.Change); err != nil {
			return nil, err
		}
		if err := s.RunTests(&l); err != nil {
			return nil, err
		}
		if err := s.Refuse(ctx, s.DB, &l); err != nil {
			return nil, err
		}
	}
	if err := s.advance(ctx, &l, optional.Or(e.Visit.At, s.now())); err != nil {
		return nil, err
	}
	if e.At == (resolve.Address{}) {
		e.At, _ = s.Resolver.ParseShortURL(s.ShortURL(&l)) // the store makes no other URLs
	}
	at, err := s.Resolver.Resolve(ctx, e.At, s.now(), nil)
	if err != nil {
		return nil, err
	}
	p := l.program()
	p.Lifecycle = l.Lifecycle()
	p.WorkspaceDeleted, p.NotFoundURL, p.EndedURL = at.WorkspaceDeleted, at.NotFoundURL, at.EndedURL
	r := s.sampleRequest(e.Visit, &l, e.At)
	r.Exhausted, r.OverQuota, p.Exhausted = p.Exhausted, e.OverQuota, false
	if r.ExhaustedTargets, err = s.exhaustedTargets(ctx, &l); err != nil {
		return nil, err
	}
	if isAtRoot := e.At.Slug == "" && e.At.Host == ""; isAtRoot && r.Path != "" && r.Path != "/" {
		p.Unknown, p.NotFoundURL = true, "" // its first segment is an unknown slug
	}
	return explain.Decision(&p, &r), nil
}

// advance gives a link the state that it will have at an instant, by its pending changes. It has those that
// are due now.
func (s *Store) advance(ctx context.Context, l *Link, at time.Time) error {
	now := s.now()
	if l.NextChangeAt == nil || l.NextChangeAt.After(at) {
		return nil
	}
	ctx, err := l.In.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return err
	}
	if err := loadPending(ctx, s.DB, l); err != nil {
		return err
	}
	for _, c := range l.pending {
		if c.isDue(at) && !c.isDue(now) {
			l.applyPatch(&c.Patch, c.DueAt)
		}
	}
	return nil
}

// program returns the program of an active link without the settings of its workspace and domain.
func (l *Link) program() routing.Program {
	return routing.NewProgram(l.ID, &l.Settings, urlnorm.Location(l.OriginalURL))
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
	granted, err := grantedBy(ctx, s.DB, slices.Collect(maps.Keys(maxima)))
	for target, maximum := range maxima {
		if granted[target] >= *maximum {
			ids = append(ids, target)
		}
	}
	return ids, err
}

// Warnings returns the parts of a link's routing that cannot have their effect on this server.
func (s *Store) Warnings(ctx context.Context, l *Link, around check.WarningContext) ([]*check.Warning, error) {
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
	return check.Warnings(l.Routing, &around), nil
}

// sampleRequest returns the request that a visit describes, at an address of the link.
func (s *Store) sampleRequest(v *routing.Sample, l *Link, at resolve.Address) routing.Request {
	return s.sampleRequestAt(v, l, at, s.now())
}

func (s *Store) sampleRequestAt(v *routing.Sample, l *Link, at resolve.Address, now time.Time) routing.Request {
	base := routing.Request{
		Now: now, DrawKey: s.DrawKey, Code: at.Code, Host: cmp.Or(at.Host, s.Resolver.PublicHost()),
	}
	return explain.Request(v, base, l.Routing, s.readHeaders)
}

// readHeaders implements explain.ReadHeaders.
func (s *Store) readHeaders(agent *string, acceptLanguage, referrer string) routing.Visit {
	v := s.samples().Sample(agent, acceptLanguage, referrer)
	return routing.Visit{
		Device: v.Device, OS: v.OS, Browser: v.Browser, Referrer: v.Referrer, Bot: v.Bot,
		Languages:      visitor.Languages(acceptLanguage),
		PreviewCrawler: agent != nil && visitor.IsPreviewCrawler(*agent),
	}
}

// RunTests runs the tests of a link's routing. It returns InvalidInput for the first that fails. Tests
// ignore fallback URLs of the workspace and the domain, which change independently of the link, and
// grants. If the target is drawn, the location of any candidate passes.
func (s *Store) RunTests(l *Link) error { return s.runTestsAt(l, s.now()) }

// runTestsAt is runTests at another instant, which tests without one use.
func (s *Store) runTestsAt(l *Link, now time.Time) error {
	if l.Routing == nil || len(l.Routing.Tests) == 0 {
		return nil
	}
	program, at := l.program(), resolve.Address{Code: l.Code, Host: optional.Value(l.In.Workspace().PrimaryHost)}
	for i, test := range l.Routing.Tests {
		p := program
		if test.Visit.At == nil { // then startsAt and expiresAt do not count
			p.Lifecycle = routing.NewLifecycle(nil, nil)
		}
		request := s.sampleRequestAt(test.Visit, l, at, now)
		request.DrawKey = nil
		if got := explain.Decision(&p, &request).Check(test); got != "" {
			return errs.New(errs.InvalidInput, "The test fails: the link answers %s.", got).
				At("routing", "tests", strconv.Itoa(i))
		}
	}
	return nil
}
