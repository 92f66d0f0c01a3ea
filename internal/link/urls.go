package link

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// URLRow is a URL of a link's routing, or one that a scheduled change sets. The link's own URL and
// its check are in links.
type URLRow struct {
	bun.BaseModel `bun:"table:link_urls"`

	LinkID string `bun:",pk"`
	// Field is the position in the routing, joined by dots. That of a scheduled change begins with
	// its id.
	Field       string `bun:",pk"`
	WorkspaceID string
	// Host is canonical.
	Host string
	URL  string
	Check
}

// writeURLs replaces the rows of links whose routing has changed. An unchanged URL keeps its check,
// even if its position changes.
func (s *Store) writeURLs(ctx context.Context, tx bun.Tx, rewrites []Rewrite) error {
	var stale []string
	var rows []URLRow
	for _, c := range rewrites {
		if c.After.Routing == c.Before.Routing {
			continue
		}
		if c.Before.Routing != nil {
			stale = append(stale, c.After.ID)
		}
		rows = append(rows, c.After.urlRows(s.now())...)
	}
	if len(stale) > 0 {
		var replaced []URLRow
		_, err := tx.NewDelete().Model(&replaced).Where("link_id IN (?)", bun.In(stale)).
			Where("substr(field, 1, ?) <> ?", len(id.Scheduled), string(id.Scheduled)).Returning("*").Exec(ctx)
		if err != nil {
			return fmt.Errorf("removing the URLs of links: %w", err)
		}
		copyChecks(rows, replaced)
	}
	if err := db.InsertRows(ctx, tx, db.Insert{}, rows); err != nil {
		return fmt.Errorf("adding the URLs of links: %w", err)
	}
	return nil
}

func copyChecks(rows, replaced []URLRow) {
	type key struct{ linkID, url string }
	checks := map[key]Check{}
	for _, row := range replaced {
		checks[key{row.LinkID, row.URL}] = row.Check
	}
	for i, row := range rows {
		if known, ok := checks[key{row.LinkID, row.URL}]; ok {
			rows[i].Check = known
		}
	}
}

// urlRows returns the URLs of the link's routing, due for a check now. A URL with placeholders has
// no single destination to check, and an image is not a destination.
func (l *Link) urlRows(now time.Time) (rows []URLRow) {
	for _, u := range l.Routing.URLs() {
		canonical, err := urlnorm.Canonical(u.URL)
		if err != nil { // package check refuses it
			continue
		}
		row := URLRow{
			LinkID: l.ID, Field: strings.Join(u.Field, "."), WorkspaceID: l.WorkspaceID, Host: canonical.Host(),
			URL: u.URL,
		}
		if !u.IsTemplate && !u.IsImage {
			row.CheckAt = &now
		}
		rows = append(rows, row)
	}
	return rows
}

// Hosts returns the hosts of all URLs of the link: of the destination, of its routing, and of the
// pending changes that WriteDue has loaded.
func (l *Link) Hosts() []string {
	hosts, rows := []string{l.Host()}, l.urlRows(time.Time{})
	for _, c := range l.pending {
		rows = append(rows, c.urlRows(time.Time{})...)
	}
	for _, row := range rows {
		hosts = append(hosts, row.Host)
	}
	return hosts
}

// HostKey returns the labels of a canonical host in reverse, each followed by a dot, so that a host
// is a prefix of all hosts below it: www.example.com becomes com.example.www.
func HostKey(host string) string {
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + "."
}

// Host returns the host of the destination; empty for a purged link.
func (l *Link) Host() string {
	u, err := urlnorm.Canonical(l.CanonicalURL)
	if err != nil {
		return ""
	}
	return u.Host()
}

// refused returns an UnsafeURL error for each link with a URL, its own or one of its routing, that
// package destination refuses. Every operation that creates, edits, restores or claims links calls
// it for links with URLs that are new or become effective.
func (s *Store) refused(ctx context.Context, conn bun.IDB, links []*Link) (map[*Link]*errs.Error, error) {
	unsafe, err := s.Destinations.Refused(ctx, conn, DestinationsOf(links)...)
	return Refusals(links, unsafe), err
}

// DestinationsOf returns the URLs of links and of their routing.
func DestinationsOf(links []*Link) []destination.Destination {
	all := make([]destination.Destination, 0, len(links))
	for _, l := range links {
		all = append(all, l.destination(l.CanonicalURL))
		for _, u := range l.Routing.URLs() {
			all = append(all, l.destination(u.URL))
		}
	}
	return all
}

// destination returns a URL of the link. A link that is being claimed is still in another workspace
// than In.
func (l *Link) destination(url string) destination.Destination {
	return destination.Destination{WorkspaceID: l.In.ID(), URL: url}
}

// leadsOutside returns InvalidInput for a link to a host that the API key of its membership may not
// use.
func (l *Link) leadsOutside() *errs.Error {
	if !l.In.HasDestinationHosts() {
		return nil
	}
	for _, u := range l.Routing.URLs() {
		canonical, _ := urlnorm.Canonical(u.URL) // without a host if it is refused
		if e := l.In.MayLeadTo(canonical.Host()); e != nil && !u.IsImage {
			return e.At(u.Field...).Under("routing")
		}
	}
	return l.In.MayLeadTo(l.Host())
}

// Refusals returns the errors of links with unsafe URLs, or with hosts that their API keys may not
// use.
func Refusals(links []*Link, unsafe map[destination.Destination]*errs.Error) map[*Link]*errs.Error {
	refused := map[*Link]*errs.Error{}
	for _, l := range links {
		if e := l.leadsOutside(); e != nil {
			refused[l] = e
		}
		for _, u := range l.Routing.URLs() {
			if e := unsafe[l.destination(u.URL)]; e != nil {
				refused[l] = errs.New(e.Kind, "%s", e.Message).At(u.Field...).Under("routing")
			}
		}
		if e := unsafe[l.destination(l.CanonicalURL)]; e != nil {
			refused[l] = errs.New(e.Kind, "%s", e.Message)
		}
	}
	return refused
}

// Refuse returns an UnsafeURL error for a link with a refused URL.
func (s *Store) Refuse(ctx context.Context, conn bun.IDB, l *Link) error {
	refused, err := s.refused(ctx, conn, []*Link{l})
	if e := refused[l]; e != nil {
		return e
	}
	return err
}
