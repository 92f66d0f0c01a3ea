package link

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// Config configures a Store.
type Config struct {
	// DB is the database.
	DB *db.DB
	// Feed has the changes of all nodes.
	Feed *feed.Feed
	// PublicURL is the origin that short URLs start with.
	PublicURL string
	// IsOwnHost is that of resolve.Config.
	IsOwnHost func(host string) bool
	// Destinations decides which URLs links may have. Nil Own means the host of PublicURL.
	Destinations destination.Checker
	// Templates may be nil: then no routing can name one.
	Templates *folder.TemplateStore
	// Passwords hashes the passwords of gates.
	Passwords Passwords
	// DrawKey distinguishes visitors in draws, see routing.DrawKey.
	DrawKey []byte
	// NotFoundURL is where unknown codes at the root are redirected; empty means nowhere.
	NotFoundURL string
	// CacheBytes bounds the cache of the Resolver; zero means 64 MiB.
	CacheBytes int64
	Clicks     Clicks
	Log        *slog.Logger
	Now        func() time.Time
}

// Clicks is what this package needs of packages ingest and clickstore.
type Clicks interface {
	// Flush waits until the clicks that this node has recorded are in the database.
	Flush(ctx context.Context) error
	// Move moves a link's clicks to another workspace, including those not yet written.
	Move(ctx context.Context, tx bun.Tx, linkID, workspaceID string) error
}

// Store stores links.
type Store struct {
	Config
	// Resolver caches links by address. The store invalidates links that it changes.
	Resolver *resolve.Resolver
	// Candidate returns the code of a URL in a workspace for one salt.
	Candidate func(canonical, workspaceID string, salt int) string
	// samples returns the reader of the headers of sample visits.
	samples func() *visitor.Reader
}

// NewStore returns a Store. It returns an error when the public URL is not one.
func NewStore(c Config) (*Store, error) {
	resolver, err := resolve.New(resolve.Config{
		DB: c.DB, Feed: c.Feed, PublicURL: c.PublicURL, IsOwnHost: c.IsOwnHost, NotFoundURL: c.NotFoundURL,
		CacheBytes: c.CacheBytes, Log: c.Log, Now: c.Now,
	})
	if err != nil {
		return nil, err
	}
	if c.Destinations.DB = c.DB; c.Destinations.Own == nil {
		if c.Destinations.Own, err = destination.NewOwnHosts(c.PublicURL); err != nil {
			return nil, err
		}
	}
	return &Store{
		Config: c, Resolver: resolver, Candidate: shortcode.Deterministic,
		samples: sync.OnceValue(func() *visitor.Reader { return visitor.NewReader(nil) }),
	}, nil
}

// ShortURL returns the link's short URL: at its domain, or else at the primary host of its
// workspace, if it has one.
func (s *Store) ShortURL(l *Link) string {
	if host := l.In.Workspace().PrimaryHost; host != nil && l.OwnAddress == nil {
		return "https://" + *host + "/" + l.Code
	}
	return s.ShortURLBelow(l.In.Slug(), l)
}

// ShortURLBelow returns the short URL of a link at its domain, or else at the instance itself,
// where its workspace has the slug.
func (s *Store) ShortURLBelow(slug string, l *Link) string {
	switch {
	case l.OwnAddress != nil:
		return "https:/" + (&url.URL{Path: "/" + *l.OwnAddress}).EscapedPath()
	case l.RootCode != nil:
		return s.PublicURL + "/" + l.Code
	}
	return s.PublicURL + "/" + slug + "/" + l.Code
}

// Address returns the address in the link's short URL.
func (s *Store) Address(l *Link) resolve.Address {
	if l.OwnAddress != nil {
		host, code, _ := strings.Cut(*l.OwnAddress, "/")
		return resolve.OwnAddress(host, code)
	}
	at, _ := s.Resolver.ParseShortURL(s.ShortURL(l)) // the store makes no other URLs
	return at
}

