package moderation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// OperatorLink is a link of any workspace, for the operator.
type OperatorLink struct {
	link.Link `bun:",extend"`

	Slug     string `bun:",scanonly"`
	ShortURL string `bun:"-"`
}

// FindLinks returns at most limit links of any workspace for the operator, newest first, in every
// state but purged: the one with the id or at the short URL, or else all that have the code,
// redirect to the URL, or contain the text in their title, note, URL or code. It returns
// InvalidInput.
func (s *Store) FindLinks(ctx context.Context, query string, limit int) ([]OperatorLink, error) {
	query, err := validate.Opaque("What is looked for", query, 1, urlnorm.MaxBytes)
	if err != nil {
		return nil, err
	}
	found := []OperatorLink{}
	q := s.selectFound(&found).Where("?TableAlias.purged_at IS NULL").Limit(int64(limit))
	if q, err = s.whereMatches(ctx, q, query); err != nil {
		return nil, err
	}
	ctx = db.AsSystem(ctx)
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("selecting links: %w", err)
	}
	links := make([]*link.Link, 0, len(found))
	for i := range found {
		one := &found[i]
		one.ShortURL = s.Links.ShortURLBelow(one.Slug, &one.Link)
		links = append(links, &one.Link)
	}
	return found, link.LoadGranted(ctx, s.DB, links...)
}

// selectFound selects links of any workspace, newest first, with the workspace's slug.
func (s *Store) selectFound(found *[]OperatorLink) *bun.SelectQuery {
	return s.DB.NewSelect().Model(found).ColumnExpr("?TableColumns").ColumnExpr("w.slug").
		Join("JOIN workspaces AS w ON w.id = ?TableAlias.workspace_id").OrderExpr("?TableAlias.id DESC")
}

// whereMatches restricts q to the one link that the query identifies, or else to all that match it.
func (s *Store) whereMatches(ctx context.Context, q *bun.SelectQuery, query string) (*bun.SelectQuery, error) {
	if id.Valid(id.Link, query) {
		return q.Where("?TableAlias.id = ?", query), nil
	}
	hash := []byte{} // of no link
	if u, err := urlnorm.Canonical(query); err == nil {
		at, err := s.Links.Resolver.ParseShortURL(query)
		if err != nil {
			return nil, err
		}
		l, err := s.Links.At(ctx, at)
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
		return s.DB.Contains(q, "link.search", validate.Fold(query)).WhereOr("?TableAlias.canonical_hash = ?", hash)
	}), nil
}

// CodeCandidate is one of the codes that a URL can get in a workspace, and the links that hold it.
type CodeCandidate struct {
	Code string
	// Reserved reports that the server keeps the code for itself.
	Reserved bool
	// Holders are the links that have the code: one of the workspace, and one of any workspace
	// whose code works at the root.
	Holders []OperatorLink
}

// CodeHolders returns the candidate codes of a URL in a workspace, in the order of their use, with
// the links that have them in any workspace and state, including purged ones. It is for the
// operator. It returns InvalidURL.
func (s *Store) CodeHolders(ctx context.Context, workspaceID, raw string) ([]CodeCandidate, error) {
	u, err := link.Canonical(raw)
	if err != nil {
		return nil, err
	}
	candidates := make([]CodeCandidate, 0, shortcode.Salts)
	codes := make([]string, 0, shortcode.Salts)
	for salt := range shortcode.Salts {
		code := s.Links.Candidate(u.String(), workspaceID, salt)
		candidates, codes = append(candidates,
			CodeCandidate{Code: code, Reserved: shortcode.Reserved(code)}), append(codes, code)
	}
	var holders []OperatorLink
	err = s.selectFound(&holders).WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("?TableAlias.workspace_id = ? AND ?TableAlias.code IN (?)", workspaceID, bun.In(codes)).
			WhereOr("?TableAlias.root_code IN (?)", bun.In(codes))
	}).Scan(db.AsSystem(ctx))
	if err != nil {
		return nil, fmt.Errorf("looking up the holders of codes: %w", err)
	}
	for _, l := range holders {
		l.ShortURL = s.Links.ShortURLBelow(l.Slug, &l.Link)
		c := &candidates[slices.Index(codes, l.Code)]
		c.Holders = append(c.Holders, l)
	}
	return candidates, nil
}
