package moderation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// maxNamed bounds the links with a code that an error lists.
const maxNamed = 10

// named returns the ID of the link that an operator names by its ID, its short URL, as in a report
// and with or without a scheme, or its code. It returns NotFound, or Conflict for a code that several
// links have: none of them is meant then.
func (s *Store) named(ctx context.Context, name string) (string, error) {
	name = strings.TrimSpace(name)
	if id.Valid(id.Link, name) {
		return name, nil
	}
	if _, err := validate.Opaque("The link", name, 1, maxName); err != nil {
		return "", errNoSuchLink()
	}
	found, err := s.byShortURL(ctx, name)
	if err != nil || found != "" {
		return found, err
	}
	all, err := s.withCode(ctx, name)
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", errNoSuchLink()
	case len(all) > 1:
		return "", errs.New(errs.Conflict, "Several links have this code: %s. Name one by its short URL or its id: "+
			"linkforge links find.", strings.Join(all[:min(len(all), maxNamed)], ", "))
	}
	return all[0], nil
}

// maxName bounds the name of a link, in bytes.
const maxName = 2048

// byShortURL returns the link of a short URL, or of the one whose inspection page or QR code the URL
// shows; nothing if there is none.
func (s *Store) byShortURL(ctx context.Context, name string) (string, error) {
	if !strings.Contains(name, "/") {
		return "", nil
	}
	if !strings.Contains(name, "://") {
		name = "https://" + name
	}
	for _, suffix := range []string{"", "+", ".svg", ".png"} {
		shortURL, hasSuffix := strings.CutSuffix(name, suffix)
		if !hasSuffix {
			continue
		}
		at, err := s.Links.Resolver.ParseShortURL(shortURL)
		if err != nil {
			return "", nil //nolint:nilerr // it is no URL
		}
		l, err := s.Links.At(ctx, at)
		if err == nil {
			return l.ID, nil
		}
		if !errs.Is(err, errs.NotFound) {
			return "", err
		}
	}
	return "", nil
}

// withCode returns the links with a code in any workspace: their IDs, oldest first.
func (s *Store) withCode(ctx context.Context, code string) (all []string, err error) {
	var links []*link.Link
	err = s.DB.NewSelect().Model(&links).Column("id", "code", "code_key", "own_address").
		Where("purged_at IS NULL").
		Where(`code = ? OR code_key = ? OR own_address LIKE ? ESCAPE '\'`, code, shortcode.Key(code),
			"%/"+db.EscapeLike(code)).
		Order("id").Scan(db.AsSystem(ctx))
	if err != nil {
		return nil, fmt.Errorf("selecting links: %w", err)
	}
	// A code of a domain may end like another one.
	links = slices.DeleteFunc(links, func(l *link.Link) bool {
		return l.OwnAddress != nil && l.ShownCode() != code && l.Code != code
	})
	for _, l := range links {
		all = append(all, l.ID)
	}
	return all, nil
}
