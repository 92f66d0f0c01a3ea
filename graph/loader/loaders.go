package loader

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/move/importer"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Sources load values by key: accounts by ID, and what belongs to links of a workspace by the ID of
// the link.
type Sources struct {
	Accounts func(ctx context.Context, ids ...string) (map[string]*account.Account, error)
	// Private is what only the caller may see of their account.
	Private func(ctx context.Context, ids ...string) (map[string]*account.Private, error)
	Totals  source[clickstore.LinkTotal]
	Tags    source[[]string]
	Hits    source[int64]
	Targets source[map[string]int64]
	Checks  source[map[string]link.Check]
	Links   source[*link.Link]
	// Waiting are the numbers of waiting deliveries by webhook; Attempts and Events belong to
	// deliveries.
	Waiting  source[int64]
	Attempts source[[]*webhook.Attempt]
	Events   source[*workspace.LoggedEvent]
	// Folders are folders, and FolderLinks the numbers of their links, by the ids of the folders.
	Folders     source[*folder.Folder]
	FolderLinks source[int64]
	// Domains are the domains of links with codes of their own.
	Domains source[*domain.Domain]
	// Origins are where links were imported from.
	Origins source[[]*importer.Origin]
	// Scheduled are the scheduled changes.
	Scheduled source[[]*link.ScheduledChange]
	// QRStyles are the styles of QR codes by workspace.
	QRStyles source[*qr.Style]
}

type source[T any] = func(ctx context.Context, m workspace.Membership, ids ...string) (map[string]T, error)

// Loaders are the loaders of an operation.
type Loaders struct {
	Accounts Loader[*account.Account]
	Private  Loader[*account.Private]

	sources Sources
	mu      sync.Mutex
	links   map[string]*Links // by workspace
}

// Links load what belongs to links of one workspace, and the links.
type Links struct {
	Totals Loader[clickstore.LinkTotal]
	Tags   Loader[[]string]
	Hits   Loader[int64]
	// Targets are the clicks of the targets of a link, by the ids of the targets.
	Targets Loader[map[string]int64]
	// Checks are the checks of the URLs of a link's routing, by their positions.
	Checks Loader[map[string]link.Check]
	Links  Loader[*link.Link]
	// Waiting are the waiting deliveries of webhooks. Attempts are those of deliveries, Events by
	// their own ids.
	Waiting  Loader[int64]
	Attempts Loader[[]*webhook.Attempt]
	Events   Loader[*workspace.LoggedEvent]
	// Folders and FolderLinks are by the ids of folders.
	Folders     Loader[*folder.Folder]
	FolderLinks Loader[int64]
	// Domains are by their ids.
	Domains Loader[*domain.Domain]
	Origins Loader[[]*importer.Origin]
	// Scheduled are the scheduled changes of links that have some.
	Scheduled Loader[[]*link.ScheduledChange]
	// QRStyles has the style of the workspace's QR codes, by the id of the workspace.
	QRStyles Loader[*qr.Style]
}

type loadersKey struct{}

// WithLoaders returns a context with new loaders.
func WithLoaders(ctx context.Context, s Sources) context.Context {
	return context.WithValue(ctx, loadersKey{}, &Loaders{
		Accounts: Loader[*account.Account]{load: s.Accounts}, Private: Loader[*account.Private]{load: s.Private},
		sources: s, links: map[string]*Links{},
	})
}

// Of returns the loaders of an operation's context.
func Of(ctx context.Context) *Loaders { return ctx.Value(loadersKey{}).(*Loaders) }

// In returns the loaders of the membership's workspace.
func (l *Loaders) In(m workspace.Membership) *Links {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.links[m.ID()] == nil {
		l.links[m.ID()] = &Links{
			Totals: in(m, l.sources.Totals), Tags: in(m, l.sources.Tags), Hits: in(m, l.sources.Hits),
			Targets: in(m, l.sources.Targets), Checks: in(m, l.sources.Checks),
			Links: in(m, l.loadLinks), Scheduled: in(m, l.sources.Scheduled),
			Folders: in(m, l.loadFolders), FolderLinks: in(m, l.sources.FolderLinks),
			Domains: in(m, l.sources.Domains), Origins: in(m, l.sources.Origins),
			Waiting: in(m, l.sources.Waiting), Attempts: in(m, l.sources.Attempts), Events: in(m, l.sources.Events),
			QRStyles: in(m, l.sources.QRStyles),
		}
	}
	return l.links[m.ID()]
}

