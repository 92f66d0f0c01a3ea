package resolve

import (
	"context"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// Host is a slug or a verified domain: whose it is and, of a domain, how it answers requests that
// are not for links. Empty URLs are not set.
type Host struct {
	WorkspaceID string
	// The URLs are safe for headers; RootURL, NotFoundURL and EndedURL may have placeholders.
	RootURL, NotFoundURL, EndedURL, FaviconURL string
	// Indexable lets search engines index the short URLs.
	Indexable bool
	// OwnID is the id of a domain with codes of its own, case-sensitive or not; empty for others.
	OwnID         string
	CaseSensitive bool
}

// Document is an app association document of a domain, by its column.
type Document string

// The documents.
const (
	AppleAppSiteAssociation Document = "apple_app_site_association"
	AssetLinks              Document = "asset_links"
)

// documents is the space of subjects of documents. Their names are a host and a column.
const documents = "%"

// Host returns the settings of a host; ok is false if it is no verified domain. A domain of a
// deleted workspace has no settings. An error means that the database is unavailable, or is
// ErrNotAdmitted.
func (s *Resolver) Host(ctx context.Context, host string, now time.Time, admit Admit) (h Host, ok bool, err error) {
	h, isDeleted, err := s.hostOf(ctx, host, now, admit)
	if isDeleted {
		h = Host{WorkspaceID: h.WorkspaceID}
	}
	return h, h.WorkspaceID != "", err
}

// hostOf returns the stored settings of a host, and whether its workspace is deleted.
func (s *Resolver) hostOf(
	ctx context.Context, host string, now time.Time, admit Admit,
) (h Host, isDeleted bool, err error) {
	if h, err = s.placeOf(ctx, Address{Host: host}, now, admit); err != nil || h.WorkspaceID == "" {
		return Host{}, false, err
	}
	owner, err := s.settingsOf(ctx, h.WorkspaceID, now, admit)
	if err != nil {
		return Host{}, false, err
	}
	return h, owner.isGone, nil
}

// Document returns a document of a host; empty if it is not set, or if the workspace is deleted. ok
// is false if the host is no verified domain. An error means that the database is unavailable, or
// is ErrNotAdmitted.
func (s *Resolver) Document(
	ctx context.Context, host string, d Document, now time.Time, admit Admit,
) (text string, ok bool, err error) {
	if !isHost(host) || host == "" {
		return "", false, nil
	}
	h, isDeleted, err := s.hostOf(ctx, host, now, admit)
	if ok = h.WorkspaceID != ""; err != nil || isDeleted || !ok {
		return "", ok, err
	}
	kind, rest, err := s.lookUp(ctx, subject{documents, host + "/" + string(d)}, now, admit)
	if err != nil || kind == entryAbsent {
		return "", true, err
	}
	return string(rest), true, nil
}

// domainRow has the columns of a domain that requests need.
type domainRow struct {
	WorkspaceID, OwnID                         string
	RootURL, NotFoundURL, EndedURL, FaviconURL *string
	Indexable, CaseSensitive                   bool
}

// location returns a URL as a header may have it.
func location(url *string) string {
	if url == nil {
		return ""
	}
	return urlnorm.Location(*url)
}

// hasOwnCodes is the SQL condition of domains with codes of their own.
const hasOwnCodes = "code_space = 'OWN'"

func (s *Resolver) queryHost(ctx context.Context, at subject) (entry, error) {
	var row domainRow
	err := s.Place(Address{Host: at.name}).
		Column("root_url", "not_found_url", "ended_url", "favicon_url", "indexable").Scan(ctx, &row)
	if err != nil {
		return "", err
	}
	h := Host{
		WorkspaceID: row.WorkspaceID, RootURL: location(row.RootURL), NotFoundURL: location(row.NotFoundURL),
		EndedURL: location(row.EndedURL), FaviconURL: location(row.FaviconURL), Indexable: row.Indexable,
		OwnID: row.OwnID, CaseSensitive: row.CaseSensitive && row.OwnID != "",
	}
	if h == (Host{WorkspaceID: h.WorkspaceID}) {
		return placeEntry(at, h.WorkspaceID), nil
	}
	return hostEntry(at, &h), nil
}

func (s *Resolver) queryDocument(ctx context.Context, at subject) (entry, error) {
	host, column, _ := strings.Cut(at.name, "/")
	var text *string
	err := s.DB.NewSelect().Table("domains").Column(column).Where("host = ?", host).Where("verified_at IS NOT NULL").
		Scan(ctx, &text)
	switch {
	case err != nil:
		return "", err
	case text == nil:
		return absence(at, s.Now()), nil
	}
	return documentEntry(at, *text), nil
}