// QRText returns the text of a QR code of the link: its short URL, with a source that its routing
// declares; an empty source means none. It returns InvalidInput.
func (s *Store) QRText(l *Link, source string) (string, error) {
	if source != "" && (l.Routing == nil || !slices.Contains(l.Routing.QRSources, source)) {
		return "", errs.New(errs.InvalidInput, "The link does not declare this source. Add it to routing.qrSources.").
			At("source")
	}
	return routing.WithSource(s.ShortURL(l), source), nil
}

// At returns the link that redirects at an address, or would in another state, from the database.
// It returns NotFound.
func (s *Store) At(ctx context.Context, a resolve.Address) (*Link, error) {
	return s.AtPlace(ctx, a, s.Resolver.Place(a))
}

// AtPlace is At for an address whose slug or host is what a query like resolve.Place selects.
func (s *Store) AtPlace(ctx context.Context, a resolve.Address, query *bun.SelectQuery) (*Link, error) {
	if !a.IsPlausible() {
		return nil, ErrNotFound()
	}
	ctx = db.AsResolver(ctx)
	var place resolve.Host
	var owner any = query
	if a.Host != "" {
		if err := query.Scan(ctx, &place); err != nil {
			return nil, db.NoRowsAs(ErrNotFound(), err, "looking up the owner of a host")
		}
		owner = place.WorkspaceID
	}
	for at := range a.Interpret(place.OwnID != "").Candidates() {
		code, isCode := at.StoredCode(&place)
		l := &Link{}
		q := s.DB.NewSelect().Model(l)
		switch {
		case !isCode:
			continue
		case place.OwnID != "":
			q = q.Where("workspace_id = ?", owner).Where("code = ?", code)
		case at.Slug == "" && at.Host == "":
			q = q.Where("root_code = ?", code)
		default:
			q = q.Where("id = (?)", s.Resolver.WithCode(owner, code))
		}
		err := q.Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err == nil {
			err = Complete(ctx, s.DB, s.now(), l)
		}
		if err != nil {
			return nil, fmt.Errorf("selecting a link by its address: %w", err)
		}
		if at.Path == "" || at.Path == "/" || l.Routing != nil && l.Routing.ForwardPath {
			return l, nil
		}
	}
	return nil, ErrNotFound()
}

// Pasted returns the link of any workspace that a text names, as people copy it: see
// resolve.ParsePasted. A plus sign at the end is that of its stats page. It returns NotFound.
func (s *Store) Pasted(ctx context.Context, text, slug string) (*Link, error) {
	at, err := s.Resolver.ParsePasted(text, slug)
	if err != nil {
		return nil, err
	}
	l, err := s.At(ctx, at)
	if errs.Is(err, errs.NotFound) && strings.HasSuffix(at.Code, "+") {
		l, err = s.At(ctx, at.TrimSuffix("+"))
	}
	return l, err
}

// Forget removes changed links from this node's cache.
func (s *Store) Forget(links ...*Link) {
	for _, l := range links {
		s.Resolver.Forget(l.WorkspaceID, l.Code)
	}
}

// WorkspaceOf returns the workspace of a link. It checks no permission: see
// workspace.Store.Require. It returns NotFound.
func (s *Store) WorkspaceOf(ctx context.Context, linkID string) (string, error) {
	spaces, err := s.WorkspacesOf(ctx, linkID)
	if err != nil {
		return "", err
	}
	workspaceID, known := spaces[linkID]
	if !known {
		return "", ErrNotFound()
	}
	return workspaceID, nil
}

// ValidIDs returns those of the ids that a link can have.
func ValidIDs(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(linkID string) bool { return !id.Valid(id.Link, linkID) })
}

// WorkspacesOf returns the workspaces of links by the links' ids. Unknown ids are omitted.
func (s *Store) WorkspacesOf(ctx context.Context, ids ...string) (map[string]string, error) {
	ids = ValidIDs(ids)
	if len(ids) == 0 {
		return map[string]string{}, nil
	}
	var links []*Link
	err := s.DB.NewSelect().Model(&links).Column("id", "workspace_id").Where("id IN (?)", bun.In(ids)).
		Where("purged_at IS NULL").Scan(db.AsResolver(ctx))
	if err != nil {
		return nil, fmt.Errorf("selecting the workspaces of links: %w", err)
	}
	spaces := make(map[string]string, len(links))
	for _, l := range links {
		spaces[l.ID] = l.WorkspaceID
	}
	return spaces, nil
}

