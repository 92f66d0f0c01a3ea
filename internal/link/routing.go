package link

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/resolve"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/visitor"
	"github.com/linkforge/linkforge/internal/workspace"
)

// maxRouting is the size of the largest routing as JSON, in bytes.
const maxRouting = 64 << 10

// linkURL is a URL of a link's routing.
type linkURL struct {
	bun.BaseModel `bun:"table:link_urls"`

	LinkID      string `bun:",pk"`
	Field       string `bun:",pk"`
	WorkspaceID string
	// Host is canonical.
	Host string
	URL  string
}

// targetGrant has the maximum of a target. Package hitquota counts what is granted.
type targetGrant struct {
	bun.BaseModel `bun:"table:target_grants"`

	TargetID    string `bun:",pk"`
	LinkID      string
	WorkspaceID string
	MaxClicks   *int64
}

// setRouting gives a new link its routing. Absent fields have the workspace's defaults.
func (s *Store) setRouting(l *Link, c *routing.Change) error {
	l.Routing = l.In.Workspace().RoutingDefaults
	if c == nil {
		return nil
	}
	return s.changeRouting(l, c)
}

// fillTemplates replaces the UTM templates that changes name by their values.
func (s *Store) fillTemplates(ctx context.Context, m workspace.Membership, changes []*routing.Change) error {
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

// changeRouting applies a change to the routing of a link, and runs its tests.
func (s *Store) changeRouting(l *Link, c *routing.Change) error {
	after, err := c.Apply(l.Routing)
	if err != nil {
		e := errs.From(err)
		return e.At(append([]string{"routing"}, e.Field...)...)
	}
	if !after.Equal(l.Routing) { // else the same pointer says that nothing has changed
		l.Routing = after
	}
	return s.runTests(l)
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

// writeRouting writes the URLs and the maxima of targets of links whose routing has changed.
func writeRouting(ctx context.Context, tx bun.Tx, changes []change) error {
	var stale []string
	var urls []linkURL
	var grants []targetGrant
	for _, c := range changes {
		if c.after.Routing == c.before.Routing {
			continue
		}
		if c.before.Routing != nil {
			stale = append(stale, c.after.ID)
		}
		urls = append(urls, c.after.urlRows()...)
		grants = append(grants, c.grantRows()...)
	}
	if len(stale) > 0 {
		if _, err := tx.NewDelete().Model((*linkURL)(nil)).Where("link_id IN (?)", bun.In(stale)).Exec(ctx); err != nil {
			return fmt.Errorf("removing the URLs of links: %w", err)
		}
	}
	if err := db.InsertRows(ctx, tx, db.Insert{}, urls); err != nil {
		return fmt.Errorf("adding the URLs of links: %w", err)
	}
	const raise = "ON CONFLICT (target_id) DO UPDATE SET max_clicks = excluded.max_clicks"
	if err := db.InsertRows(ctx, tx, db.Insert{Rest: raise}, grants); err != nil {
		return fmt.Errorf("writing the maxima of targets: %w", err)
	}
	return nil
}

// urlRows returns the URLs of the link's routing.
func (l *Link) urlRows() (rows []linkURL) {
	for _, u := range l.Routing.URLs() {
		canonical, err := urlnorm.Canonical(u.URL)
		if err != nil { // Check refuses it
			continue
		}
		rows = append(rows, linkURL{
			LinkID: l.ID, Field: strings.Join(u.Field, "."), WorkspaceID: l.WorkspaceID, Host: canonical.Host(), URL: u.URL,
		})
	}
	return rows
}

// grantRows returns the rows of targets that have a maximum, or had one before.
func (c *change) grantRows() (rows []targetGrant) {
	after := c.after.Routing.MaxClicks()
	for target := range c.before.Routing.MaxClicks() {
		if _, ok := after[target]; !ok {
			after[target] = nil
		}
	}
	for target, maxClicks := range after {
		rows = append(rows, targetGrant{
			TargetID: target, LinkID: c.after.ID, WorkspaceID: c.after.WorkspaceID, MaxClicks: maxClicks,
		})
	}
	return rows
}

// RoutingOf, RuleOf and TargetOf are a routing and its parts with the link that they belong to, for
// callers who look up its statistics.
type (
	RoutingOf struct {
		*routing.Routing
		Link *Link
	}
	RuleOf struct {
		*routing.Rule
		Link *Link
	}
	TargetOf struct {
		*routing.Target
		Link *Link
	}
)

// RoutingOf returns the routing of the link, which for a plain link has all defaults.
func (l *Link) RoutingOf() *RoutingOf {
	return &RoutingOf{Routing: routing.OrDefaults(l.Routing), Link: l}
}

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
	r.Code, r.Host = e.At.Code, cmp.Or(e.At.Host, s.publicHost())
	r.Exhausted, r.OverQuota = p.Exhausted, e.OverQuota
	p.Exhausted = false
	isAtRoot := e.At.Slug == "" && e.At.Host == ""
	p.Unknown = isAtRoot && r.Path != "" // its first segment would be a slug
	return routing.Explain(&p, &r), nil
}

// publicHost returns the host of the instance.
func (s *Store) publicHost() string {
	u, err := urlnorm.Canonical(s.PublicURL)
	if err != nil { // NewStore refuses it
		return ""
	}
	return u.Host()
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
