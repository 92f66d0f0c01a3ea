package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/codecounter"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/idempotency"
	"github.com/linkforge/linkforge/internal/ownhost"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/resolve"
	"github.com/linkforge/linkforge/internal/shortcode"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Config is what a Store needs.
type Config struct {
	// DB is the database.
	DB *db.DB
	// PublicURL is the origin that short URLs start with.
	PublicURL string
	// Own are the hosts of the instance, to which no link may lead; nil means that of PublicURL
	// alone.
	Own *ownhost.Hosts
	// LinkQuota is how many links a workspace may make in a month, unless it has a quota of its own.
	LinkQuota int64
	// CodeSecrets key the codes of the strategy Counter. The first makes new codes; the others are
	// those that it replaced.
	CodeSecrets [][]byte
	// AnonymousTTL is how long a link that nobody owns lives; zero means that there are none.
	AnonymousTTL time.Duration
	// CacheBytes bounds the cache of the Resolver; zero means 64 MiB.
	CacheBytes int64
	// Tombstones is how long an ended link goes on answering that it has ended.
	Tombstones time.Duration
	// Clicks knows what links have answered.
	Clicks Clicks
	// Domains knows the hosts of workspaces.
	Domains Domains
	// Blocklist knows the hosts that no new link may lead to; nil means that there are none.
	Blocklist Blocklist
	// Limits slows down whoever has no account.
	Limits ratelimit.Limiter
	// Log is told about colliding codes.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Clicks is what this room needs of that of the clicks.
type Clicks interface {
	// Flush waits until the database has every click that this node has recorded.
	Flush(ctx context.Context) error
	// Counts are the clicks that links have had, ever. Links without one are missing from the answer.
	Counts(ctx context.Context, conn bun.IDB, linkIDs ...string) (map[string]int64, error)
	// Move gives a link's clicks to another workspace, those too that are still to be written.
	Move(ctx context.Context, tx bun.Tx, linkID, workspaceID string) error
}

// Domains is what this room needs to know of the workspaces' hosts.
type Domains interface {
	// VerifiedHosts are those among the hosts at which a workspace's links answer.
	VerifiedHosts(ctx context.Context, conn bun.IDB, hosts ...string) (map[string]bool, error)
}

// Blocklist is what link needs of package moderation.
type Blocklist interface {
	// Blocked returns those of the hosts to which no new link may lead.
	Blocked(ctx context.Context, conn bun.IDB, hosts ...string) (map[string]bool, error)
}

// Store keeps the links.
type Store struct {
	Config
	// Resolver finds links by their addresses. The store tells it of each change.
	Resolver *resolve.Resolver
	// candidate is the code of a URL in a workspace for one salt.
	candidate   func(canonical, workspaceID string, salt int) string
	counters    *codecounter.Counter
	idempotency idempotency.Store
	creations   creations
	// collisions counts the generated codes that were taken, since this node started.
	collisions atomic.Int64
	// exhausted counts the links that were refused because all candidate codes were taken, since this
	// node started.
	exhausted atomic.Int64
}

// NewStore prepares a Store. It returns an error when the public URL is not one.
func NewStore(c Config) (*Store, error) {
	resolver, err := resolve.New(resolve.Config{
		DB: c.DB, PublicURL: c.PublicURL, CacheBytes: c.CacheBytes, Log: c.Log, Now: c.Now,
	})
	if err != nil {
		return nil, err
	}
	if c.Own == nil {
		if c.Own, err = ownhost.New(c.PublicURL); err != nil {
			return nil, err
		}
	}
	return &Store{
		Config: c, Resolver: resolver, candidate: shortcode.Deterministic,
		counters: codecounter.New(c.DB, c.CodeSecrets), idempotency: idempotency.Store{DB: c.DB, Now: c.Now},
		creations: creations{Most: MaxBatch, Patient: true},
	}, nil
}

// Collisions is how many generated codes were taken, since this node started.
func (s *Store) Collisions() int64 { return s.collisions.Load() }

// ExhaustedCodes returns how many links were refused with CodeExhausted, since this node started.
func (s *Store) ExhaustedCodes() int64 { return s.exhausted.Load() }

// ShortURL is the shortest address at which the link answers: at the host that its workspace has
// chosen, if it has.
func (s *Store) ShortURL(l *Link) string {
	if host := l.In.Workspace().PrimaryHost; host != nil {
		return "https://" + *host + "/" + l.Code
	}
	return s.ShortURLOf(l.In.Slug(), l.Code, l.RootCode)
}

// ShortURLOf returns the short URL of a link at the instance itself.
func (s *Store) ShortURLOf(slug, code string, rootCode *string) string {
	if rootCode != nil {
		return s.PublicURL + "/" + code
	}
	return s.PublicURL + "/" + slug + "/" + code
}

// At finds the link at the address, in any state, as the database has it now. It returns NotFound.
func (s *Store) At(ctx context.Context, a resolve.Address) (*Link, error) {
	l := &Link{}
	q, err := s.Resolver.ByAddress(s.DB.NewSelect().Model(l), a)
	if err != nil {
		return nil, err
	}
	err = q.Scan(db.AsResolver(ctx))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a link by its address: %w", err)
	}
	return l, nil
}

