package link

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/shortcode"
)

// Candidate is one of the codes that a URL can get in a workspace, and the links that hold it.
type Candidate struct {
	Code string
	// Reserved reports that the server keeps the code for itself.
	Reserved bool
	// Holders are the links that have the code: one of the workspace, and one of any workspace
	// whose code works at the root.
	Holders []Found
}

// Holders returns the candidates of a URL in a workspace, in the order in which they are tried,
// with the links that hold them in any workspace and state, purged ones included. It is for the
// operator. It returns InvalidURL.
func (s *Store) Holders(ctx context.Context, workspaceID, raw string) ([]Candidate, error) {
	u, err := canonical(raw)
	if err != nil {
		return nil, err
	}
	candidates := make([]Candidate, 0, shortcode.Salts)
	codes := make([]string, 0, shortcode.Salts)
	for salt := range shortcode.Salts {
		code := s.candidate(u.String(), workspaceID, salt)
		candidates, codes = append(candidates, Candidate{Code: code, Reserved: shortcode.Reserved(code)}), append(codes, code)
	}
	var holders []Found
	err = s.found(&holders).WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("?TableAlias.workspace_id = ? AND ?TableAlias.code IN (?)", workspaceID, bun.In(codes)).
			WhereOr("?TableAlias.root_code IN (?)", bun.In(codes))
	}).Scan(db.AsSystem(ctx))
	if err != nil {
		return nil, fmt.Errorf("looking up the holders of codes: %w", err)
	}
	for _, l := range holders {
		l.ShortURL = s.ShortURLOf(l.Slug, l.Code, l.RootCode)
		c := &candidates[slices.Index(codes, l.Code)]
		c.Holders = append(c.Holders, l)
	}
	return candidates, nil
}

// found selects links of any workspace, newest first, with the workspace's slug.
func (s *Store) found(found *[]Found) *bun.SelectQuery {
	return s.DB.NewSelect().Model(found).ColumnExpr("?TableColumns").ColumnExpr("w.slug").
		Join("JOIN workspaces AS w ON w.id = ?TableAlias.workspace_id").OrderExpr("?TableAlias.id DESC")
}
