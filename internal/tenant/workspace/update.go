package workspace

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Change is the input for changing a workspace's settings. Nil fields and fields without Set stay;
// nil resets a field that has Set.
type Change struct {
	Name *string
	// Slug replaces the slug. The old one keeps working and stays reserved.
	Slug *string
	// DefaultStrategy must not be CUSTOM, which needs a code.
	DefaultStrategy       *string
	DefaultRedirectStatus *int
	// RoutingDefaults may change the query, the path, UTM values and the policy of bots.
	RoutingDefaults optional.Edit[*routing.Change]
	NotFoundURL     optional.Edit[*string]
	EndedURL        optional.Edit[*string]
	// Inspectable is false after nil.
	Inspectable optional.Edit[*bool]
	// QRStyle changes the style of QR codes; nil resets it. VerifyQR checks that codes in the
	// changed style can be read.
	QRStyle  optional.Edit[*qr.Change]
	VerifyQR func(context.Context, *qr.Style) error
	// RequireSecondFactor can become true only for a member whose session has a second factor.
	RequireSecondFactor *bool
	// CaseSensitiveCodes can only become false. FoldCodes then gives the custom links of the
	// workspace their code keys: most of them first, and links inserted meanwhile once no more can
	// be inserted.
	CaseSensitiveCodes *bool
	FoldCodes          func(context.Context, bun.Tx) error
	// PrimaryHost locks a verified domain, records that it is chosen, and returns its host; nil
	// selects the instance's own host. It needs WriteDomains, the other fields WriteSettings.
	PrimaryHost func(context.Context, bun.Tx) (*string, error)
}

// Update changes the workspace's settings. It returns InvalidInput, InvalidURL, UnsafeURL,
// SlugTaken, Forbidden, or an error of FoldCodes or PrimaryHost.
func (s *Store) Update(ctx context.Context, m Membership, c Change) (Membership, error) {
	ctx, err := c.enter(ctx, m)
	if err != nil {
		return Membership{}, err
	}
	style, styleErr := s.changedQRStyle(ctx, m, c)
	if err := errs.All(c.check(m.Workspace()), errs.Under(styleErr, "qrStyle")); err != nil {
		return Membership{}, err
	}
	if err := s.checkURLs(ctx, m, c); err != nil {
		return Membership{}, err
	}
	if optional.Value(c.RequireSecondFactor) && m.lacksSecondFactor {
		return Membership{}, errs.New(errs.Forbidden, "Your own session has no second factor: "+proveFactor)
	}
	if style != nil {
		if err := c.VerifyQR(ctx, style); err != nil {
			return Membership{}, errs.Under(err, "qrStyle")
		}
	}
	changed := m
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		changed.row, err = s.update(ctx, tx, m, c, style)
		return err
	})
	if db.IsUniqueViolation(err) { // FoldCodes returns its own as Conflict
		return Membership{}, errSlugTaken()
	}
	if err != nil {
		return Membership{}, fmt.Errorf("changing a workspace: %w", err)
	}
	return changed, nil
}

// enter checks the permissions that the fields of the change need. It returns Forbidden.
func (c Change) enter(ctx context.Context, m Membership) (context.Context, error) {
	settings := c
	settings.PrimaryHost, settings.FoldCodes = nil, nil
	if c.PrimaryHost != nil {
		if err := m.refusal(WriteDomains); err != nil || reflect.ValueOf(settings).IsZero() {
			return m.Enter(ctx, WriteDomains)
		}
	}
	return m.Enter(ctx, WriteSettings)
}