// forget discards what this node has cached of links, after they have changed.
func (s *Store) forget(links ...*Link) {
	for _, l := range links {
		s.Resolver.Forget(l.WorkspaceID, l.Code)
	}
}

// WorkspaceOf finds the workspace that a link is in. It says nothing of who may see it: ask
// workspace.Store.Require. It returns NotFound.
func (s *Store) WorkspaceOf(ctx context.Context, linkID string) (string, error) {
	spaces, err := s.WorkspacesOf(ctx, linkID)
	if err != nil {
		return "", err
	}
	workspaceID, known := spaces[linkID]
	if !known {
		return "", errNotFound()
	}
	return workspaceID, nil
}

// WorkspacesOf are the workspaces of links, by the links' ids. What is no link is missing from the
// answer.
func (s *Store) WorkspacesOf(ctx context.Context, ids ...string) (map[string]string, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(linkID string) bool { return !id.Valid(id.Link, linkID) })
	if len(ids) == 0 {
		return map[string]string{}, nil
	}
	var links []*Link
	err := s.DB.NewSelect().Model(&links).Column("id", "workspace_id").Where("id IN (?)", bun.In(ids)).
		Where("purged_at IS NULL").
		Scan(db.AsResolver(ctx))
	if err != nil {
		return nil, fmt.Errorf("looking for links' workspaces: %w", err)
	}
	spaces := make(map[string]string, len(links))
	for _, l := range links {
		spaces[l.ID] = l.WorkspaceID
	}
	return spaces, nil
}

// Get loads a link, in whatever state it is. It returns NotFound.
func (s *Store) Get(ctx context.Context, m workspace.Membership, linkID string) (*Link, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	if !id.Valid(id.Link, linkID) {
		return nil, errNotFound()
	}
	return find(ctx, s.DB, m, "id = ?", linkID)
}

// Many finds links of the workspace by their ids. Those that there are not, or not any more, are
// missing from the answer.
func (s *Store) Many(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string]*Link, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	return s.byIDs(ctx, m, linkIDs)
}

func (s *Store) byIDs(ctx context.Context, m workspace.Membership, ids []string) (map[string]*Link, error) {
	var links []*Link
	err := s.DB.NewSelect().Model(&links).Where("id IN (?)", bun.In(ids)).Where("workspace_id = ?", m.ID()).
		Where("purged_at IS NULL").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for links: %w", err)
	}
	return mapByID(m, links), nil
}

// mapByID returns links of a membership's workspace by their ids.
func mapByID(m workspace.Membership, links []*Link) map[string]*Link {
	byID := make(map[string]*Link, len(links))
	for _, l := range links {
		l.In = m
		byID[l.ID] = l
	}
	return byID
}

// Usage is how many links the workspace has made in the current month, and the month.
func (s *Store) Usage(ctx context.Context, m workspace.Membership) (links int64, month hitquota.Month, err error) {
	ctx, err = m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return 0, hitquota.Month{}, err
	}
	month = hitquota.MonthOf(s.Now())
	err = s.DB.NewSelect().Table("link_usage").Column("links").
		Where("workspace_id = ?", m.ID()).Where("month = ?", month.String()).Scan(ctx, &links)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, month, fmt.Errorf("reading a workspace's usage: %w", err)
	}
	return links, month, nil
}

// QuotaOf is how many links the workspace may make in a month.
func (s *Store) QuotaOf(m workspace.Membership) int64 {
	if own := m.Workspace().LinkQuota; own != nil {
		return *own
	}
	return s.LinkQuota
}

// now is the instant, as the database keeps it.
func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// affected is how many rows a statement has changed.
func affected(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// canonical is the canonical form of a URL that a caller gave.
func canonical(raw string) (urlnorm.URL, error) {
	u, err := urlnorm.Canonical(raw)
	if refused, ok := errors.AsType[*urlnorm.Error](err); ok {
		return urlnorm.URL{}, errs.New(errs.InvalidURL, "%s", refused.Reason).At("url").Because(err)
	}
	return u, err
}

func errNotFound() error {
	return errs.New(errs.NotFound, "There is no such link, or you cannot see it.").At("id")
}
