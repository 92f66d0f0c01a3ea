package link

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

const (
	// absenceLife is how long it is believed that something does not exist: a link that another node makes at an
	// address that was asked for before is there after so long. This node's own are at once.
	absenceLife = time.Second
	// staleLife is how long what is cached is believed while the database does not say what has changed.
	staleLife = 5 * time.Minute
	// loadDeadline bounds one look into the database.
	loadDeadline = 5 * time.Second
	// defaultCacheBytes bounds the cache unless it is configured.
	defaultCacheBytes = 64 << 20
)

// subject is what an entry of the cache is about: a link by its workspace and code, or by its code alone at the root,
// and by the spaces below a slug, a host or a workspace.
type subject struct{ space, name string }

const (
	root       = ""
	slugs      = "~"
	hosts      = "@"
	workspaces = "#"
)

// parseSubject reads what the triggers of migration 0006 write.
func parseSubject(text string) []subject {
	if workspaceID, code, ok := strings.Cut(text, "/"); ok {
		return []subject{{workspaceID, code}, {root, code}}
	}
	if text != "" && (text[:1] == slugs || text[:1] == hosts) {
		return []subject{{text[:1], text[1:]}}
	}
	return []subject{{workspaces, text}}
}

// cache holds what redirects ask for: where links lead, whose places are whose, and what does not exist. What is in it
// stays until it changes, which feed.go hears of, or until more room is needed.
type cache struct {
	seed    maphash.Seed
	entries *otter.Cache[uint64, entry]
	counter *stats.Counter
	feed    feed
}

func newCache(bytes int64) *cache {
	counter := stats.NewCounter()
	return &cache{
		seed: maphash.MakeSeed(), counter: counter,
		entries: otter.Must(&otter.Options[uint64, entry]{
			MaximumWeight: uint64(cmp.Or(bytes, defaultCacheBytes)),
			Weigher:       func(_ uint64, e entry) uint32 { return e.weight() },
			StatsRecorder: counter,
		}),
	}
}

// key is of a subject as it was since the last time that changes may have been missed: entries from before are not found.
func (c *cache) key(s subject) uint64 {
	return maphash.Comparable(c.seed, struct {
		epoch uint64
		subject
	}{c.feed.epoch.Load(), s})
}

// forget discards what is cached of subjects, and what is being loaded of them at this moment.
func (c *cache) forget(all ...subject) {
	for _, s := range all {
		c.entries.Invalidate(c.key(s))
	}
}

// forget discards what this node has cached of links, after they have changed.
func (s *Store) forget(links ...*Link) {
	for _, l := range links {
		s.cache.forget(subject{l.WorkspaceID, l.Code}, subject{root, l.Code})
	}
}

// CacheStats tell how the cache does.
type CacheStats struct {
	// Misses are looks into the database.
	Hits, Misses, Evictions uint64
	// Entries and Bytes are what it holds now.
	Entries int
	Bytes   uint64
}

// CacheStats tell how the cache of redirects does.
func (s *Store) CacheStats() CacheStats {
	at := s.cache.counter.Snapshot()
	return CacheStats{
		Hits: at.Hits, Misses: at.Loads(), Evictions: at.Evictions,
		Entries: s.cache.entries.EstimatedSize(), Bytes: s.cache.entries.WeightedSize(),
	}
}

// Resolve finds the link that answers at the address, in whatever state it is, from memory if it can. It returns
// NotFound, or Expired for addresses of a workspace that has been deleted.
func (s *Store) Resolve(ctx context.Context, a Address, now time.Time) (Target, error) {
	if !a.plausible() {
		return Target{}, errNotFound()
	}
	at := subject{root, a.Code}
	if a.Slug != "" || a.Host != "" {
		workspaceID, err := s.placeOf(ctx, a, now)
		if err != nil {
			return Target{}, err
		}
		at.space = workspaceID
	}
	kind, rest, err := s.lookUp(ctx, at, now)
	if err != nil {
		return Target{}, err
	}
	if kind == entryAbsent {
		if at.space != root {
			return Target{WorkspaceID: at.space}, s.errUnknown(ctx, at.space, now)
		}
		return Target{}, errNotFound()
	}
	t := rest.target()
	t.HitQuota, t.Gone, err = s.workspaceFacts(ctx, t.WorkspaceID, now)
	return t, err
}

// placeOf is the workspace that has, or had, the slug, or that has the host now.
func (s *Store) placeOf(ctx context.Context, a Address, now time.Time) (string, error) {
	at := subject{hosts, a.Host}
	if a.Host == "" {
		at = subject{slugs, a.Slug}
	}
	kind, rest, err := s.lookUp(ctx, at, now)
	if err != nil {
		return "", err
	}
	if kind == entryAbsent {
		return "", errNotFound()
	}
	return string(rest), nil
}

// workspaceFacts are what holds for all links of a workspace.
func (s *Store) workspaceFacts(ctx context.Context, workspaceID string, now time.Time) (hitQuota int64, gone bool, err error) {
	kind, rest, err := s.lookUp(ctx, subject{workspaces, workspaceID}, now)
	if err != nil {
		return 0, false, err
	}
	if kind == entryAbsent { // purged between two looks
		return -1, true, nil
	}
	return int64(rest.number(8)), rest.byte() == 1, nil
}