// update writes a change, and returns the changed workspace. It locks a domain before the
// workspace, and the workspace before its slug, as in Create, which avoids deadlocks.
func (s *Store) update(
	ctx context.Context, tx bun.Tx, m Membership, c Change, style *qr.Style,
) (_ *Workspace, err error) {
	var primary *string
	if c.PrimaryHost != nil {
		if primary, err = c.PrimaryHost(ctx, tx); err != nil {
			return nil, err
		}
	}
	w := &Workspace{}
	row := tx.NewSelect().Model(w).Where("id = ?", m.ID())
	if err := s.DB.ForChange(row.Clone()).Scan(ctx); err != nil {
		return nil, err
	}
	before := *w
	if isSensitive := optional.Or(c.CaseSensitiveCodes, w.CaseSensitiveCodes); isSensitive != w.CaseSensitiveCodes {
		if err := c.foldCodes(ctx, tx, w, s.DB.ForUpdate(row)); err != nil {
			return nil, err
		}
	}
	if err := c.apply(w); err != nil {
		return nil, err
	}
	if c.PrimaryHost != nil {
		w.PrimaryHost = primary
	}
	w.UpdatedAt = s.now()
	update := tx.NewUpdate().Model(w).WherePK().Column("name", "slug", "default_strategy", "default_redirect_status",
		"case_sensitive_codes", "routing_defaults", "not_found_url", "ended_url", "inspectable", "qr_style",
		"primary_host",
		"require_second_factor", "updated_at")
	if style != nil {
		if w.QRStyle = style; style.Equal(nil) {
			w.QRStyle = nil
		}
		update.Set("qr_logo = ?", style.Logo)
	}
	if _, err := update.Exec(ctx); err != nil {
		return nil, err
	}
	if c.Slug != nil {
		if err := s.checkSlugChanges(ctx, tx, w, *c.Slug); err != nil {
			return nil, err
		}
		if err := s.reserveSlug(ctx, tx, m.ID(), *c.Slug); err != nil {
			return nil, err
		}
	}
	details := w.details(&before)
	if len(details) == 0 {
		return w, nil
	}
	event := m.Event(s.Now(), audit.WorkspaceUpdated, m.ID(), details)
	return w, audit.Write(ctx, tx, event.WithChanges(w.changes(&before)))
}

// foldCodes makes custom codes equal in any case. It folds most codes before it locks the
// workspace, and then codes created meanwhile. It returns Conflict if they are equal already.
func (c Change) foldCodes(ctx context.Context, tx bun.Tx, w *Workspace, locked *bun.SelectQuery) error {
	if !w.CaseSensitiveCodes {
		return errs.New(errs.Conflict,
			"Upper and lower case do not differ in custom codes, which stays so: short URLs "+
				"may be printed in any case.").At("caseSensitiveCodes")
	}
	if err := c.FoldCodes(ctx, tx); err != nil {
		return err
	}
	if err := locked.Scan(ctx); err != nil {
		return err
	}
	w.CaseSensitiveCodes = false
	return c.FoldCodes(ctx, tx)
}

// apply changes the fields of the workspace that need no look-up. It returns InvalidInput.
func (c Change) apply(w *Workspace) (err error) {
	w.Name, w.Slug = optional.Or(c.Name, w.Name), optional.Or(c.Slug, w.Slug)
	w.DefaultStrategy = optional.Or(c.DefaultStrategy, w.DefaultStrategy)
	w.DefaultRedirectStatus = optional.Or(c.DefaultRedirectStatus, w.DefaultRedirectStatus)
	if c.RoutingDefaults.Set {
		if w.RoutingDefaults, err = check.Apply(c.RoutingDefaults.To, w.RoutingDefaults); err != nil {
			return errs.From(err).Under("routingDefaults")
		}
	}
	c.NotFoundURL.Apply(&w.NotFoundURL)
	c.EndedURL.Apply(&w.EndedURL)
	if c.Inspectable.Set {
		w.Inspectable = optional.Value(c.Inspectable.To)
	}
	w.RequireSecondFactor = optional.Or(c.RequireSecondFactor, w.RequireSecondFactor)
	return nil
}

// details returns the changed settings for the audit log.
func (w *Workspace) details(before *Workspace) audit.Details {
	details := audit.Details{}
	if w.Name != before.Name {
		details["name"] = w.Name
	}
	if w.Slug != before.Slug {
		details["slug"] = w.Slug
	}
	if w.DefaultStrategy != before.DefaultStrategy {
		details["defaultStrategy"] = w.DefaultStrategy
	}
	if w.DefaultRedirectStatus != before.DefaultRedirectStatus {
		details["defaultRedirectStatus"] = w.DefaultRedirectStatus
	}
	if w.CaseSensitiveCodes != before.CaseSensitiveCodes {
		details["caseSensitiveCodes"] = w.CaseSensitiveCodes
	}
	if !w.RoutingDefaults.Equal(before.RoutingDefaults) {
		details["routingDefaults"] = w.RoutingDefaults
	}
	if optional.Value(w.NotFoundURL) != optional.Value(before.NotFoundURL) {
		details["notFoundUrl"] = w.NotFoundURL
	}
	if optional.Value(w.EndedURL) != optional.Value(before.EndedURL) {
		details["endedUrl"] = w.EndedURL
	}
	if w.Inspectable != before.Inspectable {
		details["inspectable"] = w.Inspectable
	}
	if w.RequireSecondFactor != before.RequireSecondFactor {
		details["requireSecondFactor"] = w.RequireSecondFactor
	}
	if !w.QRStyle.Equal(before.QRStyle) {
		details["qrStyle"] = w.QRStyle
	}
	if w.PrimaryHost == nil && before.PrimaryHost != nil { // a new one has an event of its own
		details["primaryHost"] = nil
	}
	return details
}