func in[T any](m workspace.Membership, load source[T]) Loader[T] {
	return Loader[T]{load: func(ctx context.Context, ids ...string) (map[string]T,
		error) {
		return load(ctx, m, ids...)
	}}
}

// SharedTotal is the total of a link that was read at one instant with the link's stats.
type SharedTotal struct {
	once  sync.Once
	done  chan struct{}
	total *clickstore.LinkTotal
}

type sharedKey struct{}

// WithSharedTotals returns the context of an answer, of which a subscription has many.
func WithSharedTotals(ctx context.Context) context.Context {
	return context.WithValue(ctx, sharedKey{}, &sync.Map{})
}

// SharedTotalOf returns the total that the fields of one link of the answer share. The key is the field
// context of the link.
func SharedTotalOf(ctx context.Context, key any) *SharedTotal {
	s, _ := ctx.Value(sharedKey{}).(*sync.Map).LoadOrStore(key, &SharedTotal{done: make(chan struct{})})
	return s.(*SharedTotal)
}

// Publish ends the wait. Only the first call counts. The total is nil if the stats could not be read.
func (s *SharedTotal) Publish(total *clickstore.LinkTotal) {
	s.once.Do(func() {
		s.total = total
		close(s.done)
	})
}

// totalWait bounds the wait of a link's fields for stats.
const totalWait = 10 * time.Second

// Wait waits for the total; nil if there is none.
func (s *SharedTotal) Wait(ctx context.Context) *clickstore.LinkTotal {
	ctx, cancel := context.WithTimeout(ctx, totalWait)
	defer cancel()
	select {
	case <-s.done:
		return s.total
	case <-ctx.Done():
		return nil
	}
}

// loadLinks loads links, and expects their fields to be requested.
func (l *Loaders) loadLinks(
	ctx context.Context, m workspace.Membership, ids ...string,
) (map[string]*link.Link, error) {
	found, err := l.sources.Links(ctx, m, ids...)
	l.Expect(slices.Collect(maps.Values(found)))
	return found, err
}

// loadFolders loads folders, and expects the numbers of their links to be requested.
func (l *Loaders) loadFolders(
	ctx context.Context, m workspace.Membership, ids ...string,
) (map[string]*folder.Folder, error) {
	found, err := l.sources.Folders(ctx, m, ids...)
	l.In(m).FolderLinks.Expect(slices.Collect(maps.Keys(found)))
	return found, err
}

// Expect batches what belongs to the links.
func (l *Loaders) Expect(links []*link.Link) {
	ids, folders, domains, accounts := map[*Links][]string{}, map[*Links][]string{}, map[*Links][]string{}, []string{}
	for _, one := range links {
		ids[l.In(one.In)] = append(ids[l.In(one.In)], one.ID)
		if one.NextChangeAt != nil {
			l.In(one.In).Scheduled.Expect([]string{one.ID})
		}
		if one.FolderID != nil {
			folders[l.In(one.In)] = append(folders[l.In(one.In)], *one.FolderID)
		}
		if one.DomainID != nil {
			domains[l.In(one.In)] = append(domains[l.In(one.In)], *one.DomainID)
		}
		if one.CreatedBy != nil {
			accounts = append(accounts, *one.CreatedBy)
		}
	}
	for loaders, ids := range ids {
		loaders.Totals.Expect(ids)
		loaders.Tags.Expect(ids)
		loaders.Hits.Expect(ids)
		loaders.Targets.Expect(ids)
		loaders.Checks.Expect(ids)
		loaders.Folders.Expect(folders[loaders])
		loaders.Domains.Expect(domains[loaders])
		loaders.Origins.Expect(ids)
	}
	l.Accounts.Expect(accounts)
}

// Forget removes everything that has been loaded: a subscription lasts longer than it stays true.
func (l *Loaders) Forget() {
	l.mu.Lock()
	l.links = map[string]*Links{}
	l.mu.Unlock()
	l.Accounts.forget()
}
