package link

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
)

// refused returns an UnsafeURL error for each of the links of which the URL, or one of the routing, is
// refused by package destination. Every operation that creates, edits, restores or claims links calls it
// for those whose URLs are new or become effective.
func (s *Store) refused(ctx context.Context, conn bun.IDB, links []*Link) (map[*Link]*errs.Error, error) {
	unsafe, err := s.Destinations.Refused(ctx, conn, URLsOf(links)...)
	return Refusals(links, unsafe), err
}

// URLsOf returns the URLs of links and of their routing.
func URLsOf(links []*Link) []string {
	urls := make([]string, 0, len(links))
	for _, l := range links {
		urls = append(urls, l.CanonicalURL)
		for _, u := range l.Routing.URLs() {
			urls = append(urls, u.URL)
		}
	}
	return urls
}

// Refusals returns the errors of links whose URLs are unsafe.
func Refusals(links []*Link, unsafe map[string]*errs.Error) map[*Link]*errs.Error {
	refused := map[*Link]*errs.Error{}
	for _, l := range links {
		for _, u := range l.Routing.URLs() {
			if e := unsafe[u.URL]; e != nil {
				refused[l] = errs.New(e.Kind, "%s", e.Message).At(u.Field...).Under("routing")
			}
		}
		if e := unsafe[l.CanonicalURL]; e != nil {
			refused[l] = errs.New(e.Kind, "%s", e.Message)
		}
	}
	return refused
}

// Refuse returns an UnsafeURL error for a link of which a URL is refused.
func (s *Store) Refuse(ctx context.Context, conn bun.IDB, l *Link) error {
	refused, err := s.refused(ctx, conn, []*Link{l})
	if e := refused[l]; e != nil {
		return e
	}
	return err
}