// changes returns the changed settings for the audit log.
func (w *Workspace) changes(before *Workspace) []*audit.FieldChange {
	return audit.Compare(before.settings(), w.settings())
}

// settings are the fields that the audit log compares, by their names in the API.
func (w *Workspace) settings() []audit.Field {
	return []audit.Field{
		{Name: "name", Value: w.Name}, {Name: "slug", Value: w.Slug},
		{Name: "defaultStrategy", Value: w.DefaultStrategy},
		{Name: "defaultRedirectStatus", Value: w.DefaultRedirectStatus},
		{Name: "caseSensitiveCodes", Value: w.CaseSensitiveCodes},
		{Name: "routingDefaults", Value: w.RoutingDefaults}, {Name: "notFoundUrl", Value: w.NotFoundURL},
		{Name: "endedUrl", Value: w.EndedURL}, {Name: "inspectable", Value: w.Inspectable},
		{Name: "requireSecondFactor", Value: w.RequireSecondFactor},
		{Name: "qrStyle", Value: w.QRStyle}, {Name: "primaryHost", Value: w.PrimaryHost},
		{Name: "hitQuota", Value: w.HitQuota},
		{Name: "linkQuota", Value: w.LinkQuota},
	}
}

// check checks the values of a change, and normalizes them. It returns InvalidInput or InvalidURL.
func (c *Change) check(w *Workspace) error {
	var checks []error
	add := func(field string, err error) { checks = append(checks, errs.Under(err, field)) }
	if c.Name != nil {
		name, err := validate.Line("The name", *c.Name, 1, 100)
		c.Name = &name
		add("name", err)
	}
	if c.Slug != nil {
		checks = append(checks, checkSlug(*c.Slug))
	}
	strategies := []string{"DETERMINISTIC", "COUNTER", "RANDOM"}
	if c.DefaultStrategy != nil && !slices.Contains(strategies, *c.DefaultStrategy) {
		add("defaultStrategy", errs.New(errs.InvalidInput,
			"The default strategy must be DETERMINISTIC, COUNTER or RANDOM: a CUSTOM link needs a code of its own."))
	}
	if c.DefaultRedirectStatus != nil && !slices.Contains([]int{301, 302, 307, 308}, *c.DefaultRedirectStatus) {
		add("defaultRedirectStatus", errs.New(errs.InvalidInput,
			"defaultRedirectStatus must be 301, 302, 307 or 308."))
	}
	if c.RoutingDefaults.Set {
		_, err := check.Apply(c.RoutingDefaults.To, w.RoutingDefaults)
		add("routingDefaults", err)
	}
	for field, url := range c.fallbacks() {
		*url = urlnorm.Trim(*url)
		add(field, check.Fallback(*url))
	}
	return errs.All(checks...)
}

// fallbacks returns the URLs, by field, that a change sets.
func (c *Change) fallbacks() map[string]*string {
	urls := map[string]*string{"notFoundUrl": c.NotFoundURL.To, "endedUrl": c.EndedURL.To}
	maps.DeleteFunc(urls, func(_ string, url *string) bool { return url == nil })
	return urls
}

// checkURLs returns UnsafeURL for URLs that visitors may not be sent to.
func (s *Store) checkURLs(ctx context.Context, m Membership, c Change) error {
	var checks []error
	for field, url := range c.fallbacks() {
		to := destination.Destination{WorkspaceID: m.ID(), URL: *url}
		checks = append(checks, errs.At(s.Destinations.CheckFallback(ctx, s.DB, to), field))
	}
	return errs.All(checks...)
}
