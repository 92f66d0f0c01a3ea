package link

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// maxRouting is the size of the largest routing as JSON, in bytes.
const maxRouting = 64 << 10

// linkURL is a URL of a link's routing.
type linkURL struct {
	bun.BaseModel `bun:"table:link_urls"`

	LinkID      string `bun:",pk"`
	Position    string `bun:",pk"`
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
			LinkID: l.ID, Position: strings.Join(u.Field, "."), WorkspaceID: l.WorkspaceID, Host: canonical.Host(), URL: u.URL,
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
