package domain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxDocument is the size of the largest app association document, in bytes.
const maxDocument = 128 << 10

// Settings are how a domain answers requests that are not for links. Nil URLs and documents are not
// set.
type Settings struct {
	// RootURL is where the root redirects, NotFoundURL where unknown links do, and EndedURL where
	// ended ones do. FaviconURL is where the icon is.
	RootURL     *string
	NotFoundURL *string
	EndedURL    *string
	FaviconURL  *string
	// Indexable lets search engines index the short URLs.
	Indexable bool
	// AppleAppSiteAssociation is a JSON object, AssetLinks a JSON array.
	AppleAppSiteAssociation *string
	AssetLinks              *string
}

// settingColumns are the columns of Settings.
var settingColumns = []string{
	"root_url", "not_found_url", "ended_url", "favicon_url", "indexable", "apple_app_site_association", "asset_links",
}

// Change is the input for changing a domain's settings. Fields without Set stay; nil resets a
// field.
type Change struct {
	RootURL, NotFoundURL, EndedURL, FaviconURL optional.Edit[*string]
	Indexable                                  optional.Edit[*bool]
	AppleAppSiteAssociation, AssetLinks        optional.Edit[*string]
}

// Update changes the settings of a domain. It returns NotFound, InvalidInput, InvalidURL, UnsafeURL
// or Forbidden.
func (s *Store) Update(
	ctx context.Context, m workspace.Membership, domainID string, c Change,
) (changed *Domain, err error) {
	ctx, err = m.Enter(ctx, workspace.WriteDomains)
	if err != nil {
		return nil, err
	}
	if err := s.checkSettings(ctx, m, c); err != nil {
		return nil, err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if changed, err = s.lock(ctx, tx, m, domainID); err != nil {
			return err
		}
		before := changed.Settings
		c.apply(&changed.Settings)
		changes, fields := changed.changes(&before)
		if len(fields) == 0 {
			return nil
		}
		if _, err := tx.NewUpdate().Model(changed).Column(settingColumns...).WherePK().Exec(ctx); err != nil {
			return err
		}
		details := audit.Details{"host": changed.Host, "fields": fields}
		return audit.Write(ctx, tx, m.Event(s.Now(), audit.DomainUpdated, domainID, details).WithChanges(changes))
	})
	if err != nil {
		return nil, fmt.Errorf("changing a domain: %w", err)
	}
	return changed, nil
}

func (c *Change) apply(to *Settings) {
	c.RootURL.Apply(&to.RootURL)
	c.NotFoundURL.Apply(&to.NotFoundURL)
	c.EndedURL.Apply(&to.EndedURL)
	c.FaviconURL.Apply(&to.FaviconURL)
	c.AppleAppSiteAssociation.Apply(&to.AppleAppSiteAssociation)
	c.AssetLinks.Apply(&to.AssetLinks)
	if c.Indexable.Set {
		to.Indexable = optional.Value(c.Indexable.To)
	}
}

// changes returns the fields that differ, and their names.
func (s *Settings) changes(before *Settings) (changes []*audit.FieldChange, fields []string) {
	changes = audit.Compare(before.fields(), s.fields())
	for _, c := range changes {
		fields = append(fields, c.Field)
	}
	return changes, fields
}

// fields are the settings by their names in the API.
func (s *Settings) fields() []audit.Field {
	return []audit.Field{
		{Name: "rootUrl", Value: s.RootURL}, {Name: "notFoundUrl", Value: s.NotFoundURL},
		{Name: "endedUrl", Value: s.EndedURL}, {Name: "faviconUrl", Value: s.FaviconURL},
		{Name: "appleAppSiteAssociation", Value: s.AppleAppSiteAssociation}, {Name: "assetLinks", Value: s.AssetLinks},
		{Name: "indexable", Value: s.Indexable},
	}
}

// checkSettings validates a change. It returns InvalidInput, InvalidURL or UnsafeURL.
func (s *Store) checkSettings(ctx context.Context, m workspace.Membership, c Change) error {
	var syntax, refused []error
	for _, u := range []struct {
		field string
		url   *string
		parse func(string) error
		check func(context.Context, bun.IDB, destination.Destination) error
	}{
		{"rootUrl", c.RootURL.To, check.Fallback, s.Destinations.CheckFallback},
		{"notFoundUrl", c.NotFoundURL.To, check.Fallback, s.Destinations.CheckFallback},
		{"endedUrl", c.EndedURL.To, check.Fallback, s.Destinations.CheckFallback},
		{"faviconUrl", c.FaviconURL.To, checkIcon, s.Destinations.Check},
	} {
		if u.url == nil {
			continue
		}
		*u.url = urlnorm.Trim(*u.url)
		err := errs.At(u.parse(*u.url), u.field)
		if syntax = append(syntax, err); err == nil {
			to := destination.Destination{WorkspaceID: m.ID(), URL: *u.url}
			refused = append(refused, errs.At(u.check(ctx, s.DB, to), u.field))
		}
	}
	syntax = append(syntax,
		errs.At(checkDocument(c.AppleAppSiteAssociation.To, "{", "object"), "appleAppSiteAssociation"),
		errs.At(checkDocument(c.AssetLinks.To, "[", "array"), "assetLinks"))
	if err := errs.All(syntax...); err != nil {
		return err
	}
	return errs.All(refused...)
}

// checkIcon returns InvalidURL for what is no URL.
func checkIcon(url string) error {
	_, err := urlnorm.Canonical(url)
	if refused, ok := errors.AsType[*urlnorm.Error](err); ok {
		return errs.New(errs.InvalidURL, "%s", refused.Reason)
	}
	return err
}

// checkDocument validates a JSON document that begins with a bracket. It returns InvalidInput.
func checkDocument(document *string, bracket, kind string) error {
	switch {
	case document == nil:
		return nil
	case len(*document) > maxDocument:
		return errs.New(errs.InvalidInput, "The document must have at most %d KiB.", maxDocument>>10)
	case !json.Valid([]byte(*document)) || !strings.HasPrefix(strings.TrimSpace(*document), bracket):
		return errs.New(errs.InvalidInput, "The document must be a JSON %s.", kind)
	}
	return nil
}

// ClearURLs removes the matching URLs from all domains for the operator, and returns how many.
func (s *Store) ClearURLs(ctx context.Context, matches func(url string) bool) (cleared int, err error) {
	ctx = db.AsSystem(ctx)
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var all []*Domain
		q := tx.NewSelect().Model(&all).Order("id").
			Where("root_url IS NOT NULL OR not_found_url IS NOT NULL OR ended_url IS NOT NULL OR favicon_url IS NOT " +
				"NULL")
		if err := s.DB.ForUpdate(q).Scan(ctx); err != nil {
			return err
		}
		cleared = 0
		for _, d := range all {
			before := d.Settings
			for _, url := range []**string{&d.RootURL, &d.NotFoundURL, &d.EndedURL, &d.FaviconURL} {
				if *url != nil && matches(**url) {
					*url = nil
				}
			}
			changes, fields := d.changes(&before)
			if len(fields) == 0 {
				continue
			}
			cleared += len(fields)
			if _, err := tx.NewUpdate().Model(d).Column(settingColumns...).WherePK().Exec(ctx); err != nil {
				return err
			}
			details := audit.Details{"host": d.Host, "fields": fields}
			event := audit.New(d.WorkspaceID, "", audit.DomainUpdated, d.ID, details, s.Now())
			if err := audit.Write(ctx, tx, event.WithChanges(changes)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("clearing URLs of domains: %w", err)
	}
	return cleared, nil
}
