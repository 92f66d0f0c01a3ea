package link

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/validate"
)

// Found is a link as the operator sees it.
type Found struct {
	Link `bun:",extend"`

	Slug string `bun:",scanonly"`
	// ShortURL is where the link answers.
	ShortURL string `bun:"-"`
}

// Find finds links for the operator, in any workspace and state but purged, newest first and at
// most limit: by their id, by a short URL of this instance, or all that have the code, lead to the
// URL, or have the text in their title, note, URL or code. It returns InvalidInput.
func (s *Store) Find(ctx context.Context, what string, limit int) ([]Found, error) {
	what, err := validate.Opaque("What is looked for", what, 1, urlnorm.MaxBytes)
	if err != nil {
		return nil, err
	}
	found := []Found{}
	q := s.found(&found).Where("?TableAlias.purged_at IS NULL").Limit(int64(limit))
	if q, err = s.whatIs(ctx, q, what); err != nil {
		return nil, err
	}
	if err := q.Scan(db.AsSystem(ctx)); err != nil {
		return nil, fmt.Errorf("looking for links: %w", err)
	}
	for i, l := range found {
		found[i].ShortURL = s.ShortURLOf(l.Slug, l.Code, l.RootCode)
	}
	return found, nil
}

// whatIs asks for the one link that is meant, if it is clear which, and else goes through all
// links.
func (s *Store) whatIs(ctx context.Context, q *bun.SelectQuery, what string) (*bun.SelectQuery, error) {
	if id.Valid(id.Link, what) {
		return q.Where("?TableAlias.id = ?", what), nil
	}
	hash := []byte{} // no link's
	if u, err := urlnorm.Canonical(what); err == nil {
		at, err := s.Resolver.ParseShortURL(what)
		if err != nil {
			return nil, err
		}
		l, err := s.At(ctx, at)
		if err == nil {
			return q.Where("?TableAlias.id = ?", l.ID), nil
		}
		if !errs.Is(err, errs.NotFound) {
			return nil, err
		}
		sum := sha256.Sum256([]byte(u.String()))
		hash = sum[:]
	}
	return q.WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
		return s.DB.Contains(q, "link.search", Fold(what)).WhereOr("?TableAlias.canonical_hash = ?", hash)
	}), nil
}