// errUnknown is what there is to say of a code that a workspace does not have.
func (s *Store) errUnknown(ctx context.Context, workspaceID string, now time.Time) error {
	_, gone, err := s.workspaceFacts(ctx, workspaceID, now)
	if err != nil {
		return err
	}
	if gone {
		return errs.New(errs.Expired, "The workspace of this link has been deleted.")
	}
	return errNotFound()
}

// lookUp finds what is known of the subject, in memory or in the database: one look at a time for each. While the database
// does not answer, what is in memory holds on for staleLife.
func (s *Store) lookUp(ctx context.Context, at subject, now time.Time) (byte, read, error) {
	if !s.cache.feed.fresh(now) {
		return s.loadAlone(ctx, at)
	}
	key := s.cache.key(at)
	if e, ok := s.cache.entries.GetIfPresent(key); ok {
		kind, rest, ok := e.open(at)
		if ok && (kind != entryAbsent || absenceHolds(rest, now)) {
			return kind, rest, nil
		}
		if ok {
			return s.renew(ctx, at, key, rest)
		}
	}
	return s.load(ctx, at, key)
}

func absenceHolds(since read, now time.Time) bool {
	return now.UnixMicro()-int64(since.number(8)) < absenceLife.Microseconds()
}

// renew asks again for what did not exist a moment ago. It goes on not to while the database does not answer.
func (s *Store) renew(ctx context.Context, at subject, key uint64, absent read) (byte, read, error) {
	s.cache.entries.Invalidate(key)
	kind, rest, err := s.load(ctx, at, key)
	if err != nil {
		s.cache.entries.SetIfAbsent(key, absence(at.clone(), s.Now()))
		return entryAbsent, absent, nil
	}
	return kind, rest, nil
}

// clone is the subject without the memory of the request that it came from.
func (s subject) clone() subject { return subject{strings.Clone(s.space), strings.Clone(s.name)} }

// load looks into the database, once for all who ask for the same at the same time, also when the first of them goes away.
func (s *Store) load(ctx context.Context, at subject, key uint64) (byte, read, error) {
	e, err := s.cache.entries.Get(ctx, key, otter.LoaderFunc[uint64, entry](func(ctx context.Context, _ uint64) (entry, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadDeadline)
		defer cancel()
		return s.query(ctx, at)
	}))
	if err != nil {
		return 0, "", err
	}
	if kind, rest, ok := e.open(at); ok {
		return kind, rest, nil
	}
	return s.loadAlone(ctx, at) // another subject has the same key
}

// loadAlone looks into the database and keeps nothing.
func (s *Store) loadAlone(ctx context.Context, at subject) (byte, read, error) {
	e, err := s.query(ctx, at)
	if err != nil {
		return 0, "", err
	}
	kind, rest, _ := e.open(at)
	return kind, rest, nil
}

// query is one indexed SELECT.
func (s *Store) query(ctx context.Context, at subject) (e entry, err error) {
	ctx = db.AsResolver(ctx)
	switch at.space {
	case slugs, hosts:
		e, err = s.queryPlace(ctx, at)
	case workspaces:
		e, err = s.queryWorkspace(ctx, at)
	default:
		e, err = s.queryLink(ctx, at)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return absence(at, s.Now()), nil
	}
	if err != nil {
		return "", fmt.Errorf("resolving a code: %w", err)
	}
	return e, nil
}

func (s *Store) queryLink(ctx context.Context, at subject) (entry, error) {
	var l Link
	q := s.DB.NewSelect().Model(&l).Column("id", "workspace_id", "original_url", "redirect_status", "starts_at", "expires_at", "max_clicks",
		"deleted_at", "disabled_at")
	if at.space == root {
		q = q.Where("root_code = ?", at.name)
	} else {
		q = q.Where("workspace_id = ?", at.space).Where("code = ?", at.name)
	}
	if err := q.Scan(ctx); err != nil {
		return "", err
	}
	t := targetOf(&l)
	return linkEntry(at, &t), nil
}

func targetOf(l *Link) Target {
	t := Target{
		ID: l.ID, WorkspaceID: l.WorkspaceID, Location: urlnorm.Location(l.OriginalURL), RedirectStatus: l.RedirectStatus,
		HitQuota: -1, MaxClicks: optional.Value(l.MaxClicks),
	}
	if l.DeletedAt != nil {
		t.flags |= isDeleted
	}
	if l.DisabledAt != nil {
		t.flags |= isDisabled
	}
	if l.StartsAt != nil {
		t.flags, t.startsAt = t.flags|hasStart, l.StartsAt.UnixMicro()
	}
	if l.ExpiresAt != nil {
		t.flags, t.endsAt = t.flags|hasEnd, l.ExpiresAt.UnixMicro()
	}
	return t
}

func (s *Store) queryPlace(ctx context.Context, at subject) (entry, error) {
	a := Address{Slug: at.name}
	if at.space == hosts {
		a = Address{Host: at.name}
	}
	var workspaceID string
	if err := s.workspaceAt(a).Scan(ctx, &workspaceID); err != nil {
		return "", err
	}
	return placeEntry(at, workspaceID), nil
}

func (s *Store) queryWorkspace(ctx context.Context, at subject) (entry, error) {
	var hitQuota *int64
	var deletedAt *time.Time
	err := s.DB.NewSelect().Table("workspaces").Column("hit_quota", "deleted_at").Where("id = ?", at.name).Scan(ctx, &hitQuota, &deletedAt)
	if err != nil {
		return "", err
	}
	if hitQuota == nil {
		hitQuota = new(int64(-1))
	}
	return workspaceEntry(at, *hitQuota, deletedAt != nil), nil
}
