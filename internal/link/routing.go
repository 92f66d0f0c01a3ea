package link

import (
	"cmp"
	"context"
	"reflect"
	"strconv"
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/explain"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// FillTemplates replaces the UTM templates that changes name by their values.
func (s *Store) FillTemplates(ctx context.Context, m workspace.Membership, changes []*routing.Change) error {
	if s.Templates == nil {
		return nil
	}
	var all []**routing.UTM
	for _, c := range changes {
		if c != nil {
			all = append(all, &c.UTM.To)
		}
	}
	return s.Templates.Fill(ctx, m, all...)
}

// ChangeRouting applies a change to the routing of a link. The URLs of a link that the operator has
// disabled because of one cannot change.
func (l *Link) ChangeRouting(c *routing.Change) error {
	after, err := check.Apply(c, l.Routing)
	if err != nil {
		return errs.Under(err, "routing")
	}
	if l.DisabledAt != nil && !reflect.DeepEqual(after.URLs(), l.Routing.URLs()) {
		return ErrDisabledURLs()
	}
	if !after.Equal(l.Routing) { // writeURLs compares pointers
		l.Routing = after
	}
	l.PasswordHash = c.PasswordHash(l.PasswordHash)
	return nil
}

// LinkRouting, LinkRule and LinkTarget are a routing and its parts with their link, which GraphQL
// resolvers use to load statistics.
type (
	LinkRouting struct {
		*routing.Routing
		Link *Link
	}
	LinkRule struct {
		*routing.Rule
		Link *Link
	}
	LinkTarget struct {
		*routing.Target
		Link *Link
	}
)

// LinkRouting returns the routing of the link, which for a plain link has all defaults.
func (l *Link) LinkRouting() *LinkRouting {
	return &LinkRouting{Routing: routing.OrDefaults(l.Routing), Link: l}
}

// LinkRules returns the rules.
func (of *LinkRouting) LinkRules() []LinkRule {
	rules := make([]LinkRule, 0, len(of.Rules))
	for _, rule := range of.Rules {
		rules = append(rules, LinkRule{Rule: rule, Link: of.Link})
	}
	return rules
}

// LinkTargets returns the targets.
func (of *LinkRule) LinkTargets() []LinkTarget {
	targets := make([]LinkTarget, 0, len(of.Targets))
	for _, target := range of.Targets {
		targets = append(targets, LinkTarget{Target: target, Link: of.Link})
	}
	return targets
}

// Program returns the program of an active link without the settings of its workspace and domain.
func (l *Link) Program() routing.Program {
	return routing.NewProgram(l.ID, &l.Settings, urlnorm.Location(l.OriginalURL))
}

// SampleRequest returns the request that a visit describes, at an address of the link. A visit
// without an instant is now.
func (s *Store) SampleRequest(v *routing.Sample, l *Link, at resolve.Address, now time.Time) routing.Request {
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

// RunTests runs the tests of a link's routing. It returns InvalidInput for the first that fails.
// Tests ignore fallback URLs of the workspace and the domain, which change independently of the
// link, and grants. If the target is drawn, the location of any candidate passes.
func (s *Store) RunTests(l *Link) error { return s.runTestsAt(l, s.now()) }

// runTestsAt is RunTests at an instant, which tests without one use.
func (s *Store) runTestsAt(l *Link, now time.Time) error {
	if l.Routing == nil || len(l.Routing.Tests) == 0 {
		return nil
	}
	program, at := l.Program(), s.Address(l)
	for i, test := range l.Routing.Tests {
		p := program
		if test.Visit.At == nil { // then startsAt and expiresAt do not count
			p.Lifecycle = routing.NewLifecycle(nil, nil)
		}
		request := s.SampleRequest(test.Visit, l, at, now)
		request.DrawKey = nil
		if got := explain.Decision(&p, &request).Check(test); got != "" {
			return errs.New(errs.InvalidInput, "The test fails: the link answers %s.", got).
				At("routing", "tests", strconv.Itoa(i))
		}
	}
	return nil
}
