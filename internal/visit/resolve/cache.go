// Package resolve finds the target of a short URL: it reads addresses, holds the cache of links,
// and forgets what changes, on any node. Package routing decides the response, package link
// writes links. Packages redirect and link call it.
package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/batcher"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/memo"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
)

const (
	// absenceLife is how long a missing link is cached. It delays a new link of another node at an
	// address that was requested before; links of this node are available immediately.
	absenceLife = time.Second
	// staleLife is how long cached entries are used while the change feed is unavailable.
	staleLife = 5 * time.Minute
	// loadDeadline bounds one query of the database: a visitor waits for it.
	loadDeadline = 800 * time.Millisecond
	// defaultCacheBytes applies if CacheBytes is zero.
	defaultCacheBytes = 64 << 20
)

// subject is the key of a cache entry. A link has the space of its workspace, or root if its code
// works at the root; the other spaces hold slugs, hosts and workspaces.
type subject struct{ space, name string }

const (
	root       = ""
	slugs      = "~"
	hosts      = "@"
	workspaces = "#"
)

// folded begins the name of a subject that is a code key, in the space of its workspace. Its entry
// is the code.
const folded = "^"

// parseSubject returns the subjects of a row of the change feed, in the format of the table
// changes.
func parseSubject(text string) []subject {
	if workspaceID, code, ok := strings.Cut(text, "/"); ok {
		return []subject{{workspaceID, code}, {root, code}}
	}
	if host, ok := strings.CutPrefix(text, hosts); ok {
		return []subject{
			{hosts, host}, {documents, host + "/" + string(AppleAppSiteAssociation)},
			{documents, host + "/" + string(AssetLinks)},
		}
	}
	if slug, ok := strings.CutPrefix(text, slugs); ok {
		return []subject{{slugs, slug}}
	}
	return []subject{{workspaces, text}}
}