// Get returns a link, in any state but purged. It returns NotFound.
func (s *Store) Get(ctx context.Context, m workspace.Membership, linkID string) (*Link, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	if !id.Valid(id.Link, linkID) {
		return nil, ErrNotFound()
	}
	return s.find(ctx, m, "id = ?", linkID)
}

// ByExternalID returns the link with the caller's own id, in any state but purged. It returns
// NotFound.
func (s *Store) ByExternalID(ctx context.Context, m workspace.Membership, externalID string) (*Link, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	normal := validate.Normal(externalID)
	if !utf8.ValidString(normal) || strings.ContainsRune(normal, 0) { // no database stores it
		return nil, ErrNotFound()
	}
	return s.find(ctx, m, "external_id = ?", normal)
}

// ByCode returns the link that the code has in the workspace, or at a domain with codes of its own,
// in any state but purged: see resolve.WithCode and resolve.WithOwnCode. It returns NotFound.
func (s *Store) ByCode(ctx context.Context, m workspace.Membership, code string, domainID *string) (*Link, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	if domainID != nil && id.Valid(id.Domain, *domainID) {
		return s.find(ctx, m, "code = (?)", s.Resolver.WithOwnCode(m.ID(), *domainID, code))
	}
	if domainID != nil || !shortcode.IsCode(code) {
		return nil, ErrNotFound()
	}
	return s.find(ctx, m, "id = (?)", s.Resolver.WithCode(m.ID(), code))
}

// Deterministic returns the deterministic link with the canonical URL. It returns NotFound.
func (s *Store) Deterministic(ctx context.Context, m workspace.Membership, canonicalHash []byte) (*Link, error) {
	return s.find(ctx, m, "canonical_hash = ? AND strategy = 'DETERMINISTIC'", canonicalHash)
}

// find returns the only link of the workspace that meets the condition. It returns NotFound.
func (s *Store) find(ctx context.Context, m workspace.Membership, where string, args ...any) (*Link, error) {
	l := &Link{In: m}
	err := s.DB.NewSelect().Model(l).Where("workspace_id = ?", m.ID()).Where("purged_at IS NULL").
		Where(where, args...).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("selecting a link: %w", err)
	}
	if err := Complete(ctx, s.DB, s.now(), l); err != nil || !m.IsInside(l.FolderID) {
		return nil, cmp.Or(err, ErrNotFound())
	}
	return l, nil
}

// Many returns links of the workspace by their ids. Unknown and purged ones are omitted.
func (s *Store) Many(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string]*Link, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	return s.Load(ctx, m, linkIDs...)
}

// Load is Many for callers who have entered the workspace, with any permission.
func (s *Store) Load(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string]*Link, error) {
	var links []*Link
	err := s.DB.NewSelect().Model(&links).Where("id IN (?)", bun.In(linkIDs)).Where("workspace_id = ?", m.ID()).
		Where("purged_at IS NULL").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("selecting links: %w", err)
	}
	if err := Complete(ctx, s.DB, s.now(), links...); err != nil {
		return nil, err
	}
	return mapByID(m, links), nil
}

// mapByID sets the membership of links, and returns, by ID, those visible to it. Purged links are
// not visible.
func mapByID(m workspace.Membership, links []*Link) map[string]*Link {
	byID := make(map[string]*Link, len(links))
	for _, l := range links {
		if l.In = m; m.IsInside(l.FolderID) || l.PurgedAt != nil {
			byID[l.ID] = l
		}
	}
	return byID
}

// now returns the current time in the precision of the database.
func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// Canonical returns the canonical form of a URL. It returns InvalidURL.
func Canonical(raw string) (urlnorm.URL, error) {
	u, err := urlnorm.Canonical(raw)
	if refused, ok := errors.AsType[*urlnorm.Error](err); ok {
		return urlnorm.URL{}, errs.New(errs.InvalidURL, "%s", refused.Reason).At("url").Because(err)
	}
	return u, err
}

// ErrNotFound is the error of a link that does not exist, or that the caller must not see.
func ErrNotFound() error { return workspace.ErrNoLink() }