// Config configures a Resolver. All fields but IsOwnHost, NotFoundURL and CacheBytes are required.
type Config struct {
	DB *db.DB
	// Feed has the changes that other nodes make.
	Feed *feed.Feed
	// PublicURL is the origin of short URLs.
	PublicURL string
	// IsOwnHost reports whether a host is the instance's own. Nil means that the host of PublicURL
	// alone is.
	IsOwnHost func(host string) bool
	// NotFoundURL is where unknown codes at the root are redirected; empty means nowhere.
	NotFoundURL string
	// CacheBytes bounds the cache; zero means 64 MiB.
	CacheBytes int64
	Log        *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Resolver finds links by their addresses. Entries of its cache are valid until the change feed
// names their subject, and are evicted when the cache is full.
type Resolver struct {
	Config
	publicURL urlnorm.URL
	seed      maphash.Seed
	entries   memo.Cache[uint64, entry]
	counter   *stats.Counter
	epoch     atomic.Uint64                                    // counts how often changes may have been missed
	lookups   batcher.Batcher[bool, subject, map[subject]*row] // by whether the codes work at the root
}

// New returns a Resolver with an empty cache, and an error when the public URL is not a URL.
func New(c Config) (*Resolver, error) {
	public, err := urlnorm.Canonical(c.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("the public URL: %w", err)
	}
	if c.IsOwnHost == nil {
		c.IsOwnHost = func(host string) bool { return host == public.Host() }
	}
	counter := stats.NewCounter()
	s := &Resolver{
		Config: c, publicURL: public, seed: maphash.MakeSeed(), counter: counter,
		entries: memo.New(&otter.Options[uint64, entry]{
			MaximumWeight: uint64(cmp.Or(c.CacheBytes, defaultCacheBytes)),
			Weigher:       func(_ uint64, e entry) uint32 { return e.weight() },
			StatsRecorder: counter,
		}),
	}
	c.Feed.Subscribe(s.follow)
	return s, nil
}

// follow removes the entries of subjects that have changed.
func (s *Resolver) follow(_ context.Context, n feed.News) {
	if n.IsGap {
		s.epoch.Add(1)
	}
	for _, text := range n.Subjects {
		s.forget(parseSubject(text)...)
	}
}

// PublicHost returns the host of the instance.
func (s *Resolver) PublicHost() string { return s.publicURL.Host() }

// key hashes a subject with the current epoch, so that entries of earlier epochs are not found.
func (s *Resolver) key(at subject) uint64 {
	return maphash.Comparable(s.seed, struct {
		epoch uint64
		subject
	}{s.epoch.Load(), at})
}

// forget removes the entries of subjects, including entries that are being loaded.
func (s *Resolver) forget(all ...subject) {
	for _, at := range all {
		s.entries.Invalidate(s.key(at))
	}
}

// Forget removes this node's entries of a link that has changed.
func (s *Resolver) Forget(workspaceID, code string) {
	s.forget(subject{workspaceID, code}, subject{root, code}, subject{workspaceID, folded + shortcode.Key(code)})
}

// CacheStats are the counters of the cache.
type CacheStats struct {
	// Hits, Misses and Evictions count since the start. A miss is a query of the database.
	Hits, Misses, Evictions uint64
	// Entries and Bytes are the present contents.
	Entries int
	Bytes   uint64
}

// CacheStats returns the counters of the cache.
func (s *Resolver) CacheStats() CacheStats {
	at := s.counter.Snapshot()
	return CacheStats{
		Hits: at.Hits, Misses: at.Loads(), Evictions: at.Evictions,
		Entries: s.entries.EstimatedSize(), Bytes: s.entries.WeightedSize(),
	}
}

// ErrNotAdmitted is the error of requests that would need the database and are not admitted to it.
var ErrNotAdmitted = errors.New("resolving a code: the request is not admitted to the database")

// Admit decides before each query of a request whether it may use the database.
type Admit func() bool

// Resolve finds the link at the address, in any state, from the cache if possible. If there is
// none, the target is Unknown; it names the workspace if the address belongs to one. An error
// means that the database is unavailable, or is ErrNotAdmitted. A nil admit admits every query.
func (s *Resolver) Resolve(ctx context.Context, a Address, now time.Time, admit Admit) (Target, error) {
	unknown := Target{Program: routing.Program{Unknown: true}, At: a}
	if !a.IsPlausible() {
		return unknown, nil
	}
	place, space := Host{}, settings{}
	if a.Slug != "" || a.Host != "" {
		var err error
		if place, err = s.placeOf(ctx, a, now, admit); err != nil || place.WorkspaceID == "" {
			return unknown, err
		}
		if space, err = s.settingsOf(ctx, place.WorkspaceID, now, admit); err != nil {
			return unknown, err
		}
		unknown.At = a.Interpret(place.OwnID != "")
	}
	t, found, err := s.lookUpFirst(ctx, unknown.At, &place, space.foldsCodes, now, admit)
	switch {
	case err != nil:
		return unknown, err
	case !found && place.WorkspaceID == root:
		unknown.NotFoundURL = s.NotFoundURL
		return unknown, nil
	case !found:
		t = unknown
		t.WorkspaceID = place.WorkspaceID
	case place.WorkspaceID == root:
		if space, err = s.settingsOf(ctx, t.WorkspaceID, now, admit); err != nil {
			return t, err
		}
	}
	t.Indexable = place.Indexable
	t.apply(&space, &place)
	return t, nil
}

// lookUpFirst looks up the candidates of an address until one has a link. At a host with codes of
// its own, the link of a shorter code counts only if it forwards the rest of the path.
func (s *Resolver) lookUpFirst(
	ctx context.Context, a Address, place *Host, foldsCodes bool, now time.Time, admit Admit,
) (t Target, found bool, err error) {
	for at := range a.Candidates() {
		code, isCode := at.StoredCode(place)
		if !isCode { // no link has such a code, but its place may have a fallback URL
			continue
		}
		t, found, err = s.lookUpLink(ctx, subject{place.WorkspaceID, code}, foldsCodes && place.OwnID == "", now, admit)
		if err != nil || found && (!at.IsOwn || at.Path == "" || at.Path == "/" || t.ForwardsPath() && !t.Deleted) {
			t.At = at
			return t, found, err
		}
	}
	return t, false, nil
}

// lookUpLink looks up a link by its code, or else, in a workspace with code keys, by the key.
// There, only a code that can be a generated one is looked up as it is: a custom code has one
// entry, and not one for each spelling. A deleted link with the code may have lost the key to
// another one.
func (s *Resolver) lookUpLink(
	ctx context.Context, at subject, foldsCodes bool, now time.Time, admit Admit,
) (t Target, found bool, err error) {
	if !foldsCodes || shortcode.IsGenerated(at.name) {
		t, found, err = s.lookUpCode(ctx, at, now, admit)
		if err != nil || !foldsCodes || found && !t.Deleted {
			return t, found, err
		}
	}
	kind, code, err := s.lookUp(ctx, subject{at.space, folded + shortcode.Key(at.name)}, now, admit)
	if err != nil || kind == entryAbsent {
		return t, found, err
	}
	return s.lookUpCode(ctx, subject{at.space, string(code)}, now, admit)
}

// lookUpCode looks up the present state of the link with exactly this code.
func (s *Resolver) lookUpCode(
	ctx context.Context, at subject, now time.Time, admit Admit,
) (t Target, found bool, err error) {
	switch kind, rest, err := s.lookUp(ctx, at, now, admit); {
	case err != nil || kind == entryAbsent:
		return t, false, err
	case kind == entryScheduled:
		return readTarget(present(rest, now)), true, nil
	default:
		return readTarget(rest), true, nil
	}
}

// placeOf returns the workspace that has or had the slug, or that has the host, with the settings
// of the host. It has no WorkspaceID if there is none.
func (s *Resolver) placeOf(ctx context.Context, a Address, now time.Time, admit Admit) (Host, error) {
	at := subject{hosts, a.Host}
	if a.Host == "" {
		at = subject{slugs, a.Slug}
	}
	kind, rest, err := s.lookUp(ctx, at, now, admit)
	if err != nil || kind == entryAbsent {
		return Host{}, err
	}
	return readHost(kind, rest), nil
}

// settings are what applies to all links of a workspace.
type settings struct {
	hitQuota              int64
	isGone, foldsCodes    bool
	notFoundURL, endedURL string
}

func (s *Resolver) settingsOf(ctx context.Context, workspaceID string, now time.Time, admit Admit) (settings, error) {
	kind, rest, err := s.lookUp(ctx, subject{workspaces, workspaceID}, now, admit)
	if err != nil {
		return settings{}, err
	}
	if kind == entryAbsent { // purged between two queries
		return settings{hitQuota: -1, isGone: true}, nil
	}
	return readSettings(rest), nil
}

// apply sets what applies to all links of a workspace. The fallback URLs of the requested domain
// come first; a deleted workspace has none.
func (t *Target) apply(space *settings, place *Host) {
	t.HitQuota, t.WorkspaceDeleted = space.hitQuota, space.isGone
	if !t.WorkspaceDeleted {
		t.NotFoundURL, t.EndedURL = cmp.Or(place.NotFoundURL, space.notFoundURL), cmp.Or(place.EndedURL, space.endedURL)
	}
}

// lookUp returns the entry of a subject, from the cache or the database, with one query at a time
// per subject. While the database is unavailable, cached entries are used for staleLife, except
// those of missing subjects, which may exist by now.
func (s *Resolver) lookUp(
	ctx context.Context, at subject, now time.Time, admit Admit,
) (byte, routing.FlatReader, error) {
	isFresh, key := s.Feed.Age(now) < staleLife, s.key(at)
	if isFresh {
		if kind, rest, ok := s.cached(at, key, now); ok {
			return kind, rest, nil
		}
	}
	if admit != nil && !admit() {
		return 0, "", ErrNotAdmitted
	}
	if !isFresh {
		return s.loadAlone(ctx, at)
	}
	return s.load(ctx, at, key)
}

// cached returns the entry of a subject from the cache. It removes one that has expired.
func (s *Resolver) cached(at subject, key uint64, now time.Time) (byte, routing.FlatReader, bool) {
	e, ok := s.entries.GetIfPresent(key)
	if !ok {
		return 0, "", false
	}
	kind, rest, ok := e.open(at)
	if ok && kind == entryAbsent && !absenceHolds(rest, now) {
		s.entries.Invalidate(key)
		return 0, "", false
	}
	return kind, rest, ok
}

func absenceHolds(since routing.FlatReader, now time.Time) bool {
	return now.UnixMicro()-int64(since.Number(8)) < absenceLife.Microseconds()
}

// load queries the database once for all concurrent requests for a subject. It continues if the
// client of the first request disconnects.
func (s *Resolver) load(ctx context.Context, at subject, key uint64) (byte, routing.FlatReader, error) {
	e, err := s.entries.Get(ctx, key,
		otter.LoaderFunc[uint64, entry](func(ctx context.Context, _ uint64) (entry, error) {
			return s.query(context.WithoutCancel(ctx), at)
		}))
	if err != nil {
		return 0, "", err
	}
	if kind, rest, ok := e.open(at); ok {
		return kind, rest, nil
	}
	return s.loadAlone(ctx, at) // another subject has the same hash
}

// loadAlone queries the database without the cache.
func (s *Resolver) loadAlone(ctx context.Context, at subject) (byte, routing.FlatReader, error) {
	e, err := s.query(ctx, at)
	if err != nil {
		return 0, "", err
	}
	kind, rest, _ := e.open(at)
	return kind, rest, nil
}
